// Dropout: the identity of the file's form, and masks that depend on nothing but the sample.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/onnx_import.h"
#include "graph/parse.h"
#include "ops/core/infer.h"
#include "ops/core/inference_form.h"
#include "ops/core/mode.h"
#include "ops/core/normalize.h"
#include "ops/core/random.h"
#include "tests/support/op_tester.h"
#include "tests/support/test_pool.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using ops::ModeContext;
using ops::Value;

OpCase file_form(OpInput x) {
  return {.claim = "file form", .op = "Dropout", .inputs = {std::move(x)}, .num_outputs = 2};
}

TEST(Dropout, file_form_is_the_identity_with_a_true_mask) {
  OpCase c = file_form(given(doubles({2, 2}, {1, -2, 0, 4})));
  c.expected = {doubles({2, 2}, {1, -2, 0, 4}), bools({2, 2}, {true, true, true, true})};
  c.batch = true;
  c.must_run = {"dropout.ref", "dropout.stored"};
  check_op(c);
  c.num_outputs = 1;
  c.expected = {};
  check_op(c);
  c.must_run = {"dropout.ref"};
  c.inputs = {random({3, 2}), constant(Tensor::scalar<float>(0.25f)),
              constant(Tensor::of<bool>({}, {true}))};
  check_op(c);
}

TEST(Dropout, old_forms_bring_ratio_as_input_and_mask_in_the_type_of_x) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {2, 3}));
  auto* node = g.add_node("", "Dropout", {x}, {"y", "mask"});
  node->attributes = {{"ratio", 0.25}, {"is_test", int64_t{1}}};
  ops::normalize_node(*node, 7);
  ASSERT_NE(node->input(1), nullptr);
  EXPECT_EQ(node->input(1)->data.as_double(0), 0.25);
  EXPECT_FALSE(node->has("is_test"));
  EXPECT_FALSE(node->has("ratio"));
  OpCase c = file_form(given(doubles({2}, {3, 4})));
  c.attributes = {{"mask_as_data", int64_t{1}}};
  c.expected = {doubles({2}, {3, 4}), doubles({2}, {1, 1})};
  c.seeds = std::vector<int>{0};
  check_op(c);
}

graph::NodeEdit saved_form(ops::Node& node, int64_t opset) {
  ops::InferenceFormContext context(node, opset);
  ops::OpRegistry::get().at(node).inference_form(context);
  return context.edit();
}

TEST(Dropout, an_active_mode_is_what_a_saved_file_leaves_out) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {2, 3}));
  auto* fed = g.add_input("fed", ops::TensorType(DType::kBool, {}));
  auto* on = g.add_constant("on", Tensor::of<bool>({}, {true}));
  auto* off = g.add_constant("off", Tensor::of<bool>({}, {false}));
  auto* ones = g.add_node("", "Constant", {}, {"ones"});
  ones->attributes = {{"value", Tensor::of<bool>({1}, {true})}};
  int nodes = 0;
  const auto kept = [&](ops::Value* mode) {
    auto* node = g.add_node("", "Dropout", {x, nullptr, mode}, {fmt::format("y{}", ++nodes)});
    return saved_form(*node, 13).keep_inputs;
  };
  EXPECT_EQ(kept(on), 2);
  EXPECT_EQ(kept(ones->output(0)), 2);
  EXPECT_EQ(kept(fed), 2);
  EXPECT_EQ(kept(off), -1);
  EXPECT_EQ(kept(nullptr), -1);
}

TEST(Dropout, before_opset_7_the_attribute_is_test_is_set) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {2, 3}));
  auto* node = g.add_node("", "Dropout", {x}, {"y", "mask"});
  EXPECT_EQ(saved_form(*node, 6).ints, (std::map<std::string, int64_t>{{"is_test", 1}}));
  EXPECT_EQ(saved_form(*node, 6).keep_outputs, 1);
  EXPECT_TRUE(saved_form(*node, 7).ints.empty());
  EXPECT_EQ(saved_form(*node, 7).keep_outputs, -1);
  node->attributes = {{"is_test", int64_t{1}}};
  EXPECT_TRUE(saved_form(*node, 6).ints.empty());
}

OpCase training_form(OpInput x, double ratio) {
  return {.claim = "training form",
          .domain = ops::kDomain,
          .op = "Dropout",
          .inputs = {std::move(x)},
          .attributes = {{"ratio", ratio}, {"key", int64_t{42}}},
          .num_outputs = 2,
          .batch = true,
          .fixed_rows = true};  // the harness' blocks don't tell the kernel which samples they hold
}

TEST(Dropout, kernels_give_the_same_mask_in_every_layout) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{19, 5}, {3, 7, 30}, {17, 64}, {2, 3, 1, 65}, {4}, {0, 3}}) {
    OpCase c = training_form(random(shape), 0.3);
    c.must_run = {"dropout.ref", "dropout.vector", "dropout.lanes"};
    check_op(c);
  }
  check_op(training_form(random({}), 0.3));
}

TEST(Dropout, ratio_zero_is_the_exact_identity) {
  OpCase c = training_form(given(doubles({1, 3}, {0.1, -1e30, 7})), 0);
  c.expected = {doubles({1, 3}, {0.1, -1e30, 7}), bools({1, 3}, {true, true, true})};
  c.expected_tolerance = {0, 0};
  c.differentiate = std::vector<int>{};
  check_op(c);
}

TEST(Dropout, ratio_one_drops_everything) {
  OpCase c = training_form(given(doubles({1, 3}, {0.1, INFINITY, 7})), 1);
  c.expected = {doubles({1, 3}, {0, 0, 0}), bools({1, 3}, {false, false, false})};
  c.numeric = Numeric::kSkip;
  c.zero_gradients = {0};
  check_op(c);
}

TEST(Dropout, drops_the_right_share_and_scales_the_rest) {
  for (double ratio : {0.5, 0.25}) {
    OpCase c = training_form(given(doubles({50, 200}, std::vector<double>(10000, 1.0))), ratio);
    const std::vector<Tensor> y = reference(c);
    int64_t zeros = 0;
    for (int64_t i = 0; i < 10000; ++i) {
      const double value = y[0].as_double(i);
      EXPECT_TRUE(value == 0 || value == 1 / (1 - ratio)) << value;
      EXPECT_EQ(value != 0, y[1].as_double(i) != 0);
      zeros += value == 0 ? 1 : 0;
    }
    // Four standard deviations.
    EXPECT_NEAR(static_cast<double>(zeros) / 10000, ratio,
                4 * std::sqrt(ratio * (1 - ratio) / 10000));
  }
}

TEST(Dropout, gradient_uses_the_mask) {
  OpCase c{.claim = "gradient", .domain = ops::kDomain, .op = "DropoutGrad"};
  c.inputs = {given(doubles({2, 2}, {1, INFINITY, 3, 4})),
              given(bools({2, 2}, {true, false, false, true}))};
  c.attributes = {{"ratio", 0.75}};
  c.expected = {doubles({2, 2}, {4, 0, 0, 16})};
  c.batch = true;
  c.numeric = Numeric::kSkip;
  c.must_run = {"dropout.ref", "dropout.vector"};
  check_op(c);
}

TEST(Dropout, c1_to_c3_reject_what_does_not_fit) {
  EXPECT_NE(infer_error(file_form(given(ints({2}, {1, 2})))).find("C1"), std::string::npos);
  EXPECT_NE(infer_error(training_form(random({2, 2}), 1.5)).find("C2: ratio is 1.5"),
            std::string::npos);
  OpCase c{.claim = "mask", .domain = ops::kDomain, .op = "DropoutGrad"};
  c.inputs = {random({2}), random({2})};
  EXPECT_NE(infer_error(c).find("C3: mask is float"), std::string::npos);
  c.inputs = {random({2}), given(bools({3}, {true, true, true}))};
  EXPECT_NE(infer_error(c).find("C3"), std::string::npos);
}

// The mask of `rows` samples from `first_sample` on, by the fastest kernel.
std::vector<bool> mask(int64_t first_sample, int64_t rows, uint64_t seed, uint64_t step,
                       int64_t key = 42, const char* symbol = "N") {
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {graph::Dim(rows, symbol), 6}));
  ops::OpBuilder b(g);
  auto* node = b.node(ops::kDomain, "Dropout", {x}, {"y", "mask"}, {{"key", key}});
  const auto kernels = ops::KernelRegistry::get().find(ops::kDomain, "Dropout");
  const auto request = ops::KernelRequest::of(*node);
  std::vector<float> in(rows * 6, 1.0f), out(rows * 6);
  std::vector<uint8_t> keep(rows * 6);
  TestPool pool(2);
  ops::CpuContext context;
  context.inputs = {in.data()};
  context.outputs = {out.data(), keep.data()};
  context.pool = &pool;
  context.seed = seed;
  context.step = step;
  context.first_sample = first_sample;
  for (const ops::KernelDef* kernel : kernels) {
    if (ops::declines(*kernel, request)) continue;
    kernel->create(request)->run(context);
    break;
  }
  return {keep.begin(), keep.end()};
}

TEST(Dropout, mask_depends_on_the_sample_and_not_on_the_cut) {
  const std::vector<bool> whole = mask(0, 40, 1, 2);
  std::vector<bool> cut = mask(0, 7, 1, 2);
  for (bool keep : mask(7, 33, 1, 2)) cut.push_back(keep);
  EXPECT_EQ(whole, cut);
}

TEST(Dropout, mask_changes_with_seed_step_key_and_sample) {
  const std::vector<bool> one = mask(0, 40, 1, 2);
  EXPECT_EQ(one, mask(0, 40, 1, 2));
  EXPECT_NE(one, mask(0, 40, 2, 2));
  EXPECT_NE(one, mask(0, 40, 1, 3));
  EXPECT_NE(one, mask(0, 40, 1, 2, 43));
  EXPECT_NE(one, mask(40, 40, 1, 2));
}

TEST(Dropout, masks_of_values_without_a_batch_axis_differ_from_cut_to_cut) {
  EXPECT_NE(mask(0, 40, 1, 2, 42, ""), mask(40, 40, 1, 2, 42, ""));
  // Not shifted copies of one another either.
  const std::vector<bool> first = mask(0, 40, 1, 2, 42, ""), second = mask(1, 40, 1, 2, 42, "");
  EXPECT_NE(std::vector<bool>(first.begin() + 6, first.end()),
            std::vector<bool>(second.begin(), second.end() - 6));
}

struct Training {
  std::unique_ptr<graph::Graph> graph = std::make_unique<graph::Graph>();
  graph::Node* node = nullptr;
};

Training dropout_node(double ratio, bool training_flag) {
  Training t;
  auto* x = t.graph->add_input("x", ops::TensorType(DType::kFloat32, {2, 3}));
  auto* r = t.graph->add_constant("r", Tensor::scalar<float>(static_cast<float>(ratio)));
  auto* mode = t.graph->add_constant("t", Tensor::of<bool>({}, {training_flag}));
  t.node = t.graph->add_node("", "Dropout", {x, r, mode}, {"y"});
  ops::infer_node(*t.node);
  t.graph->add_output(t.graph->find("y"));
  return t;
}

Value* applied(Training& t, bool training, ModeContext::Dropout dropout, bool respect) {
  ModeContext mode(*t.node, training, dropout, respect);
  ops::OpRegistry::get().at(*t.node).apply_mode(mode);
  return t.graph->outputs()[0];
}

TEST(Dropout, training_replaces_the_node_and_keeps_the_name) {
  Training t = dropout_node(0.25, false);
  Value* y = applied(t, true, ModeContext::Dropout::kActive, false);
  EXPECT_TRUE(y->producer->is(ops::kDomain, "Dropout"));
  EXPECT_EQ(y->name, "y");
  EXPECT_EQ(y->producer->get_float("ratio", 0), 0.25);
  EXPECT_EQ(y->producer->get_int("key", 0), ops::name_key("y"));
  EXPECT_TRUE(t.node->output(0)->uses().empty());
}

TEST(Dropout, stays_the_identity_in_evaluation_and_where_it_is_off) {
  for (const auto& [training, dropout, respect] :
       {std::tuple{false, ModeContext::Dropout::kActive, false},
        std::tuple{true, ModeContext::Dropout::kOff, false},
        std::tuple{true, ModeContext::Dropout::kActive, true}}) {
    Training t = dropout_node(0.25, false);
    Value* y = applied(t, training, dropout, respect);
    EXPECT_TRUE(y->producer->is("", "Dropout"));
    EXPECT_EQ(y->producer->num_inputs(), 1);
  }
  Training t = dropout_node(0.25, true);
  EXPECT_TRUE(
      applied(t, true, ModeContext::Dropout::kActive, true)->producer->is(ops::kDomain, "Dropout"));
}

TEST(Random, bits_are_those_of_philox) {
  // Counter 0 and key 0 of the published test vectors.
  EXPECT_EQ(ops::random_bits(0, 0, 0), 0x6627e8d5u);
  EXPECT_EQ(ops::random_bits(0, 0, 16), 0xe169c58du);
  EXPECT_EQ(ops::random_bits(0, 0, 32), 0xbc57ac4cu);
  EXPECT_EQ(ops::random_bits(0, 0, 48), 0x9b00dbd8u);
}

TEST(Random, chunks_hold_the_bits_of_their_elements) {
  const uint64_t stream = ops::stream_key(1, 2, 3);
  uint32_t bits[64 * 16];
  for (int64_t sample : {int64_t{0}, int64_t{5}, int64_t{1} << 33}) {
    ops::random_chunk(stream, sample, 3, bits);
    for (int64_t e = 0; e < 64; ++e) {
      ASSERT_EQ(bits[e], ops::random_bits(stream, sample, 192 + e)) << e;
    }
    ops::random_chunk_of_lanes(stream, sample, 3, bits);
    for (int64_t i = 0; i < 64 * 16; ++i) {
      ASSERT_EQ(bits[i], ops::random_bits(stream, sample + i % 16, 192 + i / 16)) << i;
    }
  }
}

TEST(Random, name_keys_never_change) {
  EXPECT_EQ(static_cast<uint64_t>(ops::name_key("")), 0xcbf29ce484222325u);
  EXPECT_EQ(static_cast<uint64_t>(ops::name_key("a")), 0xaf63dc4c8601ec8cu);
}

// Of a model whose Dropout reads its switch from `t`.
ops::InferenceForm form_of(const std::string& nodes, const std::string& constants = "") {
  graph::ImportedModel model;
  model.graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[2] x) => (float[2] y) <float[] p = {0.5})" +
                             constants + "> {" + nodes + "}");
  int32_t index = 0;
  for (ops::Node& node : model.graph->nodes()) node.origin.node = index++;
  for (ops::Value* constant : model.graph->constants()) {
    constant->origin.kind = graph::Origin::Kind::kInitializer;
  }
  return ops::inference_form(model);
}

TEST(Dropout, a_saved_file_loses_the_switch_that_only_dropouts_read) {
  const auto form = form_of(R"(t = Constant<value = bool[] {1}>()
    u = Dropout(x, p, t)  y = Dropout(u, p, t))");
  ASSERT_EQ(form.edits.size(), 3u);
  EXPECT_EQ(form.edits[2].node, 0);
  EXPECT_TRUE(form.edits[2].remove);
  EXPECT_EQ(form_of("y = Dropout(x, p, t)", ", bool[] t = {1}").unread_initializers,
            std::vector<std::string>{"t"});
}

TEST(Dropout, a_saved_file_keeps_a_switch_that_anything_else_reads) {
  const auto form = form_of(R"(t = Constant<value = bool[] {1}>()
    u = Dropout(x, p, t)  y = Where(t, u, x))");
  ASSERT_EQ(form.edits.size(), 1u);
  EXPECT_FALSE(form.edits[0].remove);
  EXPECT_TRUE(form_of("u = Dropout(x, p, t)  y = Where(t, u, x)", ", bool[] t = {1}")
                  .unread_initializers.empty());
}

}  // namespace
}  // namespace sardonyx::test
