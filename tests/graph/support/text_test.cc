// Text from a user's file in a message.
#include "graph/support/text.h"

#include <gtest/gtest.h>

namespace sardonyx::support {
namespace {

TEST(Text, a_name_drives_no_terminal_and_forges_no_line) {
  EXPECT_EQ(escaped("a\x1b[31m\r\nerror: b\xc2\x9b"), "a\\x1b[31m\\x0d\\nerror: b\\x9b");
  EXPECT_EQ(escaped("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(escaped(std::string(300, 'a')), std::string(200, 'a') + "...");
  EXPECT_EQ(in_quotes("a\tb"), "'a\\x09b'");
}

TEST(Text, a_message_keeps_its_own_lines_only) {
  EXPECT_EQ(printable("error: 'a\x1b[2J\nerror: b' is wrong\n  while reading\n    c\n"),
            "error: 'a\\x1b[2J\\nerror: b' is wrong\n  while reading\n    c\n");
  EXPECT_EQ(printable(std::string(300, 'a')), std::string(300, 'a'));
}

}  // namespace
}  // namespace sardonyx::support
