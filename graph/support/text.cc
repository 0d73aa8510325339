#include "graph/support/text.h"

#include <fmt/format.h>

namespace sardonyx::support {

namespace {

bool turns_or_breaks_text(uint32_t code) {
  return code == 0x061c || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

// U+0080..U+009F: a terminal takes some of them for the start of a control sequence.
bool is_control(uint32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

// Of the character at `i`, which moves to the last byte of it.
void append_escaped(std::string& out, std::string_view text, size_t& i) {
  const Character c = character_at(text, i);
  if (c.shows) {
    out += text.substr(i, c.bytes);
  } else if (c.code == '\n') {
    out += "\\n";
  } else {
    out += c.code > 0xff ? fmt::format("\\u{:04x}", c.code) : fmt::format("\\x{:02x}", c.code);
  }
  i += c.bytes - 1;
}

}  // namespace

Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[at + k]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead, !is_control(lead)};
  const Character stray{1, lead, false};
  const size_t bytes = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
  if (bytes == 1 || at + bytes > text.size()) return stray;
  uint32_t code = lead & (0x7fu >> bytes);
  for (size_t k = 1; k < bytes; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return stray;
    code = code << 6 | (byte(k) & 0x3f);
  }
  const uint32_t least = bytes == 2 ? 0x80 : bytes == 3 ? 0x800 : 0x10000;
  if (code < least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return stray;
  return {bytes, code, !is_control(code) && !turns_or_breaks_text(code)};
}

std::string escaped(std::string_view text) {
  constexpr size_t kLongest = 200;
  std::string out;
  for (size_t i = 0; i < text.size() && i < kLongest; ++i) append_escaped(out, text, i);
  if (text.size() > kLongest) out += "...";
  return out;
}

std::string printable(std::string_view message) {
  std::string out;
  for (size_t i = 0; i < message.size(); ++i) {
    const std::string_view rest = message.substr(i);
    if (rest == "\n" || rest.starts_with("\n  ")) {
      out += '\n';
    } else {
      append_escaped(out, message, i);
    }
  }
  return out;
}

std::string in_quotes(std::string_view text) { return "'" + escaped(text) + "'"; }

std::string printable_json(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (size_t i = 0; i < json.size();) {
    const Character c = character_at(json, i);
    if (c.shows) {
      out += json.substr(i, c.bytes);
    } else {
      out += fmt::format("\\u{:04x}", c.code);
    }
    i += c.bytes;
  }
  return out;
}

}  // namespace sardonyx::support
