// Products through the library and through tiles: sizes around tiles, every form of the third
// operand, and batches of matrices.
#include <gtest/gtest.h>

#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

using graph::Attributes;
using Ints = std::vector<int64_t>;

OpCase product(const char* op, Ints a, Ints b, Attributes attributes = {}) {
  return {.claim = fmt::format("{} of {} and {}", op, graph::shape_str(a), graph::shape_str(b)),
          .op = op,
          .inputs = {random(std::move(a)), random(std::move(b), -1, 1, 2)},
          .attributes = std::move(attributes),
          .float_tolerance = {1e-5, 1e-5}};
}

TEST(CudaGemm, sizes_around_tiles) {
  for (const int64_t m : {1, 15, 17}) {
    for (const int64_t n : {1, 16, 33}) {
      for (const int64_t k : {1, 16, 31}) check_cuda(product("Gemm", {m, k}, {k, n}));
    }
  }
  check_cuda(product("Gemm", {3, 257}, {257, 2}));
  check_cuda(product("Gemm", {257, 3}, {3, 255}));
}

TEST(CudaGemm, transposes_and_factors) {
  for (const int64_t trans_a : {0, 1}) {
    for (const int64_t trans_b : {0, 1}) {
      const Ints a = trans_a == 1 ? Ints{18, 5} : Ints{5, 18};
      const Ints b = trans_b == 1 ? Ints{20, 18} : Ints{18, 20};
      check_cuda(
          product("Gemm", a, b, {{"transA", trans_a}, {"transB", trans_b}, {"alpha", -0.5}}));
    }
  }
}

TEST(CudaGemm, a_third_operand_of_every_shape) {
  for (const double beta : {1.0, -2.0, 0.0}) {
    for (const Ints& c : {Ints{}, Ints{1}, Ints{20}, Ints{1, 20}, Ints{5, 1}, Ints{5, 20}}) {
      OpCase gemm = product("Gemm", {5, 18}, {18, 20}, {{"beta", beta}, {"alpha", 0.5}});
      gemm.claim += fmt::format(" plus {} of {}", beta, graph::shape_str(c));
      gemm.inputs.push_back(random(c, -1, 1, 3));
      check_cuda(gemm);
    }
  }
}

TEST(CudaGemm, one_column_and_its_bias) {
  for (const Ints& c : {Ints{1}, Ints{1, 1}, Ints{5, 1}}) {
    OpCase gemm = product("Gemm", {5, 18}, {18, 1});
    gemm.inputs.push_back(random(c, -1, 1, 3));
    check_cuda(gemm);
  }
}

TEST(CudaGemm, an_empty_sum_is_zero) {
  check_cuda(product("Gemm", {3, 0}, {0, 4}));
  check_cuda(product("Gemm", {0, 3}, {3, 4}));
  EXPECT_EQ(cuda_refusal(product("Gemm", {3, 0}, {0, 4}), "gemm.cublas"),
            "needs at least one element in every operand");
}

TEST(CudaMatMul, batches_and_vectors) {
  check_cuda(product("MatMul", {3, 5, 7}, {3, 7, 2}));
  check_cuda(product("MatMul", {2, 3, 5, 7}, {7, 2}));
  check_cuda(product("MatMul", {5, 7}, {3, 7, 2}));
  check_cuda(product("MatMul", {7}, {7, 2}));
  check_cuda(product("MatMul", {5, 7}, {7}));
  check_cuda(product("MatMul", {7}, {7}));
  check_cuda(product("MatMul", {2, 1, 5, 7}, {1, 2, 7, 2}));
}

TEST(CudaMatMul, matrices_at_unequal_distances_go_to_the_plain_kernel) {
  const OpCase c = product("MatMul", {2, 1, 5, 7}, {1, 2, 7, 2});
  EXPECT_EQ(cuda_refusal(c, "gemm.cublas"), "takes matrices at equal distances only");
  EXPECT_EQ(cuda_refusal(c, "gemm.cuda_plain"), "");
  EXPECT_EQ(cuda_refusal(product("MatMul", {3, 5, 7}, {3, 7, 2}), "gemm.cublas"), "");
}

OpCase own(const char* op, std::vector<OpInput> inputs, Attributes attributes = {}) {
  return {.claim = fmt::format("{} of {}", op, graph::shape_str(inputs[0].shape)),
          .domain = ops::kDomain,
          .op = op,
          .inputs = std::move(inputs),
          .attributes = std::move(attributes),
          .float_tolerance = {1e-5, 1e-5},
          .differentiate = std::vector<int>{},
          .batch = true};
}

TEST(CudaGemmGradients, weights_and_biases_over_all_rows) {
  for (const int64_t rows : {1, 2, 255, 256, 257, 3000}) {
    check_cuda(
        own("GemmGradWeight", {random({rows, 3}), random({rows, 5}, -1, 1, 2)}, {{"alpha", 0.5}}));
    check_cuda(own("GemmGradBias", {random({rows, 5})}, {{"scale", -2.0}}));
  }
  check_cuda(own("GemmGradWeight", {random({2, 3, 4}), random({2, 3, 5}, -1, 1, 2)}));
  for (const int64_t columns : {1, 31, 33, 257}) {
    check_cuda(own("GemmGradBias", {random({2, 7, columns})}, {{"keepdims", int64_t{1}}}));
  }
}

}  // namespace

}  // namespace sardonyx::test
