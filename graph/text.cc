#include "graph/text.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace sardonyx::graph {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    const int more = lead < 0x80 ? 0 : lead < 0xc2 ? -1 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if (more < 0 || lead > 0xf4 || i + more >= text.size()) return false;
    for (int k = 1; k <= more; ++k) {
      if ((static_cast<uint8_t>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    i += more + 1;
  }
  return true;
}

}  // namespace

bool is_identifier(std::string_view name) {
  if (name.empty() || !is_letter(name[0]) || name.back() == '.') return false;
  for (const char c : name) {
    if (!is_letter(c) && !is_digit(c) && c != '.') return false;
  }
  return true;
}

std::string quote(std::string_view text) {
  const bool utf8 = is_utf8(text);
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !utf8)) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string quote_name(std::string_view name) {
  return is_identifier(name) ? std::string(name) : quote(name);
}

std::string float_text(float value) {
  if (std::isnan(value)) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return bits == 0x7fc00000U ? "nan" : fmt::format("nan({:#010x})", bits);
  }
  return fmt::format("{}", value);
}

std::string double_text(double value) {
  if (std::isnan(value)) {
    const auto bits = std::bit_cast<uint64_t>(value);
    return bits == 0x7ff8000000000000U ? "nan" : fmt::format("nan({:#018x})", bits);
  }
  return fmt::format("{}", value);
}

}  // namespace sardonyx::graph
