#include "runtime/text.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "graph/names.h"

namespace sardonyx::runtime {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::optional<double> parse_number(const std::string& text) {
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != std::string::npos) return {};
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value)) return {};
  return value;
}

namespace {

template <class T>
std::optional<T> parse_all(const std::string& text) {
  T value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return {};
  return value;
}

}  // namespace

std::optional<int64_t> parse_whole(const std::string& text) { return parse_all<int64_t>(text); }

std::optional<uint64_t> parse_unsigned(const std::string& text) {
  return parse_all<uint64_t>(text);
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789", kUnits = "KMGT";
  const std::string whole(text.substr(0, text.find_first_not_of(kDigits)));
  text.remove_prefix(whole.size());
  std::string fraction;
  if (text.starts_with('.')) {
    fraction = text.substr(1, text.find_first_not_of(kDigits, 1) - 1);
    if (fraction.empty()) return std::nullopt;
    text.remove_prefix(1 + fraction.size());
  }
  if (text.size() > 1 && text.starts_with(' ')) text.remove_prefix(1);
  int64_t unit = 1;
  if (!text.empty() && text != "B") {
    const size_t power = kUnits.find(static_cast<char>(std::toupper(text.front())));
    text.remove_prefix(1);
    if (power == std::string_view::npos || (!text.empty() && text != "iB")) return std::nullopt;
    unit = int64_t{1} << (10 * (power + 1));
  } else if (!fraction.empty()) {
    return std::nullopt;
  }
  const std::optional<int64_t> count = parse_whole(whole);
  int64_t bytes = 0;
  if (!count || __builtin_mul_overflow(*count, unit, &bytes)) return std::nullopt;
  const double part = parse_number("0." + fraction + "0").value_or(0) * static_cast<double>(unit);
  if (__builtin_add_overflow(bytes, static_cast<int64_t>(part), &bytes)) return std::nullopt;
  return bytes;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::vector<std::string> near = graph::near_names(name, candidates);
  return near.empty() ? "" : fmt::format(" (did you mean {}?)", join(near, " or "));
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string number_str(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

std::string loss_str(double value) {
  constexpr double kLong = 1e6;
  if (std::isnan(value)) return "nan";
  return std::abs(value) < kLong ? fmt::format("{:.4f}", value) : fmt::format("{:.4g}", value);
}

std::string bytes_str(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024.0 && unit < 4; ++unit) bytes /= 1024.0;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, kUnits[unit]);
}

std::string duration_str(double seconds) {
  if (seconds < 10.0) return fmt::format("{:.1f} s", std::max(seconds, 0.0));
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string count_str(int64_t count) {
  std::string text = std::to_string(count);
  for (int i = static_cast<int>(text.size()) - 3; i > (count < 0 ? 1 : 0); i -= 3) {
    text.insert(static_cast<size_t>(i), 1, ' ');
  }
  return text;
}

}  // namespace sardonyx::runtime
