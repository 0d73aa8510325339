// Gemm, MatMul and their gradients: flags, broadcasts of c, vectors and batches, batch roles.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using ops::BatchRole;

const Tensor kA = doubles({2, 3}, {1, 2, 3, 4, 5, 6});
const Tensor kB = doubles({3, 2}, {1, 0, 2, 1, 0, 3});
const Tensor kAt = doubles({3, 2}, {1, 4, 2, 5, 3, 6});
const Tensor kBt = doubles({2, 3}, {1, 2, 0, 0, 1, 3});
// kA kB
const Tensor kAB = doubles({2, 2}, {5, 11, 14, 23});

Attributes flags(int64_t trans_a, int64_t trans_b, double alpha = 1, double beta = 1) {
  return {{"transA", trans_a}, {"transB", trans_b}, {"alpha", alpha}, {"beta", beta}};
}

OpCase gemm(std::string claim, std::vector<OpInput> inputs, Attributes attributes = {}) {
  return {.claim = std::move(claim),
          .op = "Gemm",
          .inputs = std::move(inputs),
          .attributes = std::move(attributes)};
}

OpCase matmul(std::string claim, OpInput a, OpInput b) {
  return {.claim = std::move(claim), .op = "MatMul", .inputs = {std::move(a), std::move(b)}};
}

void check_expected(OpCase c, Tensor y) {
  c.expected = {std::move(y)};
  check_op(c);
}

TEST(Gemm, multiplies_under_every_pair_of_flags) {
  check_expected(gemm("a b", {given(kA), given(kB)}), kAB);
  check_expected(gemm("at b", {given(kAt), given(kB)}, flags(1, 0)), kAB);
  check_expected(gemm("a bt", {given(kA), given(kBt)}, flags(0, 1)), kAB);
  check_expected(gemm("at bt", {given(kAt), given(kBt)}, flags(1, 1)), kAB);
}

TEST(Gemm, scales_and_adds_c_of_every_unidirectional_shape) {
  const auto with_c = [](Tensor c) {
    return gemm("alpha 2, beta 10", {given(kA), given(kB), given(std::move(c))},
                flags(0, 0, 2, 10));
  };
  check_expected(with_c(doubles({}, {1})), doubles({2, 2}, {20, 32, 38, 56}));
  check_expected(with_c(doubles({1}, {1})), doubles({2, 2}, {20, 32, 38, 56}));
  check_expected(with_c(doubles({2}, {1, 2})), doubles({2, 2}, {20, 42, 38, 66}));
  check_expected(with_c(doubles({1, 2}, {1, 2})), doubles({2, 2}, {20, 42, 38, 66}));
  check_expected(with_c(doubles({2, 1}, {1, 2})), doubles({2, 2}, {20, 32, 48, 66}));
  check_expected(with_c(doubles({2, 2}, {1, 2, 3, 4})), doubles({2, 2}, {20, 42, 58, 86}));
}

TEST(Gemm, gradients_agree_with_differences_under_every_pair_of_flags) {
  for (int64_t trans_a : {0, 1}) {
    for (int64_t trans_b : {0, 1}) {
      for (const std::vector<int64_t>& c :
           {std::vector<int64_t>{}, {1}, {5}, {1, 5}, {4, 1}, {4, 5}}) {
        check_op(
            gemm(fmt::format("trans {} {} c {}", trans_a, trans_b, graph::shape_str(c)),
                 {random(trans_a != 0 ? std::vector<int64_t>{3, 4} : std::vector<int64_t>{4, 3}),
                  random(trans_b != 0 ? std::vector<int64_t>{5, 3} : std::vector<int64_t>{3, 5}),
                  random(c)},
                 flags(trans_a, trans_b, 0.5, 2)));
      }
    }
  }
}

TEST(Gemm, linear_layer_runs_in_blocks_of_rows) {
  OpCase c = gemm("linear", {random({4, 7}), parameter(random({5, 7})), parameter(random({5}))},
                  flags(0, 1));
  c.batch = true;
  c.must_run = {"gemm.ref", "gemm.onednn", "gemm.eigen", "gemm.lanes"};
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[N:4,5]");
}

TEST(Gemm, kernels_agree_on_sizes_beyond_one_register_block) {
  OpCase c = gemm("large", {random({37, 129}), random({129, 65}), random({65})});
  c.differentiate = std::vector<int>{};
  c.double_tolerance = {1e-11, 1e-11};
  c.float_tolerance = {1e-4, 1e-4};
  c.must_run = {"gemm.ref", "gemm.tiles", "gemm.onednn", "gemm.eigen"};
  check_op(c);
}

TEST(MatMul, tiles_serve_batches_of_small_matrices_and_their_gradients) {
  OpCase c = matmul("heads", random({2, 3, 7, 16}), random({2, 3, 16, 20}));
  c.must_run = {"gemm.ref", "gemm.tiles", "gemm.onednn", "gemm.eigen"};
  check_op(c);
}

TEST(GemmGradWeight, tiles_serve_a_vector_of_columns) {
  OpCase c = {.claim = "wide",
              .domain = ops::kDomain,
              .op = "GemmGradWeight",
              .inputs = {random({4, 3}), random({4, 20})}};
  c.must_run = {"gemm.ref", "gemm.tiles", "gemm.onednn", "gemm.eigen"};
  check_op(c);
}

TEST(Gemm, beta_zero_never_reads_c) {
  const double inf = std::numeric_limits<double>::infinity();
  OpCase c = gemm("infinite c", {given(kA), given(kB), given(doubles({2}, {inf, std::nan("")}))},
                  flags(0, 0, 1, 0));
  c.numeric = Numeric::kSkip;
  c.expected_gradients = {Tensor(), Tensor(), doubles({2}, {0, 0})};
  c.zero_gradients = {2};
  check_expected(c, kAB);
}

TEST(Gemm, empty_sums_give_beta_c) {
  OpCase c = gemm("k is 0", {given(doubles({2, 0}, {})), given(doubles({0, 2}, {})),
                             given(doubles({2}, {1, 2}))});
  c.differentiate = std::vector<int>{2};
  check_expected(c, doubles({2, 2}, {1, 2, 1, 2}));
}

TEST(Gemm, g1_rejects_other_ranks) {
  EXPECT_NE(infer_error(gemm("bad", {random({2, 3, 1}), random({3, 2})})).find("G1: a must be"),
            std::string::npos);
}

TEST(Gemm, g2_rejects_inner_mismatch) {
  EXPECT_NE(infer_error(gemm("bad", {random({2, 3}), random({3, 2})}, flags(0, 1)))
                .find("G2: inner sizes differ: a is float[2,3], b is float[3,2] transposed"),
            std::string::npos);
}

TEST(Gemm, g3_rejects_c_that_would_widen_the_product) {
  const std::string error =
      infer_error(gemm("gemm_bad", {random({2, 3}), random({3, 1}), random({1, 4})}));
  EXPECT_NE(error.find("G3: c [1,4] does not broadcast to the product [2,1]"), std::string::npos)
      << error;
  EXPECT_NE(error.find("gemm_bad"), std::string::npos) << error;
  EXPECT_NE(infer_error(gemm("rank", {random({2, 3}), random({3, 1}), random({1, 2, 1})})), "");
}

TEST(Gemm, integers_of_32_and_64_bits_are_multiplied) {
  const Tensor a = ints({2, 3}, {1, -2, 3, 4, 5, -6}), at = ints({3, 2}, {1, 4, -2, 5, 3, -6});
  const Tensor b = ints({3, 2}, {1, 0, 2, 1, 0, 3}), bt = ints({2, 3}, {1, 2, 0, 0, 1, 3});
  check_expected(matmul("two matrices", given(a), given(b)), ints({2, 2}, {-3, 7, 14, -13}));
  check_expected(matmul("a vector", given(ints({3}, {1, -2, 3})), given(b)), ints({2}, {-3, 7}));
  check_expected(
      matmul("a batch meets one matrix", given(ints({2, 1, 3}, {1, -2, 3, 4, 5, -6})), given(b)),
      ints({2, 1, 2}, {-3, 7, 14, -13}));
  check_expected(matmul("no inner elements", given(ints({1, 0}, {})), given(ints({0, 2}, {}))),
                 ints({1, 2}, {0, 0}));
  check_expected(
      gemm("flags and c", {given(at), given(bt), given(ints({2}, {10, 20}))}, flags(1, 1, 2, -1)),
      ints({2, 2}, {-16, -6, 18, -46}));
  constexpr int64_t kBig = int64_t{1} << 62;
  check_expected(matmul("wraps around", given(ints({1, 1}, {kBig})), given(ints({1, 1}, {6}))),
                 ints({1, 1}, {std::numeric_limits<int64_t>::min()}));
  for (const graph::DType dtype :
       {graph::DType::kInt32, graph::DType::kUint32, graph::DType::kUint64}) {
    check_expected(matmul("other types", given(doubles({1, 2}, {3, 4}).cast(dtype)),
                          given(doubles({2, 1}, {5, 6}).cast(dtype))),
                   doubles({1, 1}, {39}).cast(dtype));
  }
}

TEST(Gemm, g4_refuses_other_integers) {
  const OpInput a = given(doubles({1, 1}, {2}).cast(graph::DType::kInt8));
  EXPECT_NE(
      infer_error(gemm("integers", {a, a})).find("G4: input 0 is int8, expected a floating type"),
      std::string::npos);
  EXPECT_NE(
      infer_error(matmul("integers", a, a)).find("M4: input 0 is int8, expected a floating type"),
      std::string::npos);
}

TEST(Gemm, g5_refuses_fractions_of_integers) {
  const OpInput a = given(ints({1, 1}, {2}));
  const std::string error = infer_error(gemm("half", {a, a}, {{"alpha", 0.5}}));
  EXPECT_NE(error.find("G5: alpha is 0.5, expected a whole number: the matrices are int64"),
            std::string::npos)
      << error;
}

TEST(Gemm, g4_and_m4_refuse_mixed_types) {
  const OpInput a = random({1, 1}), i = given(ints({1}, {2}));
  EXPECT_NE(infer_error(gemm("mixed", {a, a, i}))
                .find("G4: input 2 (c) 'x2' is int64[1], but input 0 (a) 'x0' is float[1,1]: "),
            std::string::npos);
  EXPECT_NE(infer_error(matmul("mixed", a, i))
                .find("M4: input 1 (b) 'x1' is int64[1], but input 0 (a) 'x0' is float[1,1]: "),
            std::string::npos);
}

TEST(Gemm, unknown_sizes_propagate) {
  graph::Graph g;
  auto* a = g.add_input("a", ops::TensorType(DType::kFloat32, {graph::Dim::named("N"), 3}));
  auto* b = g.add_input("b", ops::TensorType(DType::kFloat32, {graph::Dim(), 4}));
  auto* c = g.add_input("c", ops::TensorType::unranked(DType::kFloat32));
  ops::OpBuilder builder(g);
  EXPECT_EQ(builder.op("Gemm", {a, b})->type.str(), "float[N,4]");
  EXPECT_EQ(builder.op("MatMul", {a, b})->type.str(), "float[N,4]");
  EXPECT_EQ(builder.op("Gemm", {a, c})->type.dims.size(), 2u);
  EXPECT_FALSE(builder.op("MatMul", {a, c})->type.ranked);
}

TEST(Gemm, old_broadcast_attribute_is_dropped) {
  graph::Graph g;
  auto* a = g.add_input("a", ops::TensorType(DType::kFloat32, {2, 3}));
  auto* node = g.add_node("", "Gemm", {a, a, a}, {"y"});
  node->attributes["broadcast"] = int64_t{1};
  ops::normalize_node(*node, 6);
  EXPECT_FALSE(node->has("broadcast"));
}

// Axis 0 of `a`, of `b` or of both is the batch.
BatchRole role(const std::string& op, std::vector<std::vector<graph::Dim>> shapes,
               Attributes attributes = {}) {
  graph::Graph g;
  g.batch_symbol = "N";
  std::vector<ops::Value*> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back(
        g.add_input(fmt::format("x{}", i), ops::TensorType(DType::kFloat32, shapes[i])));
  }
  ops::OpBuilder builder(g);
  auto* y = builder.op(op, inputs, std::move(attributes));
  return ops::OpRegistry::get().at(*y->producer).batch(*y->producer, 0);
}

double flops(const std::string& domain, const std::string& op,
             std::vector<std::vector<graph::Dim>> shapes) {
  graph::Graph g;
  std::vector<ops::Value*> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    inputs.push_back(
        g.add_input(fmt::format("x{}", i), ops::TensorType(DType::kFloat32, shapes[i])));
  }
  ops::OpBuilder builder(g);
  const ops::Node* node = builder.node(domain, op, inputs, {"y"});
  return ops::OpRegistry::get().at(*node).flops(ops::KernelRequest::of(*node));
}

TEST(Gemm, flops_count_two_for_each_multiplication) {
  EXPECT_EQ(flops("", "Gemm", {{2, 3}, {3, 5}}), 60);
  EXPECT_EQ(flops("", "MatMul", {{7, 2, 3}, {3, 5}}), 420);
  EXPECT_EQ(flops(ops::kDomain, "GemmGradWeight", {{7, 2, 3}, {7, 2, 5}}), 420);
}

const graph::Dim kBatch(6, "N");

TEST(Gemm, batch_role_follows_the_axis_that_carries_the_batch) {
  EXPECT_EQ(role("Gemm", {{kBatch, 3}, {3, 4}}), BatchRole::kRows);
  EXPECT_EQ(role("Gemm", {{kBatch, 3}, {3, 4}, {4}}), BatchRole::kRows);
  EXPECT_EQ(role("Gemm", {{kBatch, 3}, {3, 4}, {kBatch, 4}}), BatchRole::kRows);
  // The six rows of c are not those of the batch.
  EXPECT_EQ(role("Gemm", {{kBatch, 3}, {3, 4}, {6, 4}}), BatchRole::kCouples);
  EXPECT_EQ(role("Gemm", {{kBatch, 3}, {kBatch, 4}}, flags(1, 0)), BatchRole::kSum);
  EXPECT_EQ(role("Gemm", {{kBatch, 3}, {kBatch, 4}, {4}}, flags(1, 0)), BatchRole::kCouples);
  EXPECT_EQ(role("Gemm", {{kBatch, 3}, {6, 4}}, flags(1, 0)), BatchRole::kCouples);
  EXPECT_EQ(role("Gemm", {{4, 3}, {kBatch, 3}}, flags(0, 1)), BatchRole::kCouples);
}

TEST(MatMul, batch_role_follows_the_axis_that_carries_the_batch) {
  EXPECT_EQ(role("MatMul", {{kBatch, 3}, {3, 4}}), BatchRole::kRows);
  EXPECT_EQ(role("MatMul", {{kBatch, 2, 3}, {3, 4}}), BatchRole::kRows);
  EXPECT_EQ(role("MatMul", {{kBatch, 2, 3}, {1, 3, 4}}), BatchRole::kRows);
  EXPECT_EQ(role("MatMul", {{kBatch, 2, 3}, {6, 3, 4}}), BatchRole::kCouples);
  EXPECT_EQ(role("MatMul", {{kBatch, 2, 3}, {kBatch, 3, 4}}), BatchRole::kRows);
  EXPECT_EQ(role("MatMul", {{2, 3}, {kBatch, 3, 4}}), BatchRole::kRows);
  EXPECT_EQ(role("MatMul", {{kBatch, 3}, {5, 3, 4}}), BatchRole::kCouples);
  EXPECT_EQ(role("MatMul", {{5, 2, 6}, {kBatch, 4}}), BatchRole::kCouples);
  EXPECT_EQ(role("MatMul", {{kBatch}, {kBatch, 4}}), BatchRole::kSum);
}

TEST(MatMul, a_batch_of_one_row_keeps_its_name) {
  graph::Graph graph;
  graph.batch_symbol = "N";
  auto* a = graph.add_input("a", ops::TensorType(DType::kFloat32, {graph::Dim(1, "N"), 2, 3}));
  auto* b = graph.add_input("b", ops::TensorType(DType::kFloat32, {3, 4}));
  auto* c = graph.add_input("c", ops::TensorType(DType::kFloat32, {1, 3, 4}));
  ops::OpBuilder builder(graph);
  EXPECT_EQ(builder.op("MatMul", {a, b})->type.str(), "float[N:1,2,4]");
  EXPECT_EQ(builder.op("MatMul", {a, c})->type.str(), "float[N:1,2,4]");
}

TEST(MatMul, multiplies_vectors_as_numpy_does) {
  check_expected(matmul("matrices", given(kA), given(kB)), kAB);
  check_expected(matmul("row", given(doubles({3}, {1, 2, 3})), given(kB)), doubles({2}, {5, 11}));
  check_expected(matmul("column", given(kA), given(doubles({3}, {1, 0, 2}))),
                 doubles({2}, {7, 16}));
  check_expected(matmul("dot", given(doubles({3}, {1, 2, 3})), given(doubles({3}, {1, 0, 2}))),
                 doubles({}, {7}));
  check_op(matmul("row by batch", random({3}), random({2, 3, 4})));
  check_op(matmul("batch by column", random({2, 4, 3}), random({3})));
}

TEST(MatMul, broadcasts_leading_axes) {
  check_op(matmul("rank 3 by 2", random({2, 4, 3}), random({3, 5})));
  check_op(matmul("rank 3 by [1,3,5]", random({2, 4, 3}), random({1, 3, 5})));
  check_op(matmul("equal batches", random({2, 4, 3}), random({2, 3, 5})));
  check_op(matmul("middle", random({2, 1, 4, 3}), random({3, 3, 5})));
  check_op(matmul("left", random({4, 3}), random({2, 3, 5})));
  check_op(matmul("both ones", random({1, 4, 3}), random({1, 3, 5})));
}

TEST(MatMul, private_flags_read_swapped_axes) {
  for (int64_t trans_a : {0, 1}) {
    for (int64_t trans_b : {0, 1}) {
      OpCase c = matmul("swapped", random({2, 3, 3}), random({3, 3}));
      c.attributes = {{"trans_a", trans_a}, {"trans_b", trans_b}};
      check_op(c);
    }
  }
  OpCase c = matmul("a transposed", given(kAt), given(kB));
  c.attributes = {{"trans_a", int64_t{1}}};
  check_expected(c, kAB);
}

TEST(MatMul, linear_layer_runs_in_blocks_of_rows) {
  OpCase flat = matmul("linear", random({4, 7}), parameter(random({7, 5})));
  flat.batch = true;
  check_op(flat);
  OpCase tokens = matmul("tokens", random({4, 2, 7}), parameter(random({7, 5})));
  tokens.batch = true;
  tokens.must_run = {"gemm.lanes"};
  check_op(tokens);
}

TEST(MatMul, m2_rejects_inner_mismatch) {
  EXPECT_NE(infer_error(matmul("bad", random({1, 4}), random({3, 2})))
                .find("M2: inner sizes differ: a is float[1,4], b is float[3,2]"),
            std::string::npos);
}

TEST(MatMul, m3_rejects_leading_axes_that_do_not_broadcast) {
  EXPECT_NE(infer_error(matmul("bad", random({2, 1, 4}), random({3, 4, 2}))).find("M3"),
            std::string::npos);
}

TEST(MatMul, m1_rejects_scalars) {
  EXPECT_NE(infer_error(matmul("bad", random({}), random({3}))).find("M1"), std::string::npos);
}

OpCase grad_weight(std::vector<int64_t> a, std::vector<int64_t> b) {
  return {.claim = "grad_weight",
          .domain = ops::kDomain,
          .op = "GemmGradWeight",
          .inputs = {random(std::move(a)), random(std::move(b))},
          .batch = true};
}

TEST(GemmGradWeight, sums_over_all_leading_axes) {
  OpCase c = grad_weight({2, 3}, {2, 2});
  c.inputs = {given(kA), given(doubles({2, 2}, {1, 10, 2, 20}))};
  c.expected = {doubles({3, 2}, {9, 90, 12, 120, 15, 150})};
  c.must_run = {"gemm.ref", "gemm.onednn", "gemm.eigen", "gemm.lanes"};
  check_op(c);
  check_op(grad_weight({3, 4, 5}, {3, 4, 2}));
}

TEST(GemmGradWeight, scales_by_alpha) {
  OpCase c = grad_weight({2, 3}, {2, 2});
  c.attributes = {{"alpha", 0.5}};
  check_op(c);
}

TEST(GemmGradWeight, w1_w2_w3_reject_shapes_that_differ) {
  EXPECT_NE(infer_error(grad_weight({2, 3}, {2, 2, 1})).find("W1"), std::string::npos);
  EXPECT_NE(infer_error(grad_weight({2, 3}, {4, 2})).find("W2"), std::string::npos);
  OpCase c = grad_weight({2, 3}, {2, 2});
  c.inputs.push_back(parameter(random({2, 3})));
  EXPECT_NE(infer_error(c).find("W3"), std::string::npos);
}

TEST(GemmGradBias, sums_over_all_leading_axes) {
  OpCase c{.claim = "grad_bias",
           .domain = ops::kDomain,
           .op = "GemmGradBias",
           .inputs = {given(doubles({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}))},
           .expected = {doubles({2}, {16, 20})},
           .batch = true};
  check_op(c);
  c.attributes = {{"scale", 0.5}, {"keepdims", int64_t{1}}};
  c.expected = {doubles({1, 2}, {8, 10})};
  check_op(c);
  c.attributes = {};
  c.expected = {};
  c.must_run = {"gemm.ref", "gemm.lanes"};
  c.inputs = {random({3, 77})};  // more than one group of columns
  check_op(c);
}

TEST(GemmGradBias, b1_b2_reject_shapes) {
  OpCase c{
      .claim = "grad_bias", .domain = ops::kDomain, .op = "GemmGradBias", .inputs = {random({3})}};
  EXPECT_NE(infer_error(c).find("B1"), std::string::npos);
  c.inputs = {random({2, 3}), parameter(random({2}))};
  EXPECT_NE(infer_error(c).find("B2"), std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
