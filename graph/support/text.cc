#include "graph/support/text.h"

#include <fmt/format.h>

namespace sardonyx::support {

std::string escaped(std::string_view text) {
  constexpr size_t kLongest = 200;
  std::string out;
  for (size_t i = 0; i < text.size() && i < kLongest; ++i) {
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
  if (text.size() > kLongest) out += "...";
  return out;
}

std::string in_quotes(std::string_view text) { return "'" + escaped(text) + "'"; }

}  // namespace sardonyx::support
