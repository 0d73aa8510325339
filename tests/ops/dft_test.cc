// Transforms of short signals; the numbers are numpy's (fft, ifft, rfft, irfft).
#include <gtest/gtest.h>

#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

struct Form {
  int64_t inverse = 0, onesided = 0;
};

OpCase dft(OpInput x, Form form = {}, OpInput length = left_out(), OpInput axis = left_out()) {
  return {.claim = fmt::format("DFT inverse {} onesided {}", form.inverse, form.onesided),
          .op = "DFT",
          .inputs = {std::move(x), std::move(length), std::move(axis)},
          .attributes = {{"inverse", form.inverse}, {"onesided", form.onesided}},
          .must_run = {"dft.ref", "dft.factors"}};
}

constexpr Form kBack = {1, 0}, kHalf = {0, 1}, kFromHalf = {1, 1};
const Tensor kReal = floats({4, 1}, {1, 2, 4, -1});
const Tensor kComplex = floats({3, 2}, {1, 2, 3, -1, -2, 0.5f});

void expect(OpCase c, Tensor y) {
  c.expected = {std::move(y)};
  check_op(c);
}

TEST(Dft, of_real_and_complex_numbers) {
  expect(dft(given(kReal)), floats({4, 2}, {6, 0, -3, -3, 4, 0, -3, 3}));
  expect(dft(given(kComplex)),
         floats({3, 2}, {2, 1.5f, -0.79903811f, -2.08012702f, 1.79903811f, 6.58012702f}));
}

TEST(Dft, back_again_divides_by_the_length) {
  expect(dft(given(kComplex), kBack),
         floats({3, 2}, {0.66666667f, 0.5f, 0.59967937f, 2.19337567f, -0.26634604f, -0.69337567f}));
}

TEST(Dft, a_length_cuts_the_signal_or_adds_zeros) {
  expect(dft(given(kReal), {}, constant_ints({3})),
         floats({3, 2}, {7, 0, -2, 1.73205081f, -2, -1.73205081f}));
  expect(dft(given(kReal), kBack, constant_ints({5})),
         floats({5, 2}, {1.2f, 0, -0.1618034f, 0.96820786f, 0.0618034f, -0.71594242f, 0.0618034f,
                         0.71594242f, -0.1618034f, -0.96820786f}));
}

TEST(Dft, half_a_spectrum_is_enough_for_real_numbers) {
  expect(dft(given(kReal), kHalf), floats({3, 2}, {6, 0, -3, -3, 4, 0}));
  expect(dft(given(kReal), kHalf, constant_ints({6})),
         floats({4, 2}, {6, 0, 1, -5.19615242f, -3, 1.73205081f, 4, 0}));
}

TEST(Dft, half_a_spectrum_becomes_real_numbers) {
  const auto back = [](OpInput length) {
    return dft(given(kComplex), kFromHalf, std::move(length));
  };
  expect(back(left_out()), floats({4, 1}, {1.25f, 1.25f, -1.75f, 0.25f}));
  expect(back(constant_ints({5})),
         floats({5, 1}, {0.6f, 1.48089954f, -0.59270858f, -1.44335939f, 0.95516843f}));
  expect(back(constant_ints({3})), floats({3, 1}, {2.33333333f, -0.0893164f, -1.24401694f}));
  expect(back(constant_ints({6})),
         floats({6, 1}, {0.5f, 1.14433757f, 0.4330127f, -1.5f, -0.4330127f, 0.85566243f}));
  expect(dft(given(floats({1, 2}, {3, 4})), kFromHalf, constant_ints({1})), floats({1, 1}, {3}));
}

TEST(Dft, every_form_along_every_axis_has_its_gradient) {
  for (const Form form : {Form(), kBack, kHalf, kFromHalf}) {
    const int64_t parts = form.onesided == 0 || form.inverse != 0 ? 2 : 1;
    for (int64_t axis : {0, 1, -2}) {
      for (int64_t length : {3, 6}) {
        check_op(
            dft(random({4, 3, 5, parts}), form, constant_ints({length}), constant_ints({axis})));
      }
    }
  }
  check_op(dft(random({4, 1}), kBack));
}

TEST(Dft, the_gradient_is_the_transform_the_other_way_round) {
  OpCase c = dft(given(kReal));
  c.dy = {floats({4, 2}, {1, 0, 0, 0, 0, 0, 0, 0})};
  c.expected_gradients = {floats({4, 1}, {1, 1, 1, 1})};
  check_op(c);
  c.dy = {floats({4, 2}, {0, 0, 0, 1, 0, 0, 0, 0})};  // the imaginary part of number 1: -sin
  c.expected_gradients = {floats({4, 1}, {0, -1, 0, 1})};
  check_op(c);
}

TEST(Dft, lengths_of_many_factors_and_of_one) {
  for (int64_t length : {1, 2, 16, 30, 31, 49, 60}) {
    OpCase c = dft(random({2, length, 2}));
    if (length > 31) c.differentiate = std::vector<int>{};
    check_op(c);
  }
}

TEST(Dft, rows_of_a_batch_are_transformed_one_by_one) {
  OpCase c = dft(random({5, 6, 1}), kHalf);
  c.batch = true;
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[N:5,4,2]");
}

// Type of y for x [2, 3, 4, 1] in an old opset.
std::string old_type(graph::Attributes attributes) {
  graph::Graph graph;
  graph::Builder b(graph);
  graph::Value* y =
      b.op("DFT", {b.constant("x", random_tensor(graph::DType::kFloat32, {2, 3, 4, 1}))},
           std::move(attributes));
  ops::normalize_node(*y->producer, 17);
  ops::infer_node(*y->producer);
  return y->type.str();
}

TEST(Dft, below_opset_20_the_axis_is_an_attribute_by_default_1) {
  const graph::Attributes half = {{"onesided", int64_t{1}}};
  EXPECT_EQ(old_type(half), "float[2,2,4,2]");
  EXPECT_EQ(old_type({{"onesided", int64_t{1}}, {"axis", int64_t{2}}}), "float[2,3,3,2]");
}

std::string error(OpInput x, Form form = {}, OpInput length = left_out(),
                  OpInput axis = left_out()) {
  return infer_error(dft(std::move(x), form, std::move(length), std::move(axis)));
}

TEST(Dft, dft_c1_rejects_integers) {
  EXPECT_NE(error(given(ints({2, 1}, {1, 2}))).find("C1: input 0 is int64"), std::string::npos);
}

TEST(Dft, dft_c2_wants_the_parts_of_numbers_in_the_last_axis) {
  EXPECT_NE(error(random({2})).find("C2: input 0 has type float[2], expected 2 axes or more"),
            std::string::npos);
  EXPECT_NE(
      error(random({2, 3})).find("C2: input 0 has type float[2,3], expected a last axis of 1"),
      std::string::npos);
}

TEST(Dft, dft_c3_rejects_the_last_axis_and_those_beyond) {
  for (int64_t axis : {-1, 1, 2, -3}) {
    EXPECT_NE(error(random({4, 2}), {}, left_out(), constant_ints({axis}))
                  .find(fmt::format("C3: axis {} is none of the 1 axes", axis)),
              std::string::npos);
  }
}

TEST(Dft, dft_c4_rejects_an_empty_transform) {
  EXPECT_NE(error(random({4, 2}), {}, constant_ints({0})).find("C4: dft_length is 0, expected 1"),
            std::string::npos);
  EXPECT_NE(error(random({1, 2}), kFromHalf).find("C4: dft_length is 0, expected 1"),
            std::string::npos);
}

TEST(Dft, dft_c5_half_a_spectrum_is_of_real_numbers) {
  EXPECT_NE(error(random({4, 2}), kHalf).find("C5: input 0 has type float[4,2], but onesided"),
            std::string::npos);
  EXPECT_NE(error(random({4, 1}), kFromHalf).find("takes complex numbers"), std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
