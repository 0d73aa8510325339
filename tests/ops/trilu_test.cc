// Triangles written out.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

const Tensor kNine = ints({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});

OpCase trilu(OpInput x, int64_t upper, OpInput k = left_out()) {
  return {.claim = fmt::format("Trilu {}", upper),
          .op = "Trilu",
          .inputs = {std::move(x), std::move(k)},
          .attributes = {{"upper", upper}},
          .must_run = {"trilu.ref"}};
}

void expect(int64_t upper, int64_t k, std::vector<int64_t> y) {
  OpCase c = trilu(given(kNine), upper, given(Tensor::scalar<int64_t>(k)));
  c.expected = {ints({3, 3}, y)};
  check_op(c);
}

TEST(Trilu, keeps_what_is_on_and_above_a_diagonal_or_below) {
  expect(1, 0, {1, 2, 3, 0, 5, 6, 0, 0, 9});
  expect(0, 0, {1, 0, 0, 4, 5, 0, 7, 8, 9});
  expect(1, 1, {0, 2, 3, 0, 0, 6, 0, 0, 0});
  expect(0, 1, {1, 2, 0, 4, 5, 6, 7, 8, 9});
  expect(1, -1, {1, 2, 3, 4, 5, 6, 0, 8, 9});
  expect(0, -1, {0, 0, 0, 4, 0, 0, 7, 8, 0});
}

TEST(Trilu, a_diagonal_outside_of_the_matrix_keeps_all_or_nothing) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (int64_t far : {int64_t{3}, kMost}) {
    expect(1, far, std::vector<int64_t>(9, 0));
    expect(0, far, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    expect(1, -far, {1, 2, 3, 4, 5, 6, 7, 8, 9});
    expect(0, -far, std::vector<int64_t>(9, 0));
  }
}

TEST(Trilu, the_gradient_is_that_of_the_triangle) {
  OpCase c = trilu(given(floats({2, 3}, {1, 2, 3, 4, 5, 6})), 1);
  c.expected = {floats({2, 3}, {1, 2, 3, 0, 5, 6})};
  c.dy = {floats({2, 3}, {10, 20, 30, 40, 50, 60})};
  c.expected_gradients = {floats({2, 3}, {10, 20, 30, 0, 50, 60})};
  check_op(c);
}

TEST(Trilu, batches_of_matrices_any_type_and_nothing) {
  OpCase c = trilu(random({5, 2, 4, 3}), 0, constant_ints({1}));
  c.batch = true;
  check_op(c);
  c = trilu(given(bools({2, 2}, {true, true, true, true})), 0);
  c.expected = {bools({2, 2}, {true, false, true, true})};
  check_op(c);
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{3, 0}, std::vector<int64_t>{2, 0, 3}}) {
    c = trilu(random(shape), 1);
    c.zero_gradients = {0};
    check_op(c);
  }
}

TEST(Trilu, trilu_c1_rejects_vectors) {
  EXPECT_NE(infer_error(trilu(random({3}), 1)).find("C1: input 0 has type float[3], expected 2"),
            std::string::npos);
}

TEST(Trilu, trilu_c2_rejects_several_diagonals_and_other_types) {
  EXPECT_NE(infer_error(trilu(random({3, 3}), 1, given(ints({2}, {0, 1}))))
                .find("C2: k has type int64[2], expected int64 of one element"),
            std::string::npos);
  EXPECT_NE(infer_error(trilu(random({3, 3}), 1, exactly(given(floats({}, {1})))))
                .find("C2: k has type float[], expected int64"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
