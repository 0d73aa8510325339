#include "graph/text.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "graph/support/text.h"

namespace sardonyx::graph {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool is_identifier(std::string_view name) {
  if (name.empty() || !is_letter(name[0]) || name.back() == '.') return false;
  for (const char c : name) {
    if (!is_letter(c) && !is_digit(c) && c != '.') return false;
  }
  return true;
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const support::Character c = support::character_at(text, i);
    const std::string_view bytes = text.substr(i, c.bytes);
    if (c.code == '"' || c.code == '\\') {
      out += '\\';
      out += bytes;
    } else if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (c.shows) {
      out += bytes;
    } else {
      for (const char byte : bytes) out += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    }
    i += c.bytes;
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
