#include "graph/support/text.h"

#include <fmt/format.h>

namespace sardonyx::support {

namespace {

// Of the character at `i`, which moves to the last byte of it.
void append_escaped(std::string& out, std::string_view text, size_t& i) {
  const auto c = static_cast<unsigned char>(text[i]);
  if (c == '\n') {
    out += "\\n";
  } else if (c < 0x20 || c == 0x7f) {
    out += fmt::format("\\x{:02x}", c);
  } else if (c == 0xc2 && i + 1 < text.size() &&
             static_cast<unsigned char>(text[i + 1]) - 0x80u < 0x20u) {
    // U+0080..U+009F: a terminal takes some of them for the start of a control sequence.
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
  } else {
    out += text[i];
  }
}

}  // namespace

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

}  // namespace sardonyx::support
