// Comparisons, Where, Not, the elementary functions and constants at sizes and types that their
// cases in tests/ops leave out.
#include <gtest/gtest.h>

#include <limits>

#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

TEST(CudaCompare, every_type_with_broadcasting_and_nan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor a = floats({2, 3}, {1, 2, 3, -1, nan, 0}), b = floats({3}, {1, 3, nan});
  const Tensor whole_a = ints({2, 3}, {1, 2, 3, 0, 5, 6}), whole_b = ints({3}, {1, 3, 0});
  for (const char* op : {"Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"}) {
    check_cuda({.claim = op, .op = op, .inputs = {given(a), given(b)}});
    for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kUint8}) {
      check_cuda({.claim = fmt::format("{} of {}", op, graph::dtype_name(dtype)),
                  .op = op,
                  .inputs = {given(whole_a.cast(dtype)), given(whole_b.cast(dtype))}});
    }
  }
  const OpCase narrow = {
      .claim = "int16",
      .op = "Less",
      .inputs = {given(whole_a.cast(DType::kInt16)), given(whole_b.cast(DType::kInt16))}};
  EXPECT_EQ(cuda_refusal(narrow, "compare_select.cuda"),
            "takes float, double, int32, int64, uint8 and bool only");
}

TEST(CudaCompare, sizes_around_packs_and_blocks) {
  for (const int64_t n : {0, 1, 3, 255, 256, 257}) {
    check_cuda({.claim = fmt::format("{} tests", n),
                .op = "Less",
                .inputs = {random({n}), random({n}, -1, 1, 5)}});
  }
}

TEST(CudaWhere, every_operand_may_be_broadcast) {
  const Tensor condition = bools({2, 1, 3}, {true, false, true, false, false, true});
  check_cuda({.claim = "all three",
              .op = "Where",
              .inputs = {given(condition), random({1, 4, 3}), random({2, 1, 1})}});
  check_cuda({.claim = "none",
              .op = "Where",
              .inputs = {given(condition), random({2, 1, 3}), random({2, 1, 3})}});
  for (const DType dtype : {DType::kUint8, DType::kInt16, DType::kInt64}) {
    check_cuda({.claim = std::string(graph::dtype_name(dtype)),
                .op = "Where",
                .inputs = {given(condition), given(ints({3}, {1, 2, 3}).cast(dtype)),
                           given(ints({1}, {9}).cast(dtype))}});
  }
}

TEST(CudaElementary, functions_on_257_numbers) {
  for (const char* op : {"Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh",
                         "Atanh", "Floor", "Ceil", "Round", "Sign"}) {
    check_cuda({.claim = op, .op = op, .inputs = {random({257}, -0.75, 0.75)}});
  }
  check_cuda({.claim = "Acosh", .op = "Acosh", .inputs = {random({257}, 1.25, 4)}});
  check_cuda({.claim = "halves go to the even side",
              .op = "Round",
              .inputs = {given(floats({6}, {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F}))},
              .expected = {floats({6}, {0, 2, 2, 0, -2, -2})}});
}

TEST(CudaConstant, of_a_shape) {
  check_cuda({.claim = "zeros", .op = "ConstantOfShape", .inputs = {constant_ints({3, 100})}});
  check_cuda({.claim = "sevens",
              .op = "ConstantOfShape",
              .inputs = {constant_ints({257})},
              .attributes = {{"value", ints({1}, {7})}}});
}

}  // namespace

}  // namespace sardonyx::test
