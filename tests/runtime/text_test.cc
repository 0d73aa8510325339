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

}  // namespace
}  // namespace sardonyx::runtime
