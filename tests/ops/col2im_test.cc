// Col2Im: overlapping blocks by hand, every geometry through its gradient, constraints.
#include <gtest/gtest.h>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using Ints = std::vector<int64_t>;

OpCase col2im(OpInput x, Ints image, Ints block, Attributes attributes = {}) {
  OpCase c;
  c.claim = c.op = "Col2Im";
  c.inputs = {std::move(x), constant_ints(std::move(image)), constant_ints(std::move(block))};
  c.attributes = std::move(attributes);
  c.must_run = {"col2im.ref"};
  c.batch = true;
  return c;
}

TEST(Col2Im, adds_up_what_overlaps) {
  // Blocks of 2 cells at 0, 1 and 2 of a line of 4: columns are blocks.
  OpCase c = col2im(given(doubles({1, 2, 3}, {1, 2, 3, 10, 20, 30})), {4}, {2});
  c.expected = {doubles({1, 1, 4}, {1, 12, 23, 30})};
  c.dy = {doubles({1, 1, 4}, {1, 2, 3, 4})};
  c.expected_gradients = {doubles({1, 2, 3}, {1, 2, 3, 2, 3, 4})};
  check_op(c);
}

TEST(Col2Im, puts_blocks_that_do_not_overlap_side_by_side) {
  OpCase c = col2im(given(doubles({1, 5, 5}, {1,  6,  11, 16, 21, 2,  7,  12, 17, 22, 3,  8, 13,
                                              18, 23, 4,  9,  14, 19, 24, 5,  10, 15, 20, 25})),
                    {5, 5}, {1, 5});
  c.expected = {doubles({1, 1, 5, 5}, {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,
                                       14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25})};
  check_op(c);
}

TEST(Col2Im, leaves_out_what_lies_in_the_pads) {
  // One block of 3 cells, 2 apart, around a line of 3: its ends are outside.
  OpCase c = col2im(given(doubles({1, 3, 1}, {1, 2, 4})), {3}, {3},
                    {{"pads", Ints{1, 1}}, {"dilations", Ints{2}}});
  c.expected = {doubles({1, 1, 3}, {0, 2, 0})};
  c.dy = {doubles({1, 1, 3}, {1, 2, 4})};
  c.expected_gradients = {doubles({1, 3, 1}, {0, 2, 0})};
  check_op(c);
}

TEST(Col2Im, every_geometry) {
  check_op(col2im(random({2, 2 * 6, 4}), {4, 6}, {2, 3}, {{"strides", Ints{2, 3}}}));
  check_op(col2im(random({2, 3 * 4, 10}), {3, 5}, {2, 2},
                  {{"pads", Ints{1, 0, 2, 0}}, {"strides", Ints{1, 2}}}));
  check_op(col2im(random({1, 4, 6}), {5, 4}, {2, 2}, {{"dilations", Ints{2, 2}}}));
  check_op(col2im(random({1, 2 * 4, 8}), {2, 3, 4}, {1, 2, 2}, {{"strides", Ints{1, 1, 2}}}));
}

TEST(Col2Im, its_gradient_has_one_too) {
  OpCase c;
  c.claim = c.op = "Im2Col";
  c.domain = "sardonyx";
  c.inputs = {random({2, 2, 4, 5})};
  c.attributes = {{"block_shape", Ints{2, 3}}, {"pads", Ints{0, 1, 0, 1}}};
  c.batch = true;
  check_op(c);
}

TEST(Col2Im, constraints) {
  const auto error = [](Ints x, Ints image, Ints block, Attributes attributes = {}) {
    return infer_error(col2im(random(std::move(x)), std::move(image), std::move(block),
                              std::move(attributes)))
        .substr(0, 3);
  };
  EXPECT_EQ(error({1, 4, 9}, {4, 4}, {2, 2}), "");
  EXPECT_EQ(error({1, 4, 9}, {4, 4}, {2}), "B1:");
  EXPECT_EQ(error({1, 4, 9}, {4, 4}, {2, 0}), "B1:");
  EXPECT_EQ(error({4, 9}, {4, 4}, {2, 2}), "B2:");
  EXPECT_EQ(error({1, 5, 9}, {4, 4}, {2, 2}), "B2:");
  EXPECT_EQ(error({1, 4, 8}, {4, 4}, {2, 2}), "B3:");
  EXPECT_EQ(error({1, 4, 9}, {4, 4}, {2, 2}, {{"strides", Ints{0, 1}}}), "W2:");
  EXPECT_EQ(error({1, 36, 1}, {4, 4}, {6, 6}), "W6:");
}

}  // namespace
}  // namespace sardonyx::test
