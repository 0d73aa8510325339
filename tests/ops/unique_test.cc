// Unique against numpy.unique, in both orders, of elements and of slices.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

OpCase unique(Tensor x, std::vector<Tensor> expected, graph::Attributes attributes = {}) {
  return {.claim = "unique",
          .op = "Unique",
          .inputs = {constant(std::move(x))},
          .attributes = std::move(attributes),
          .num_outputs = 4,
          .expected = std::move(expected),
          .must_run = {"unique.ref"}};
}

const Tensor kRows = floats({4, 3}, {1, 0, 2, 1, 0, 2, 0, 5, 2, 1, 0, 2});

TEST(Unique, of_elements_in_ascending_order_or_as_they_come) {
  check_op(
      unique(kRows, {floats({4}, {0, 1, 2, 5}), ints({4}, {1, 0, 2, 7}),
                     ints({12}, {1, 0, 2, 1, 0, 2, 0, 3, 2, 1, 0, 2}), ints({4}, {4, 3, 4, 1})}));
  check_op(unique(ints({6}, {2, 1, 1, 3, 4, 3}),
                  {ints({4}, {2, 1, 3, 4}), ints({4}, {0, 1, 3, 4}), ints({6}, {0, 1, 1, 2, 3, 2}),
                   ints({4}, {1, 2, 2, 1})},
                  {{"sorted", int64_t{0}}}));
  check_op(unique(bools({3}, {true, false, true}), {bools({2}, {false, true}), ints({2}, {1, 0}),
                                                    ints({3}, {1, 0, 1}), ints({2}, {1, 2})}));
}

TEST(Unique, of_slices_along_an_axis) {
  check_op(unique(kRows,
                  {floats({2, 3}, {0, 5, 2, 1, 0, 2}), ints({2}, {2, 0}), ints({4}, {1, 1, 0, 1}),
                   ints({2}, {1, 3})},
                  {{"axis", int64_t{0}}}));
  check_op(unique(
      ints({2, 4}, {3, 1, 3, 1, 0, 2, 0, 2}),
      {ints({2, 2}, {3, 1, 0, 2}), ints({2}, {0, 1}), ints({4}, {0, 1, 0, 1}), ints({2}, {2, 2})},
      {{"axis", int64_t{-1}}, {"sorted", int64_t{0}}}));
  check_op(unique(
      ints({2, 4}, {3, 1, 3, 1, 0, 2, 0, 2}),
      {ints({2, 2}, {1, 3, 2, 0}), ints({2}, {1, 0}), ints({4}, {1, 0, 1, 0}), ints({2}, {2, 2})},
      {{"axis", int64_t{1}}}));
}

TEST(Unique, nan_comes_last_and_equals_itself) {
  check_op(unique(floats({5}, {NAN, 1, NAN, -INFINITY, 1}),
                  {floats({3}, {-INFINITY, 1, NAN}), ints({3}, {3, 1, 0}),
                   ints({5}, {2, 1, 2, 0, 1}), ints({3}, {1, 2, 2})}));
}

TEST(Unique, of_nothing_and_with_outputs_left_out) {
  check_op(unique(ints({0}, {}), {ints({0}, {}), ints({0}, {}), ints({0}, {}), ints({0}, {})}));
  OpCase c =
      unique(ints({3}, {5, 5, 4}), {ints({2}, {4, 5}), Tensor(), Tensor(), ints({2}, {1, 2})});
  c.wanted_outputs = {true, false, false, true};
  check_op(c);
}

TEST(Unique, u1_u2_u3_reject_other_types_data_and_axes_out_of_range) {
  OpCase c = unique(kRows, {}, {{"axis", int64_t{2}}});
  EXPECT_EQ(infer_error(c).find("U3: axis 2 is out of range for float[4,3]"), 0u);
  c.inputs = {random({4, 3})};
  EXPECT_EQ(infer_error(c).find("input 0 (X) 'x0' must be known before training starts"), 0u);
  c.inputs = {constant(Tensor(DType::kComplex64, {1}))};
  EXPECT_EQ(infer_error(c).find("U1: x is complex64[1], expected numbers or booleans"), 0u);
}

}  // namespace
}  // namespace sardonyx::test
