// Determinants and cofactors worked out by hand.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

OpCase det(OpInput x) {
  return {.claim = "Det", .op = "Det", .inputs = {std::move(x)}, .must_run = {"det.ref"}};
}

TEST(Det, of_one_matrix_is_one_number) {
  OpCase c = det(given(floats({3, 3}, {2, -1, 3, 4, 0.5f, 1, -2, 3, 5})));
  c.expected = {floats({}, {60})};
  c.dy = {floats({}, {2})};
  c.expected_gradients = {floats({3, 3}, {-1, -44, 26, 28, 32, -8, -5, 20, 10})};
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[]");
  c = det(given(floats({1, 1}, {-7})));
  c.expected = {floats({}, {-7})};
  c.dy = {floats({}, {3})};
  c.expected_gradients = {floats({1, 1}, {3})};
  check_op(c);
}

TEST(Det, the_sign_follows_every_exchange_of_rows) {
  OpCase c = det(given(floats({3, 2, 2}, {0, 1, 1, 0, 1, 0, 0, 1, 1, 2, 3, 4})));
  c.expected = {floats({3}, {-1, 1, -2})};
  check_op(c);
}

TEST(Det, singular_matrices_have_their_cofactors) {
  OpCase c = det(given(floats({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})));  // of rank 2
  c.expected = {floats({}, {0})};
  c.expected_tolerance = {0, 1e-12};
  c.dy = {floats({}, {1})};
  c.expected_gradients = {floats({3, 3}, {-3, 6, -3, 6, -12, 6, -3, 6, -3})};
  check_op(c);
  c = det(given(floats({3, 3}, {1, 2, 3, 2, 4, 6, -1, -2, -3})));  // of rank 1
  c.expected = {floats({}, {0})};
  c.zero_gradients = {0};
  check_op(c);
  c = det(given(floats({2, 2}, {0, 0, 0, 0})));
  c.expected = {floats({}, {0})};
  c.zero_gradients = {0};
  check_op(c);
  c = det(given(floats({2, 2}, {0, 0, 0, 5})));
  c.dy = {floats({}, {1})};
  c.expected_gradients = {floats({2, 2}, {5, 0, 0, 0})};
  check_op(c);
}

TEST(Det, batches_of_matrices_large_ones_and_empty_ones) {
  OpCase c = det(random({5, 2, 4, 4}));
  c.batch = true;
  check_op(c);
  check_op(det(random({9, 9})));
  c = det(random({2, 0, 0}));
  c.expected = {floats({2}, {1, 1})};
  c.zero_gradients = {0};
  check_op(c);
}

TEST(Det, nan_is_not_lost) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  OpCase c = det(given(floats({2, 2, 2}, {kNan, 0, 0, 0, 1, 2, kNan, 4})));
  c.expected = {floats({2}, {kNan, kNan})};
  c.differentiate = std::vector<int>{};
  check_op(c);
}

TEST(Det, det_c1_rejects_integers) {
  EXPECT_NE(infer_error(det(given(ints({1, 1}, {1}))))
                .find("C1: input 0 is int64, expected a floating type"),
            std::string::npos);
}

TEST(Det, det_c2_rejects_vectors) {
  EXPECT_NE(infer_error(det(random({3}))).find("C2: input 0 has type float[3], expected 2 axes"),
            std::string::npos);
}

TEST(Det, det_c3_rejects_matrices_that_are_not_square) {
  EXPECT_NE(infer_error(det(random({4, 2, 3})))
                .find("C3: input 0 has type float[4,2,3], expected square matrices"),
            std::string::npos);
}

TEST(Det, det_c4_rejects_gradients_of_another_shape) {
  const OpCase c = {.claim = "c4",
                    .domain = "sardonyx",
                    .op = "DetGrad",
                    .inputs = {random({4, 2, 2}), random({2})}};
  EXPECT_NE(infer_error(c).find("C4: x has type float[4,2,2], but dy has type float[2]"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
