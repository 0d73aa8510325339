// Kernels that know their operands by one element type decline operands of several, which shape
// rules let through.
#include <gtest/gtest.h>

#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

using ops::kDomain;
using Ints = std::vector<int64_t>;

OpInput narrow(Ints shape) {
  return exactly(given(random_tensor(DType::kFloat32, std::move(shape)).cast(DType::kBFloat16)));
}

const char* const kOneType = "takes operands of one type only";
const char* const kOneElementType = "takes elements of one type only";

TEST(CudaMixedTypes, products_decline_them) {
  const OpCase weight = {
      .domain = kDomain, .op = "GemmGradWeight", .inputs = {random({3, 2}), narrow({3, 4})}};
  EXPECT_EQ(cuda_refusal(weight, "gemm.cublas"), kOneType);
  EXPECT_EQ(cuda_refusal(weight, "gemm.cuda_plain"), kOneType);
}

TEST(CudaMixedTypes, gradients_of_extrema_decline_them) {
  const OpCase pool = {.domain = kDomain,
                       .op = "MaxPoolGrad",
                       .inputs = {random({1, 1, 4, 4}), narrow({1, 1, 2, 2})},
                       .attributes = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}};
  EXPECT_EQ(cuda_refusal(pool, "pool.cuda"), kOneType);
  const OpCase reduced = {.domain = kDomain,
                          .op = "ReduceExtremumGrad",
                          .inputs = {random({3, 2}), random({3, 1}), narrow({3, 1})},
                          .attributes = {{"axes", Ints{1}}}};
  EXPECT_EQ(cuda_refusal(reduced, "reduce.cuda"), kOneType);
}

TEST(CudaMixedTypes, of_batch_norm_numbers_per_channel_alone_may_differ) {
  OpCase sums = {.domain = kDomain,
                 .op = "BatchNormGradSums",
                 .inputs = {narrow({2, 3, 4}), random({2, 3, 4}), random({3}), random({3}, 1, 2)},
                 .num_outputs = 2};
  EXPECT_EQ(cuda_refusal(sums, "batch_norm.cuda"), kOneElementType);
  sums.inputs[1] = narrow({2, 3, 4});
  EXPECT_EQ(cuda_refusal(sums, "batch_norm.cuda"), "");
}

}  // namespace

}  // namespace sardonyx::test
