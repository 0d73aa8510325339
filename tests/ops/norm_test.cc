// Normalisation over groups: numbers by hand, large means, statistics as outputs and their
// gradients, one scale per group or channel, kernels and layouts, constraints.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using ops::BatchRole;
using Ints = std::vector<int64_t>;

const std::vector<std::string> kPlain = {"norm.ref", "norm.vector"};
const std::vector<std::string> kAll = {"norm.ref", "norm.vector", "norm.lanes"};

OpCase on(std::string op, OpInput x, OpInput scale, OpInput bias, Attributes attributes = {}) {
  OpCase c;
  c.claim = op;
  c.op = std::move(op);
  c.inputs = {std::move(x), parameter(std::move(scale))};
  if (!bias.absent) c.inputs.push_back(parameter(std::move(bias)));
  c.attributes = std::move(attributes);
  c.must_run = kPlain;
  c.float_tolerance = {1e-4, 1e-5};
  return c;
}

OpCase batched(OpCase c) {
  c.batch = true;
  c.must_run = kAll;
  return c;
}

// --- Numbers by hand: 1, 3 have mean 2 and variance 1; epsilon 3 makes the deviation 2.

const Attributes kThree = {{"epsilon", 3.0}};

TEST(Norm, layer_by_hand) {
  OpCase c = on("LayerNormalization", given(doubles({2, 2}, {1, 3, 30, 10})),
                given(doubles({2}, {4, 8})), given(doubles({2}, {100, 200})), {{"epsilon", 0.0}});
  c.expected = {doubles({2, 2}, {96, 208, 104, 192})};
  c.dy = {doubles({2, 2}, {1, 10, 100, 1000})};
  c.expected_gradients = {doubles({2, 2}, {0, 0, 0, 0}), doubles({2}, {-1 + 100, 10 - 1000}),
                          doubles({2}, {101, 1010})};
  c.zero_gradients = {0};  // two elements are -1 and 1 whatever they were
  check_op(c);
}

TEST(Norm, epsilon_is_added_to_the_variance) {
  OpCase c = on("LayerNormalization", given(doubles({1, 2}, {1, 3})), given(doubles({2}, {4, 8})),
                left_out(), kThree);
  c.expected = {doubles({1, 2}, {-2, 4})};
  check_op(c);
}

TEST(Norm, rms_keeps_the_mean) {
  OpCase c = on("RMSNormalization", given(doubles({1, 2}, {1, 3})), given(doubles({2}, {2, 4})),
                left_out(), {{"epsilon", 4.0}});
  c.expected = {doubles({1, 2}, {2.0 / 3, 4})};  // (1 + 9) / 2 + 4 = 9
  check_op(c);
}

TEST(Norm, instance_by_hand) {
  OpCase c = on("InstanceNormalization", given(doubles({1, 2, 2}, {1, 3, 30, 10})),
                given(doubles({2}, {4, 1})), given(doubles({2}, {100, 0})), {{"epsilon", 0.0}});
  c.expected = {doubles({1, 2, 2}, {96, 104, 1, -1})};
  c.zero_gradients = {0};
  check_op(c);
}

TEST(Norm, group_has_a_scale_per_channel_or_per_group) {
  const OpInput x = given(doubles({1, 4, 1}, {1, 3, 30, 10}));
  Attributes two{{"epsilon", 0.0}, {"num_groups", int64_t{2}}};
  OpCase c = on("GroupNormalization", x, given(doubles({4}, {1, 2, 3, 4})),
                given(doubles({4}, {0, 10, 20, 30})), two);
  c.expected = {doubles({1, 4, 1}, {-1, 12, 23, 26})};
  c.zero_gradients = {0};
  check_op(c);
  two["per_group"] = int64_t{1};
  c = on("GroupNormalization", x, given(doubles({2}, {1, 2})), given(doubles({2}, {0, 10})), two);
  c.expected = {doubles({1, 4, 1}, {-1, 1, 12, 8})};
  c.zero_gradients = {0};
  check_op(c);
}

TEST(Norm, statistics_are_outputs) {
  OpCase c = on("LayerNormalization", given(doubles({1, 2}, {1, 3})), given(doubles({2}, {4, 8})),
                left_out(), {{"epsilon", 3.0}, {"stash_type", int64_t{11}}});
  c.num_outputs = 3;
  c.expected = {Tensor(), doubles({1, 1}, {2}), doubles({1, 1}, {0.5})};
  c.expected_gradients = {};
  check_op(c);
  EXPECT_EQ(inferred_type(c, 1), "double[1,1]");
  c.wanted_outputs = {true, false, true};
  c.expected[1] = Tensor();
  check_op(c);
}

TEST(Norm, a_large_mean_costs_no_digits) {
  // Exact in float; squares of x would drown the variance of 1.25.
  OpCase c = on("LayerNormalization", given(doubles({1, 4}, {1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3})),
                given(doubles({4}, {1, 1, 1, 1})), left_out(), {{"epsilon", 0.0}});
  const double d = std::sqrt(1.25);
  c.expected = {doubles({1, 4}, {-1.5 / d, -0.5 / d, 0.5 / d, 1.5 / d})};
  c.numeric = Numeric::kSkip;
  check_op(c);
}

TEST(Norm, equal_elements_give_the_bias) {
  OpCase c = on("LayerNormalization", given(doubles({1, 3}, {7, 7, 7})),
                given(doubles({3}, {1, 2, 3})), given(doubles({3}, {4, 5, 6})));
  c.expected = {doubles({1, 3}, {4, 5, 6})};
  c.numeric = Numeric::kSkip;
  c.zero_gradients = {1};
  check_op(c);
}

TEST(Norm, one_element_gives_the_bias_and_no_gradient) {
  OpCase c = on("LayerNormalization", given(doubles({3, 1}, {0.3, -7, 1e6})),
                given(doubles({1}, {3})), given(doubles({1}, {4})));
  c.expected = {doubles({3, 1}, {4, 4, 4})};
  c.expected_gradients = {doubles({3, 1}, {0, 0, 0}), doubles({1}, {0})};
  c.zero_gradients = {0, 1};
  c.must_run = {"norm.ref"};
  check_op(c);
}

TEST(Norm, no_channels_and_no_elements_are_no_fault) {
  OpCase c = on("InstanceNormalization", random({2, 0, 3}), random({0}), random({0}));
  c.must_run.clear();
  check_op(c);
  c = on("InstanceNormalization", random({2, 3, 0}), random({3}), random({3}));
  c.zero_gradients = {1, 2};
  c.must_run.clear();
  check_op(c);
}

// --- Shapes, kernels, layouts

TEST(Norm, layer_over_any_axes) {
  for (const int64_t axis : {-1, 2, 1, -2}) {
    const Ints x{3, 4, 5};
    const Ints scale(x.begin() + (axis < 0 ? axis + 3 : axis), x.end());
    const Attributes attributes{{"axis", axis}};
    check_op(batched(
        on("LayerNormalization", random(x), random(scale, 0.5, 2), random(scale), attributes)));
    check_op(
        batched(on("RMSNormalization", random(x), random(scale, 0.5, 2), left_out(), attributes)));
  }
  check_op(on("LayerNormalization", random({3, 4}), random({3, 4}), random({3, 4}),
              {{"axis", int64_t{0}}}));
}

TEST(Norm, long_rows_fill_whole_vectors) {
  OpCase c =
      batched(on("LayerNormalization", random({2, 150}), random({150}, 0.5, 2), random({150})));
  check_op(c);
  c = batched(on("InstanceNormalization", random({2, 2, 70}), random({2}, 0.5, 2), random({2})));
  check_op(c);
}

TEST(Norm, scale_that_is_one_behind_is_spread) {
  const Attributes attributes{{"axis", int64_t{1}}};
  for (const Ints& scale : {Ints{3, 1, 1}, Ints{1}, Ints{}, Ints{3, 2, 1}, Ints{1, 1, 1, 1}}) {
    OpCase c = on("LayerNormalization", random({2, 3, 2, 2}), random(scale, 0.5, 2), random(scale),
                  attributes);
    check_op(scale.size() == 4 ? c : batched(c));
  }
}

TEST(Norm, groups_on_all_kernels_and_layouts) {
  for (const int64_t groups : {1, 2, 4}) {
    Attributes attributes{{"num_groups", groups}};
    for (const Ints& x : {Ints{2, 4, 3, 2}, Ints{3, 4, 5}, Ints{2, 4, 1, 2, 2}}) {
      check_op(batched(
          on("GroupNormalization", random(x), random({4}, 0.5, 2), random({4}), attributes)));
    }
    attributes["per_group"] = int64_t{1};
    check_op(batched(on("GroupNormalization", random({2, 4, 3, 2}), random({groups}, 0.5, 2),
                        random({groups}), attributes)));
  }
  check_op(
      batched(on("InstanceNormalization", random({2, 3, 4, 2}), random({3}, 0.5, 2), random({3}))));
  check_op(batched(on("InstanceNormalization", random({3, 2, 9}), random({2}), random({2}))));
}

TEST(Norm, statistics_and_their_gradients_on_all_layouts) {
  OpCase c = batched(on("LayerNormalization", random({3, 2, 5}), random({5}, 0.5, 2), random({5}),
                        {{"stash_type", int64_t{11}}}));
  c.num_outputs = 3;
  check_op(c);
  c.seeds = std::vector<int>{1, 2};
  c.zero_gradients = {1, 2};
  check_op(c);
}

OpCase gradient_case(const char* op, std::vector<OpInput> inputs, Attributes attributes) {
  OpCase c;
  c.claim = op;
  c.domain = ops::kDomain;
  c.op = op;
  c.inputs = std::move(inputs);
  c.attributes = std::move(attributes);
  c.float_tolerance = {1e-4, 1e-5};
  return batched(c);
}

TEST(Norm, gradient_operators_on_all_kernels_and_layouts) {
  const Attributes layer{{"form", std::string("LayerNormalization")}, {"axis", int64_t{-1}}};
  const Attributes group{{"form", std::string("GroupNormalization")}, {"num_groups", int64_t{2}}};
  check_op(gradient_case("NormGradData",
                         {random({3, 2, 20}), parameter(random({20})), random({3, 2, 20})}, layer));
  check_op(gradient_case("NormGradData",
                         {random({3, 2, 5}), parameter(random({5})), random({3, 2, 5}),
                          random({3, 2, 1}), random({3, 2, 1})},
                         layer));
  check_op(gradient_case("NormGradData",
                         {random({3, 4, 5}), parameter(random({4})), random({3, 4, 5})}, group));
  Attributes shaped = layer;
  shaped["scale_shape"] = Ints{70};
  check_op(gradient_case("NormGradScale", {random({3, 2, 70}), random({3, 2, 70})}, shaped));
  shaped = group;
  shaped["scale_shape"] = Ints{4};
  check_op(gradient_case("NormGradScale", {random({3, 4, 5}), random({3, 4, 5})}, shaped));
}

TEST(Norm, over_the_batch_couples_rows) {
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {graph::Dim(4, "N"), 3}));
  auto* row = g.add_input("row", ops::TensorType(DType::kFloat32, {3}));
  auto* all = g.add_input("all", ops::TensorType(DType::kFloat32, {4, 3}));
  ops::OpBuilder b(g);
  const auto role = [&](ops::Value* scale, int64_t axis) {
    auto* y = b.op("LayerNormalization", {x, scale}, {{"axis", axis}});
    return ops::OpRegistry::get().at(*y->producer).batch(*y->producer, 0);
  };
  EXPECT_EQ(role(row, 1), BatchRole::kRows);
  EXPECT_EQ(role(all, 0), BatchRole::kCouples);
}

// --- Old opsets

TEST(Norm, opset_18_has_a_scale_per_group) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {2, 4, 3}));
  auto* s = g.add_input("s", ops::TensorType(DType::kFloat32, {2}));
  auto* node = g.add_node("", "GroupNormalization", {x, s, s}, {"y"});
  node->attributes["num_groups"] = int64_t{2};
  ops::normalize_node(*node, 21);
  EXPECT_THROW(ops::infer_node(*node), Error);
  ops::normalize_node(*node, 18);
  ops::infer_node(*node);
  EXPECT_EQ(node->output(0)->type.str(), "float[2,4,3]");
}

TEST(Norm, opset_1_drops_what_caffe_needed) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {2, 4, 3}));
  auto* node = g.add_node("", "InstanceNormalization", {x, x, x}, {"y"});
  node->attributes["consumed_inputs"] = Ints{0, 0, 0};
  ops::normalize_node(*node, 1);
  EXPECT_TRUE(node->attributes.empty());
}

TEST(Norm, statistics_of_a_layer_follow_the_types_of_the_graph) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {2, 4}));
  auto* node = g.add_node("", "LayerNormalization", {x, x}, {"y"});
  ops::normalize_node(*node, 17);
  const ops::OpDef& op = ops::OpRegistry::get().at(*node);
  EXPECT_EQ(node->get_int("stash_type", 0), 1);
  EXPECT_EQ(op.dtype_attributes, std::vector<std::string>{"stash_type"});
}

TEST(Norm, instances_have_no_groups_and_no_other_form) {
  OpCase c;
  c.claim = c.op = "InstanceNormalization";
  c.inputs = {given(doubles({1, 2, 4}, {1, 3, 1, 3, 10, 14, 10, 14})),
              parameter(given(doubles({2}, {1, 1}))), parameter(given(doubles({2}, {0, 0})))};
  c.attributes = {{"epsilon", 0.0},
                  {"num_groups", int64_t{-5}},
                  {"form", std::string("LayerNormalization")},
                  {"axis", int64_t{0}}};
  c.expected = {doubles({1, 2, 4}, {-1, 1, -1, 1, -1, 1, -1, 1})};
  c.gradient_tolerance = {1e-5, 1e-6};
  check_op(c);
}

TEST(Norm, the_mean_of_no_element_is_nan) {
  OpCase c;
  c.claim = c.op = "LayerNormalization";
  c.inputs = {random({2, 0}), parameter(random({0}))};
  c.num_outputs = 3;
  const double nan = std::nan("");
  c.expected = {doubles({2, 0}, {}), doubles({2, 1}, {nan, nan}), doubles({2, 1}, {nan, nan})};
  c.differentiate = std::vector<int>{};
  check_op(c);
}

// --- Constraints

bool fails(const OpCase& c, const char* part) {
  return infer_error(c).find(part) != std::string::npos;
}

TEST(Norm, unknown_shapes_propagate) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {graph::Dim::named("N"), 3}));
  auto* u = g.add_input("u", ops::TensorType::unranked(DType::kFloat32));
  auto* s = g.add_input("s", ops::TensorType(DType::kFloat32, {3}));
  ops::OpBuilder b(g);
  EXPECT_EQ(b.op("LayerNormalization", {x, s})->type.str(), "float[N,3]");
  EXPECT_FALSE(b.op("InstanceNormalization", {u, s, s})->type.ranked);
}

TEST(Norm, n1_rejects_integers_and_mixed_types) {
  EXPECT_TRUE(fails(on("RMSNormalization", given(ints({2}, {1, 2})), random({2}), left_out()),
                    "N1: input 0 is int64"));
  EXPECT_TRUE(fails(on("RMSNormalization", random({2}), given(ints({2}, {1, 2})), left_out()),
                    "N1: input 1 (scale) 'x1' is int64[2], but input 0 (x) 'x0' is float[2]: "));
}

TEST(Norm, n2_rejects_axes_out_of_range) {
  EXPECT_TRUE(fails(
      on("LayerNormalization", random({2, 3}), random({3}), left_out(), {{"axis", int64_t{2}}}),
      "N2: axis 2 is out of range for a value with 2 axes"));
  EXPECT_TRUE(fails(on("InstanceNormalization", random({2}), random({2}), random({2})),
                    "N2: x has 1 axes"));
}

TEST(Norm, n3_rejects_groups_that_do_not_divide) {
  EXPECT_TRUE(fails(on("GroupNormalization", random({1, 3, 2}), random({3}), random({3}),
                       {{"num_groups", int64_t{2}}}),
                    "N3: num_groups 2 does not divide the channels of x [1,3,2]"));
  EXPECT_TRUE(fails(on("GroupNormalization", random({1, 3, 2}), random({3}), random({3})), "N3"));
}

TEST(Norm, n4_rejects_scales_that_do_not_fit) {
  EXPECT_TRUE(fails(on("LayerNormalization", random({2, 3}), random({2}), left_out()),
                    "N4: scale is [2], expected the normalised axes [3]"));
  EXPECT_TRUE(fails(on("LayerNormalization", random({2, 3, 4}), random({1, 4}), left_out(),
                       {{"axis", int64_t{1}}}),
                    "N4"));
  EXPECT_TRUE(fails(on("LayerNormalization", random({2, 3}), random({3}), random({1})),
                    "N4: bias is [1], but scale is [3]"));
  EXPECT_TRUE(fails(on("InstanceNormalization", random({2, 3, 2}), random({2}), random({2})),
                    "N4: input 1 is [2], expected [3]"));
}

TEST(Norm, n5_rejects_statistics_in_half_precision) {
  OpCase c = on("LayerNormalization", random({2, 3}), random({3}), left_out(),
                {{"stash_type", int64_t{10}}});
  EXPECT_EQ(infer_error(c), "");
  c.num_outputs = 2;
  EXPECT_TRUE(fails(c, "N5: stash_type is 10, expected 1 (float) or 11 (double)"));
}

TEST(Norm, n6_rejects_an_epsilon_that_is_no_distance_from_zero) {
  for (const char* op : {"LayerNormalization", "GroupNormalization", "InstanceNormalization"}) {
    EXPECT_TRUE(fails(on(op, random({2, 3}), random({3}), random({3}),
                         {{"epsilon", -1e-5}, {"num_groups", int64_t{1}}}),
                      "N6: attribute 'epsilon' is -1e-05, expected a finite number above 0: "));
  }
  EXPECT_TRUE(fails(
      on("RMSNormalization", random({2, 3}), random({3}), left_out(), {{"epsilon", std::nan("")}}),
      "N6: attribute 'epsilon' is nan, expected a finite number above 0: every "
      "result is not a number; write the number that was meant into the file"));
}

}  // namespace
}  // namespace sardonyx::test
