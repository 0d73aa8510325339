// Sizes that no tensor could have: shape rules say so instead of wrapping around. (Under the
// undefined-behaviour sanitizer, that nothing overflows on the way to the message.)
#include "ops/core/sizes.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "graph/parse.h"
#include "ops/core/infer.h"

namespace sardonyx::test {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kLargest = int64_t{1} << 62;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    return message.substr(0, message.find('\n'));
  }
  return "";
}

TEST(Sizes, are_exact_up_to_two_to_the_62) {
  EXPECT_EQ(ops::checked_sum(kLargest - 1, 1), kLargest);
  EXPECT_EQ(ops::checked_sum(kMax, -kLargest), kLargest - 1);
  EXPECT_EQ(ops::checked_product(-(int64_t{1} << 31), int64_t{1} << 31), -kLargest);
  EXPECT_EQ(ops::checked_product(kMin, 0), 0);
}

TEST(Sizes, beyond_are_refused_with_both_operands) {
  EXPECT_EQ(message_of([] { ops::checked_sum(4, kMax); }),
            "4 + 9223372036854775807 is beyond the largest size, 2^62");
  EXPECT_EQ(message_of([] { ops::checked_sum(kMin, -1); }),
            "-9223372036854775808 + -1 is beyond the largest size, 2^62");
  EXPECT_EQ(message_of([] { ops::checked_product(kMin, kMin); }),
            "-9223372036854775808 * -9223372036854775808 is beyond the largest size, 2^62");
}

// What the shape rules say to a graph of inputs, constants and nodes; "" when nothing is wrong.
std::string refusal(const std::string& inputs, const std::string& constants,
                    const std::string& nodes) {
  const auto graph =
      graph::parse("<ir_version: 8, opset_import: [\"\" : 13]>\ng (" + inputs +
                   ") => (float[?] y)\n<" + constants + ">\n{ y = " + nodes + " }\n");
  return message_of([&] {
    for (graph::Node& node : graph->nodes()) ops::infer_node(node);
  });
}

TEST(HostileSizes, of_an_operand_are_refused_before_any_rule_sees_them) {
  EXPECT_EQ(refusal("float[N, 9223372036854775807] x", "", "Relu(x)"),
            "shape [9223372036854775807] has more than 2^62 elements");
  EXPECT_EQ(refusal("float[0, 4611686018427387904, 4] x", "", "Flatten(x)"),
            "shape [0,4611686018427387904,4] has more than 2^62 elements");
}

TEST(HostileSizes, of_pads_are_refused) {
  EXPECT_EQ(refusal("float[4] x", "int64[2] p = {9223372036854775807, 1}", "Pad(x, p)"),
            "4 + 9223372036854775807 is beyond the largest size, 2^62");
  EXPECT_EQ(refusal("float[4] x", "int64[2] p = {0, -9223372036854775808}", "Pad(x, p)"),
            "4 + -9223372036854775808 is beyond the largest size, 2^62");
  EXPECT_EQ(refusal("float[4] x", "int64[2] p = {4611686018427387900, 4611686018427387900}",
                    "Pad<mode = \"reflect\">(x, p)"),
            "4611686018427387904 + 4611686018427387900 is beyond the largest size, 2^62");
  EXPECT_EQ(refusal("float[4] x", "int64[2] p = {4611686018427387900, -4611686018427387899}",
                    "Pad(x, p)"),
            "");
}

TEST(HostileSizes, of_joined_and_repeated_axes_are_refused) {
  EXPECT_EQ(refusal("float[0, 4611686018427387904] a, float[0, 1] b", "", "Concat<axis = 1>(a, b)"),
            "4611686018427387904 + 1 is beyond the largest size, 2^62");
  EXPECT_EQ(refusal("float[0, 4] x", "int64[2] r = {1, 4611686018427387904}", "Tile(x, r)"),
            "4 * 4611686018427387904 is beyond the largest size, 2^62");
  EXPECT_EQ(refusal("float[0, 1] x", "int64[3] s = {9223372036854775807, 1, 2}", "Expand(x, s)"),
            "shape [9223372036854775807,0,2] has more than 2^62 elements");
}

TEST(HostileSizes, of_reshapes_are_refused) {
  EXPECT_EQ(
      refusal("float[4] x", "int64[5] s = {4294967296, 4294967296, 4294967296, 4294967296, -1}",
              "Reshape(x, s)"),
      "shape [4294967296,4294967296,4294967296,4294967296] has more than 2^62 elements");
  EXPECT_EQ(refusal("float[N, 1] x", "int64[2] s = {4611686018427387904, 4611686018427387904}",
                    "Reshape(x, s)"),
            "shape [4611686018427387904,4611686018427387904] has more than 2^62 elements");
  EXPECT_EQ(refusal("float[A, B, 4611686018427387904] x",
                    "int64[3] s = {0, 0, 4611686018427387904}", "Reshape(x, s)"),
            "");
  EXPECT_EQ(refusal("float[A, B, 4611686018427387904] x",
                    "int64[4] s = {0, 0, 0, 4611686018427387904}", "Reshape(x, s)"),
            "the shape has too many elements to count");
}

TEST(HostileSizes, in_the_symbol_of_an_axis_are_refused) {
  EXPECT_EQ(refusal("float[\"N*4294967296*4294967296\", 2] x", "", "Flatten<axis = 0>(x)"), "");
  EXPECT_EQ(refusal("float[\"N*2147483648\", 4611686018427387904] x", "", "Flatten<axis = 0>(x)"),
            "2147483648 * 4611686018427387904 is beyond the largest size, 2^62");
}

TEST(HostileSizes, of_ranges_are_refused) {
  EXPECT_EQ(
      refusal("",
              "int64[] a = {-9223372036854775808}, int64[] b = {9223372036854775807}, "
              "int64[] c = {1}",
              "Range(a, b, c)"),
      "the range from -9223372036854775808 to 9223372036854775807 in steps of 1 has more than "
      "2^62 numbers");
  EXPECT_EQ(refusal("", "float[] a = {0}, float[] b = {inf}, float[] c = {1}", "Range(a, b, c)"),
            "the range never ends");
}

TEST(HostileSizes, of_groups_are_refused) {
  EXPECT_EQ(
      refusal("float[1, 4, 8] x, float[0, 4, 1] w", "", "Conv<group = 4611686018427387904>(x, w)"),
      "4 * 4611686018427387904 is beyond the largest size, 2^62");
}

TEST(HostileSizes, of_windows_are_refused) {
  const std::string x = "float[1, 1, 8] x, float[1, 1, 2] w";
  EXPECT_EQ(refusal(x, "", "Conv<pads = [2147483647, 2147483647], strides = [1073741824]>(x, w)"),
            "spatial axis 0 is too long: an input of 8 with pads 2147483647 and 2147483647, a "
            "window over 2 cells and a stride of 1073741824 come to more than 2147483647 together");
  EXPECT_EQ(refusal(x, "", "Conv<dilations = [2147483647]>(x, w)"),
            "spatial axis 0 is too long: an input of 8 with pads 0 and 0, a window over 2147483648 "
            "cells and a stride of 1 come to more than 2147483647 together");
  EXPECT_EQ(refusal(x, "", "MaxPool<kernel_shape = [2], strides = [2147483648]>(x)"),
            "strides [2147483648] has the entry 2147483648, expected 1 to 2147483647");
  EXPECT_EQ(refusal("float[0, 1, 4611686018427387904] x", "",
                    "MaxPool<kernel_shape = [2], auto_pad = \"SAME_UPPER\">(x)"),
            "spatial axis 0 is too long: an input of 4611686018427387904 with pads 0 and 0, a "
            "window over 2 cells and a stride of 1 come to more than 2147483647 together");
  EXPECT_EQ(refusal("float[1, 1, 8, 8, 8] x", "",
                    "AveragePool<kernel_shape = [536870912, 536870912, 536870912], pads = "
                    "[268435456, 268435456, 268435456, 268435456, 268435456, 268435456]>(x)"),
            "shape [536870912,536870912,536870912] has more than 2^62 elements");
}

TEST(HostileSizes, of_the_rank_that_a_shape_gives_are_refused) {
  const std::string inputs = "int64[1099511627776] s, float[N] x";
  for (const char* nodes : {"ConstantOfShape(s)", "Reshape(x, s)", "Expand(x, s)"}) {
    const std::string message = refusal(inputs, "", nodes);
    EXPECT_NE(message.find("lists the sizes of 1099511627776 axes; at most 1024 are supported"),
              std::string::npos)
        << nodes << ": " << message;
  }
}

TEST(HostileSizes, of_slices_are_clamped) {
  EXPECT_EQ(refusal("float[4] x",
                    "int64[1] a = {-9223372036854775808}, int64[1] b = {9223372036854775807}, "
                    "int64[1] d = {0}, int64[1] e = {9223372036854775807}",
                    "Slice(x, a, b, d, e)"),
            "");
}

}  // namespace
}  // namespace sardonyx::test
