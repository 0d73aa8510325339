// Text from a user's file on its way into a message: quoted, cut to a sane length, and with every
// control character escaped, so that a name can neither forge a line of output nor drive the
// terminal.
#pragma once

#include <string>
#include <string_view>

namespace sardonyx::support {

// `conv1.weight`, `a\x1b[31m`, ...; longer than 200 bytes: the first 200 and "...".
std::string escaped(std::string_view text);
// A whole message as it is printed, of any length: the same, but line ends in front of an indented
// line (a context, a list) stay, and so does the last one.
std::string printable(std::string_view message);
// escaped() between single quotes.
std::string in_quotes(std::string_view text);

}  // namespace sardonyx::support
