// Numbers as people read them.
#include "runtime/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sardonyx::runtime {
namespace {

TEST(Text, a_loss_has_four_places_until_it_is_long) {
  EXPECT_EQ(loss_str(0.0), "0.0000");
  EXPECT_EQ(loss_str(2.30258), "2.3026");
  EXPECT_EQ(loss_str(-999999.0), "-999999.0000");
  EXPECT_EQ(loss_str(1e6), "1e+06");
  EXPECT_EQ(loss_str(-1.23456e30), "-1.235e+30");
  EXPECT_EQ(loss_str(HUGE_VAL), "inf");
}

TEST(Text, a_nan_has_no_sign) {
  EXPECT_EQ(loss_str(std::copysign(NAN, -1.0)), "nan");
  EXPECT_EQ(number_str(std::copysign(NAN, -1.0)), "nan");
  EXPECT_EQ(number_str(-HUGE_VAL), "-inf");
  EXPECT_EQ(number_str(0.1), "0.1");
}

TEST(Text, bytes_are_read_with_binary_units) {
  EXPECT_EQ(parse_bytes("1"), 1);
  EXPECT_EQ(parse_bytes("8388608"), 8388608);
  EXPECT_EQ(parse_bytes("512 B"), 512);
  EXPECT_EQ(parse_bytes("512KiB"), 512 << 10);
  EXPECT_EQ(parse_bytes("512k"), 512 << 10);
  EXPECT_EQ(parse_bytes("8M"), 8 << 20);
  EXPECT_EQ(parse_bytes("8MiB"), 8 << 20);
  EXPECT_EQ(parse_bytes("2.4 MiB"), 2516582);
  EXPECT_EQ(parse_bytes("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(parse_bytes("2T"), int64_t{2} << 40);
  EXPECT_EQ(parse_bytes("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(parse_bytes("8388607.9999T"), INT64_MAX - 109951162);
}

TEST(Text, what_are_no_bytes_is_not_read) {
  for (const char* text : {"",         " ",
                           "M",        "-1",
                           "-1M",      "+1M",
                           "1.5",      "1.M",
                           ".5M",      "8MB",
                           "8Mi",      "8 ",
                           " 8",       "8  M",
                           "8MiB ",    "1e3",
                           "1e3M",     "0x10",
                           "8X",       "8,5M",
                           "nan",      "9223372036854775808",
                           "8388608T", "99999999999999999999M"}) {
    EXPECT_FALSE(parse_bytes(text)) << "'" << text << "'";
  }
}

}  // namespace
}  // namespace sardonyx::runtime
