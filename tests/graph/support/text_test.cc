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

TEST(Text, marks_that_turn_text_or_end_lines_and_bytes_that_are_no_text_are_escaped) {
  EXPECT_EQ(escaped("a\u202eb\u2066c\u200fd\u061ce\u2028"),
            "a\\u202eb\\u2066c\\u200fd\\u061ce\\u2028");
  EXPECT_EQ(escaped("\xff \xe2\x80 \xc0\x80 \xed\xa0\x80 \xf5"),
            "\\xff \\xe2\\x80 \\xc0\\x80 \\xed\\xa0\\x80 \\xf5");
  EXPECT_EQ(escaped("\u5c42 \U0001f600 e\u0301"), "\u5c42 \U0001f600 e\u0301");
}

TEST(Text, json_stays_the_same_document) {
  EXPECT_EQ(printable_json("{\"a\u202e\x7f\u009b\":\"\u5c42\"}"),
            "{\"a\\u202e\\u007f\\u009b\":\"\u5c42\"}");
}

}  // namespace
}  // namespace sardonyx::support
