// Text from a user's file on its way into a message: quoted, cut to a sane length, and with
// everything escaped that a terminal doesn't simply show, so that a name can neither forge a line
// of output, nor drive the terminal, nor turn what stands around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sardonyx::support {

// The character at a place in UTF-8.
struct Character {
  size_t bytes = 1;
  uint32_t code = 0;
  // Not: a byte that isn't UTF-8 (which is its own code then), a control character, a mark that
  // ends lines or decides the direction of text.
  bool shows = false;
};
Character character_at(std::string_view text, size_t at);

// `conv1.weight`, `a\x1b[31m`, `a\u202eb`, ...; longer than 200 bytes: the first 200 and "...".
std::string escaped(std::string_view text);
// A whole message as it is printed, of any length: the same, but line ends in front of an indented
// line (a context, a list) stay, and so does the last one.
std::string printable(std::string_view message);
// escaped() between single quotes.
std::string in_quotes(std::string_view text);
// JSON in one line: the same document, with \uNNNN for what doesn't show.
std::string printable_json(std::string_view json);

}  // namespace sardonyx::support
