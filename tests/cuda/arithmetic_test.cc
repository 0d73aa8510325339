// Walks over operands that broadcast, and folds of many operands. The numbers are tried by the
// cases of tests/ops/arithmetic_test.cc and arithmetic_select_test.cc.
#include <gtest/gtest.h>

#include <limits>

#include "ops/core/cuda_walk.h"
#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

using Shape = std::vector<int64_t>;

TEST(CudaArithmetic, every_axis_may_be_broadcast) {
  const Shape whole = {3, 2, 5, 4};
  for (unsigned mask = 0; mask < 16; ++mask) {
    Shape some = whole;
    for (size_t axis = 0; axis < some.size(); ++axis) {
      if ((mask >> axis & 1U) != 0) some[axis] = 1;
    }
    for (const char* op : {"Add", "Sub", "Mul", "Div"}) {
      check_cuda({.claim = fmt::format("{} with {} behind", op, graph::shape_str(some)),
                  .op = op,
                  .inputs = {random(whole, 1, 2), random(some, 1, 2)}});
      check_cuda({.claim = fmt::format("{} with {} in front", op, graph::shape_str(some)),
                  .op = op,
                  .inputs = {random(some, 1, 2), random(whole, 1, 2)}});
    }
  }
}

TEST(CudaArithmetic, both_operands_may_be_broadcast) {
  check_cuda({.claim = "outer sum", .op = "Add", .inputs = {random({7, 1}), random({1, 300})}});
  check_cuda({.claim = "a scalar and a row", .op = "Mul", .inputs = {random({}), random({257})}});
  check_cuda({.claim = "shorter rank",
              .op = "Sub",
              .inputs = {
                  random({3}),
                  random({2, 1, 3}),
              }});
}

TEST(CudaArithmetic, sizes_around_packs_and_blocks) {
  for (const int64_t n : {0, 1, 3, 4, 255, 256, 257, 1025}) {
    check_cuda(
        {.claim = fmt::format("sum of {}", n), .op = "Add", .inputs = {random({n}), random({n})}});
    check_cuda({.claim = fmt::format("{} and a scalar", n),
                .op = "Mul",
                .inputs = {random({n}), random({1})}});
  }
}

TEST(CudaArithmetic, integers_wrap_around) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  const Tensor x = ints({4}, {most, -most - 1, 7, -3}), y = ints({4}, {1, -1, 5, most});
  for (const char* op : {"Add", "Sub", "Mul", "Max", "Min", "Sum"}) {
    check_cuda({.claim = op, .op = op, .inputs = {given(x), given(y)}});
    check_cuda({.claim = fmt::format("{} of int32", op),
                .op = op,
                .inputs = {given(x.cast(DType::kInt32)), given(y.cast(DType::kInt32))}});
  }
  check_cuda({.claim = "Neg", .op = "Neg", .inputs = {given(x)}});
  check_cuda({.claim = "Abs", .op = "Abs", .inputs = {given(x)}});
}

TEST(CudaArithmetic, folds_take_any_number_of_operands) {
  for (const int count : {1, 2, 3, 7, 8, 9, 15, 16, 20}) {
    std::vector<OpInput> operands;
    for (int i = 0; i < count; ++i) {
      operands.push_back(random(i % 3 == 2 ? Shape{1, 5} : Shape{4, 5}));
    }
    // Sums of eight are rounded on the way.
    const Tolerance narrow = count > 8 ? Tolerance{0x1p-6, 0x1p-6} : OpCase().narrow_tolerance;
    for (const char* op : {"Sum", "Mean", "Max", "Min"}) {
      check_cuda({.claim = fmt::format("{} of {}", op, count),
                  .op = op,
                  .inputs = operands,
                  .narrow_tolerance = narrow,
                  .differentiate = std::vector<int>{}});
    }
  }
}

TEST(CudaArithmetic, nan_wins_and_ties_share) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor a = floats({5}, {nan, 1, 2, nan, -1}), b = floats({5}, {1, nan, 2, nan, -2});
  for (const char* op : {"Max", "Min"}) {
    check_cuda({.claim = op, .op = op, .inputs = {given(a), given(b)}, .numeric = Numeric::kSkip});
    check_cuda({.claim = fmt::format("gradient of {}", op),
                .domain = "sardonyx",
                .op = std::string(op) + "Grad",
                .inputs = {random({5}), given(a), given(b)},
                .differentiate = std::vector<int>{}});
  }
}

TEST(CudaArithmetic, channels_last_broadcast) {
  for (const int64_t channels : {1, 3, 17}) {
    const OpInput x = random({2, channels, 3, 2}), more = random({2, channels, 3, 2});
    const OpInput per_channel = parameter(random({channels, 1, 1}));
    const OpInput per_map = random({2, channels, 1, 1}), of_cells = random({2, 1, 3, 2});
    for (const OpInput& other : {more, per_channel, per_map, of_cells}) {
      for (const char* op : {"Add", "Mul", "Sum"}) {
        check_cuda({.claim = fmt::format("{} with {}", op, graph::shape_str(other.shape)),
                    .op = op,
                    .inputs = {x, other},
                    .batch = true,
                    .must_run = {"arithmetic.cuda", "arithmetic.cuda_nhwc"}});
      }
    }
    check_cuda({.claim = "maximum of three",
                .op = "Max",
                .inputs = {x, per_channel, of_cells},
                .batch = true,
                .must_run = {"arithmetic.cuda_nhwc"}});
  }
  const OpCase mixed = {.claim = "a plain operand of the shape of y",
                        .op = "Add",
                        .inputs = {random({2, 3, 2}), parameter(random({2, 3, 2}))},
                        .batch = true,
                        .fixed_rows = true};
  check_cuda(mixed);  // with channels last it is declined
}

TEST(CudaArithmetic, more_than_eight_axes_are_declined_unless_they_merge) {
  Shape comb;
  for (int i = 0; i < 10; ++i) comb.push_back(i % 2 == 0 ? 2 : 1);
  const OpCase apart = {.claim = "comb",
                        .op = "Add",
                        .inputs = {random(comb), random({1, 2, 1, 2, 1, 2, 1, 2, 1, 2})}};
  EXPECT_EQ(cuda_refusal(apart, "arithmetic.cuda"),
            "knows up to 8 axes after neighbours were merged");
  check_cuda({.claim = "ten axes of one shape",
              .op = "Add",
              .inputs = {random(Shape(10, 2)), random(Shape(10, 2))}});
}

TEST(CudaArithmetic, other_types_are_declined_with_a_sentence) {
  const Tensor bytes = Tensor::of<uint8_t>({2}, std::vector<uint8_t>{1, 2});
  const OpCase added = {.claim = "bytes", .op = "Add", .inputs = {given(bytes), given(bytes)}};
  EXPECT_EQ(cuda_refusal(added, "arithmetic.cuda"),
            "takes float, double, bfloat16, int32 and int64 only");
  const OpCase divided = {
      .claim = "whole", .op = "Div", .inputs = {given(ints({1}, {4})), given(ints({1}, {2}))}};
  EXPECT_EQ(cuda_refusal(divided, "arithmetic.cuda"), "takes float, double and bfloat16 only");
}

// No array of more than 2^31 elements is at hand, but the walk over one is.
TEST(CudaWalk, places_beyond_31_bits_are_not_narrow) {
  const int64_t large = int64_t{1} << 31;
  EXPECT_TRUE(ops::cuda::walk_of<1>({{large - 1}, {{1}}}).narrow);
  EXPECT_FALSE(ops::cuda::walk_of<1>({{large}, {{1}}}).narrow);
  EXPECT_FALSE(ops::cuda::walk_of<1>({{3}, {{large}}}).narrow);
  EXPECT_FALSE(ops::cuda::walk_of<1>({{3}, {{-large}}}).narrow);
}

TEST(CudaWalk, neighbours_merge_and_ones_vanish) {
  const ops::cuda::LoopNest nest =
      ops::cuda::LoopNest{{2, 1, 3, 4, 5}, {{60, 9, 20, 5, 1}, {0, 9, 20, 5, 1}}}.merged();
  EXPECT_EQ(nest.sizes, (Shape{2, 60}));
  EXPECT_EQ(nest.strides[0], (Shape{60, 1}));
  EXPECT_EQ(nest.strides[1], (Shape{0, 1}));
}

}  // namespace

}  // namespace sardonyx::test
