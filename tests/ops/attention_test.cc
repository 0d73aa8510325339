// Attention and RotaryEmbedding, against numbers of torch's scaled_dot_product_attention and of
// formulas written out in numpy.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "graph/parse.h"
#include "ops/core/mode.h"
#include "ops/core/normalize.h"
#include "tests/ops/wave.h"
#include "tests/support/interpret.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using Ints = std::vector<int64_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

OpCase attention(const Ints& q, const Ints& k, const Ints& v, Attributes attributes = {}) {
  OpCase c;
  c.claim = "Attention";
  c.op = "Attention";
  c.inputs = {given(wave(q, 1)), given(wave(k, 2)), given(wave(v, 3))};
  c.attributes = std::move(attributes);
  c.must_run = {"attention.ref"};
  return c;
}

OpCase small(Attributes attributes = {}) {
  return attention({1, 2, 2, 2}, {1, 2, 3, 2}, {1, 2, 3, 2}, std::move(attributes));
}

// Three queries, five keys.
OpCase uneven(Attributes attributes = {}) {
  return attention({1, 1, 3, 2}, {1, 1, 5, 2}, {1, 1, 5, 2}, std::move(attributes));
}

TEST(Attention, weighs_values_by_the_softmax_of_scaled_products) {
  OpCase c = small();
  c.expected = {doubles({1, 2, 2, 2}, {0.159774043, -0.0858063906, 0.463738874, 0.226885404,
                                       -0.23576588, 0.13923412, -0.344397925, 0.0306020748})};
  check_op(c);
}

TEST(Attention, adds_a_floating_mask_which_has_a_gradient) {
  OpCase c = small({{"scale", 0.5}});
  c.inputs.push_back(given(wave({2, 3}, 4)));
  c.expected = {doubles({1, 2, 2, 2}, {0.154327249, 0.0779767295, 0.380971456, 0.355691405,
                                       -0.0536908909, 0.321309109, -0.191180667, 0.183819333})};
  check_op(c);
}

TEST(Attention, sees_where_a_boolean_mask_is_true) {
  OpCase c = small();
  c.inputs.push_back(given(bools({2, 3}, {true, false, true, false, true, true})));
  c.expected = {doubles({1, 2, 2, 2}, {0.7636234, -0.18269616, 0.246897197, 0.621897197,
                                       -0.229289248, 0.145710752, -0.0939815215, 0.281018478})};
  check_op(c);
  c.inputs[3] = constant(c.inputs[3].value);
  check_op(c);
}

TEST(Attention, shares_a_head_of_keys_among_heads_of_queries) {
  OpCase c = attention({1, 2, 8}, {1, 3, 4}, {1, 3, 2},
                       {{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}});
  c.expected = {doubles({1, 2, 4}, {0.421711699, 0.107774817, 0.027607319, -0.286517039,
                                    0.144520715, 0.347018179, -0.331302505, 0.238870151})};
  check_op(c);
}

TEST(Attention, causal_hides_later_keys) {
  OpCase c = attention({1, 1, 3, 2}, {1, 1, 3, 2}, {1, 1, 3, 2}, {{"is_causal", int64_t{1}}});
  c.expected = {
      doubles({1, 1, 3, 2}, {1, -0.75, 0.591671402, -0.52727531, 0.349305867, 0.0142341199})};
  check_op(c);
}

TEST(Attention, softcap_bounds_the_products_and_output_3_shows_each_step) {
  const Tensor steps[] = {
      doubles({1, 1, 3, 3}, {-0.0994368911, 0.497184456, -0.596621347, 0.265165043, -0.596621347,
                             0.983320368, 0.0662912607, 0, 0.121533978}),
      doubles({1, 1, 3, 3}, {-0.0981463682, 0.379609541, -0.415790924, 0.242816685, -0.415790924,
                             0.48079667, 0.0659055472, 0, 0.11919573}),
      doubles({1, 1, 3, 3}, {-0.0981463682, -kInfinity, -kInfinity, 0.242816685, -0.415790924,
                             -kInfinity, 0.0659055472, 0, 0.11919573}),
      doubles({1, 1, 3, 3},
              {1, 0, 0, 0.658947538, 0.341052462, 0, 0.334341377, 0.313016847, 0.352641776})};
  for (int64_t mode = 0; mode < 4; ++mode) {
    OpCase c =
        attention({1, 1, 3, 2}, {1, 1, 3, 2}, {1, 1, 3, 2},
                  {{"is_causal", int64_t{1}}, {"softcap", 0.5}, {"qk_matmul_output_mode", mode}});
    c.num_outputs = 4;
    c.wanted_outputs = {true, false, false, true};
    // Differences of what is -inf say nothing.
    c.seeds = mode == 2 ? std::vector<int>{0} : std::vector<int>{0, 3};
    c.expected = {
        doubles({1, 1, 3, 2}, {1, -0.75, 0.531052864, -0.494210653, 0.349200726, 0.0137252988}),
        Tensor(), Tensor(), steps[mode]};
    check_op(c);
  }
}

TEST(Attention, past_keys_stand_in_front) {
  OpCase c = attention({1, 1, 2, 2}, {1, 1, 2, 2}, {1, 1, 2, 2}, {{"is_causal", int64_t{1}}});
  c.inputs.push_back(left_out());
  c.inputs.push_back(given(wave({1, 1, 2, 2}, 5)));
  c.inputs.push_back(given(wave({1, 1, 2, 2}, 6)));
  c.num_outputs = 3;
  c.expected = {doubles({1, 1, 2, 2}, {0.273321364, -0.492385544, 0.524690632, -0.594256081}),
                doubles({1, 1, 4, 2}, {-0.5, -0.125, 0.25, 0.625, -0.375, 0, 0.375, 0.75})};
  check_op(c);
}

// Samples of four keys and of one: with causality the only query that sees the one is the last.
OpCase of_lengths(Attributes attributes, const std::vector<double>& expected) {
  OpCase c = attention({2, 1, 2, 2}, {2, 1, 4, 2}, {2, 1, 4, 2}, std::move(attributes));
  c.inputs.resize(6, left_out());
  c.inputs.push_back(given(ints({2}, {4, 1})));
  c.expected = {doubles({2, 1, 2, 2}, expected)};
  c.batch = true;
  return c;
}

TEST(Attention, sees_as_many_keys_as_a_sample_has) {
  check_op(of_lengths(
      {}, {-0.123090648, -0.21731376, 0.171545979, 0.0568312588, -0.25, 0.125, -0.25, 0.125}));
  check_op(of_lengths({{"is_causal", int64_t{1}}},
                      {0.159774043, -0.0858063906, 0.171545979, 0.0568312588, 0, 0, -0.25, 0.125}));
  check_op(of_lengths({{"left_window_size", int64_t{1}}, {"right_window_size", int64_t{0}}},
                      {-0.186823276, 0.188176724, -0.0333285977, 0.341671402, 0, 0, -0.25, 0.125}));
}

TEST(Attention, a_window_hides_keys_on_both_sides) {
  OpCase c = uneven({{"left_window_size", int64_t{1}}, {"right_window_size", int64_t{1}}});
  c.expected = {doubles({1, 1, 3, 2}, {0.113285952, -0.266337792, 0.463738874, 0.226885404,
                                       -0.316487392, 0.0585126081})};
  check_op(c);
  c.attributes["is_causal"] = int64_t{1};
  c.expected = {
      doubles({1, 1, 3, 2}, {1, -0.75, 0.591671402, -0.52727531, 0.0227596135, 0.397759614})};
  check_op(c);
}

TEST(Attention, a_short_mask_hides_the_keys_behind_its_end) {
  OpCase c = uneven();
  c.inputs.push_back(given(wave({3, 2}, 4)));
  c.expected = {doubles({1, 1, 3, 2}, {0.0025164957, -0.205918089, 0.905972399, -0.698712218,
                                       0.207216184, -0.317572464})};
  check_op(c);
}

TEST(Attention, a_query_that_sees_nothing_gives_zeros_and_no_nan_in_gradients) {
  const Tensor mask = bools({3, 2}, {true, false, false, false, true, true});
  for (const OpInput& input : {given(mask), constant(mask)}) {
    OpCase c = uneven();
    c.inputs.push_back(input);
    c.expected = {doubles({1, 1, 3, 2}, {1, -0.75, 0, 0, 0.335279279, -0.387425062})};
    check_op(c);
  }
}

TEST(Attention, one_column_of_a_mask_is_for_all_keys_in_opset_23_only) {
  OpCase c = uneven({{"pad_mask", int64_t{0}}});
  c.inputs.push_back(given(bools({3, 1}, {true, true, true})));
  const Tensor all = reference(uneven())[0];
  c.expected = {all};
  check_op(c);
  c.attributes.clear();
  // The first key alone.
  c.expected = {doubles({1, 1, 3, 2}, {1, -0.75, 1, -0.75, 1, -0.75})};
  c.zero_gradients = {0, 1};
  check_op(c);
}

TEST(Attention, trains_with_a_batch_in_any_form) {
  const Attributes heads{{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}};
  OpCase c;
  c.op = "Attention";
  c.batch = true;
  c.claim = "three axes";
  c.attributes = heads;
  c.inputs = {random({2, 3, 8}), random({2, 3, 4}), random({2, 3, 6})};
  check_op(c);
  c.claim = "a mask of parameters";
  c.inputs.push_back(parameter(random({4, 3, 3})));
  check_op(c);
  c.claim = "four axes, double softmax";
  c.attributes = {{"softmax_precision", int64_t{11}}};
  c.inputs = {random({2, 2, 3, 2}), random({2, 2, 3, 2}), random({2, 2, 3, 4})};
  check_op(c);
}

TEST(Attention, one_value_at_all_inputs_gets_the_sum_of_its_gradients) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat64, {1, 1, 2, 2}));
  ops::OpBuilder b(g);
  ops::Node* node = b.op("Attention", {x, x, x})->producer;
  auto* dy = g.add_input("dy", x->type);
  ops::GradientContext context(*node, b, {dy}, {true, true, true});
  ops::OpRegistry::get().at(*node).gradient.rule(context);
  const std::map<std::string, Tensor> feeds{{"x", doubles({1, 1, 2, 2}, {0, 0, 0, 0})},
                                            {"dy", doubles({1, 1, 2, 2}, {1, 2, 3, 5})}};
  const auto values = tests::interpret(g, feeds).values;
  // With equal weights each value gets half of every dy; q and k get nothing.
  const Tensor zero = doubles({1, 1, 2, 2}, {0, 0, 0, 0});
  const Tensor half = doubles({1, 1, 2, 2}, {2, 3.5, 2, 3.5});
  const Tensor* wanted[] = {&zero, &zero, &half};
  for (const int i : {0, 1, 2}) {
    const auto d = difference(values.at(context.result()[i]->name), *wanted[i], {1e-12, 1e-12});
    EXPECT_FALSE(d) << i << ": " << *d;
  }
}

TEST(Attention, its_parts_take_its_place_and_name) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {1, 2, 4}));
  ops::OpBuilder b(g);
  ops::Node* node = b.node("", "Attention", {x, x, x}, {"y"},
                           {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}});
  node->name = "self";
  g.add_output(node->output(0));
  ops::ModeContext mode(*node, true, ops::ModeContext::Dropout::kOff, false);
  ops::OpRegistry::get().at(*node).apply_mode(mode);
  const graph::Value* y = g.outputs()[0];
  EXPECT_EQ(y->name, "y");
  EXPECT_EQ(y->producer->op, "Reshape");
  EXPECT_EQ(y->producer->name, "self");
  EXPECT_EQ(y->type.str(), "float[1,2,4]");
  EXPECT_TRUE(node->output(0)->uses().empty());
}

TEST(Attention, layers_share_what_they_hide) {
  graph::Graph g;
  graph::Value* x = g.add_input("x", ops::TensorType(DType::kFloat32, {1, 1, 3, 2}));
  ops::OpBuilder b(g);
  for (int layer = 0; layer < 2; ++layer) {
    ops::Node* node = b.op("Attention", {x, x, x}, {{"is_causal", int64_t{1}}})->producer;
    g.add_output(node->output(0));
    ops::ModeContext mode(*node, true, ops::ModeContext::Dropout::kOff, false);
    ops::OpRegistry::get().at(*node).apply_mode(mode);
    x = g.outputs().back();
  }
  int tables = 0;
  for (const graph::Value* value : g.constants()) tables += value->type.rank() == 2 ? 1 : 0;
  EXPECT_EQ(tables, 1);
}

TEST(Attention, sizes_that_are_not_known_yet_stay_so_and_the_batch_keeps_its_name) {
  graph::Graph g;
  const graph::Dim batch = graph::Dim::named("N");
  auto* q = g.add_input("q", ops::TensorType(DType::kFloat32, {batch, graph::Dim(), 8}));
  auto* k = g.add_input("k", ops::TensorType(DType::kFloat32, {batch, 5, 4}));
  auto* v = g.add_input("v", ops::TensorType(DType::kFloat32, {batch, 5, graph::Dim()}));
  ops::OpBuilder b(g);
  ops::Node* node = b.node("", "Attention", {q, k, v}, {"y", "keys", "values", "scores"},
                           {{"q_num_heads", int64_t{4}}, {"kv_num_heads", int64_t{2}}});
  const char* types[] = {"float[N,?,?]", "float[N,2,5,2]", "float[N,2,5,?]", "float[N,4,?,5]"};
  for (const int i : {0, 1, 2, 3}) EXPECT_EQ(node->output(i)->type.str(), types[i]);
  // Nobody can write the parts yet.
  ops::ModeContext mode(*node, true, ops::ModeContext::Dropout::kOff, false);
  ops::OpRegistry::get().at(*node).apply_mode(mode);
  EXPECT_EQ(g.nodes().size(), 1u);
}

TEST(Attention, only_newer_opsets_know_windows_and_short_masks) {
  const auto attributes_at = [](int64_t opset) {
    const auto g = graph::parse(R"(<ir_version: 10, opset_import: ["" : 25]>
g (float[1,1,2,2] x) => (float[1,1,2,2] y) { y = Attention<left_window_size = 1>(x, x, x) })");
    ops::normalize_node(g->nodes().front(), opset);
    std::string names;
    for (const auto& [name, value] : g->nodes().front().attributes) names += name + " ";
    return names;
  };
  EXPECT_EQ(attributes_at(23), "pad_mask ");
  EXPECT_EQ(attributes_at(24), "");
  EXPECT_EQ(attributes_at(25), "left_window_size ");
}

void refuses(OpCase c, const std::string& reason) {
  const std::string error = infer_error(c);
  EXPECT_NE(error.find(reason), std::string::npos) << error;
}

TEST(Attention, a1_to_a4_reject_operands_that_do_not_fit) {
  OpCase c = small();
  c.inputs[1] = exactly(given(floats({1, 2, 3, 2}, std::vector<float>(12, 0))));
  c.inputs[0] = exactly(c.inputs[0]);
  refuses(c, "A1: input 1 (k) 'x1' is float[1,2,3,2], but input 0 (q) 'x0' is double[1,2,2,2]");
  refuses(attention({1, 2, 2, 2}, {1, 6, 2}, {1, 6, 2}), "A2: q is float[1,2,2,2], k float[1,6,2]");
  refuses(attention({1, 2, 4}, {1, 3, 4}, {1, 3, 4}), "A3: q_num_heads is 0");
  refuses(attention({1, 2, 4}, {1, 3, 4}, {1, 3, 4},
                    {{"q_num_heads", int64_t{3}}, {"kv_num_heads", int64_t{1}}}),
          "A3: q_num_heads is 3, which doesn't divide the last axis of input 0, float[1,2,4]");
  refuses(small({{"q_num_heads", int64_t{3}}}), "A3: q_num_heads is 3, but input 0 is");
  refuses(small({{"q_num_heads", int64_t{-1}}}), "A3: q_num_heads is -1, but input 0 is");
  refuses(attention({1, 3, 2, 2}, {1, 2, 3, 2}, {1, 2, 3, 2}),
          "A4: q has 3 heads, which is no multiple of the 2 of k");
  refuses(attention({1, 2, 2, 4}, {1, 2, 3, 2}, {1, 2, 3, 2}), "A4: sizes of a head differ");
  refuses(attention({1, 2, 2, 2}, {1, 2, 3, 2}, {1, 2, 4, 2}), "A4: lengths differ");
}

TEST(Attention, a8_rejects_a_softcap_below_zero) {
  refuses(small({{"softcap", -1.0}}), "A8: softcap is -1, expected 0 (none) or more");
}

TEST(Attention, a5_rejects_a_mask_that_does_not_broadcast) {
  OpCase c = small();
  c.inputs.push_back(given(wave({2, 4}, 1)));
  refuses(c,
          "A5: attn_mask is float[2,4], which doesn't fit [batch, heads, queries, keys] "
          "[1,2,2,3]");
  c.inputs[3] = given(wave({2, 2}, 1));
  EXPECT_EQ(infer_error(c), "");
  c.attributes["pad_mask"] = int64_t{0};
  refuses(c, "A5: attn_mask is float[2,2]");
  c.inputs[3] = given(ints({2, 3}, {1, 1, 1, 1, 1, 1}));
  refuses(c, "A5: input 3 (attn_mask) 'x3' is int64[2,3]");
}

TEST(Attention, a6_a7_reject_caches_that_do_not_fit) {
  OpCase c = small();
  c.inputs.resize(4, left_out());
  c.inputs.push_back(given(wave({1, 2, 4, 2}, 1)));
  refuses(c, "A6: past_key and past_value come together only");
  c.inputs.push_back(given(wave({1, 2, 5, 2}, 1)));
  refuses(c, "A6: input 5 is float[1,2,5,2], which doesn't fit input 2");
  c.inputs[5] = given(wave({1, 2, 4, 2}, 1));
  EXPECT_EQ(infer_error(c), "");
  c.inputs.push_back(given(ints({1}, {2})));
  refuses(c, "A6: nonpad_kv_seqlen is for keys without past_key");
  c.inputs[4] = c.inputs[5] = left_out();
  c.inputs[6] = given(ints({2}, {2, 2}));
  refuses(c, "A7: nonpad_kv_seqlen is int64[2], expected one number for each of 1 samples");
  c.inputs[6] = given(wave({1}, 1));
  refuses(c, "A7: nonpad_kv_seqlen is float[1], expected int64");
}

TEST(Attention, a8_rejects_attributes_out_of_range) {
  refuses(small({{"qk_matmul_output_mode", int64_t{4}}}), "A8: qk_matmul_output_mode is 4");
  refuses(small({{"left_window_size", int64_t{-2}}}), "A8: left_window_size is -2");
  refuses(small({{"softmax_precision", int64_t{7}}}), "A8: softmax_precision is 7");
}

// --- RotaryEmbedding

OpCase rotary(const Ints& x, const Ints& cache, Attributes attributes = {}) {
  OpCase c;
  c.claim = "RotaryEmbedding";
  c.op = "RotaryEmbedding";
  c.inputs = {given(wave(x, 1)), parameter(given(wave(cache, 2))),
              parameter(given(wave(cache, 3)))};
  c.attributes = std::move(attributes);
  c.differentiate = std::vector<int>{0, 1, 2};
  c.must_run = {"rotary.ref"};
  return c;
}

TEST(Rotary, turns_the_two_halves_of_a_head) {
  OpCase c = rotary({1, 2, 2, 4}, {3, 2});
  c.inputs.push_back(given(ints({1, 2}, {2, 0})));
  c.expected = {doubles({1, 2, 2, 4},
                        {0, 0, 1.140625, 0.953125, -0.40625, 0.65625, -0.4375, -0.09375, 0.921875,
                         0.125, -0.203125, -0.53125, 0.515625, -0.28125, 0.90625, -0.75})};
  check_op(c);
}

TEST(Rotary, interleaved_turns_neighbours) {
  OpCase c = rotary({1, 2, 8}, {3, 2}, {{"interleaved", int64_t{1}}, {"num_heads", int64_t{2}}});
  c.inputs.push_back(given(ints({1, 2}, {2, 0})));
  c.expected = {doubles(
      {1, 2, 8}, {-0.65625, -0.609375, 1.09375, -0.359375, 0.203125, -0.21875, -0.96875, -0.171875,
                  0.828125, -0.6875, 0.1875, 0.09375, -1.234375, 0.25, -0.28125, 0.5625})};
  check_op(c);
}

TEST(Rotary, leaves_numbers_behind_the_turned_ones_as_they_are) {
  for (const int64_t interleaved : {0, 1}) {
    OpCase c = rotary({1, 2, 8}, {1, 2, 1},
                      {{"rotary_embedding_dim", int64_t{2}},
                       {"num_heads", int64_t{2}},
                       {"interleaved", interleaved}});
    c.expected = {
        doubles({1, 2, 8}, {-0.890625, 0.09375, -1, -0.625, -0.03125, -0.296875, 0.5, 0.875, -0.375,
                            0.65625, -0.125, 0.25, 0.75, -0.46875, -0.75, -0.375})};
    check_op(c);
  }
}

TEST(Rotary, trains_with_a_batch) {
  OpCase c = rotary({2, 3, 8}, {4, 2}, {{"num_heads", int64_t{2}}});
  c.inputs.push_back(given(ints({2, 3}, {0, 1, 2, 3, 0, 1})));
  c.batch = true;
  check_op(c);
}

TEST(Rotary, r1_to_r4_reject_operands_that_do_not_fit) {
  OpCase c = rotary({1, 2, 2, 4}, {3, 2});
  c.inputs.push_back(given(wave({1, 2}, 0)));
  refuses(c, "R1: position_ids are float[1,2], expected int64");
  refuses(rotary({2, 4}, {3, 2}), "R2: x is float[2,4], expected 3 or 4 axes");
  refuses(rotary({1, 2, 8}, {1, 2, 2}), "R2: num_heads is 0");
  refuses(rotary({1, 2, 2, 4}, {1, 2, 2}, {{"rotary_embedding_dim", int64_t{6}}}),
          "R3: rotary_embedding_dim is 6, a head has 4 numbers");
  refuses(rotary({1, 2, 2, 4}, {1, 2, 2}, {{"rotary_embedding_dim", int64_t{3}}}), "R3");
  refuses(rotary({1, 2, 2, 4}, {1, 2, 3}), "R4: input 1 is float[1,2,3], expected [1,2,2]");
  refuses(rotary({1, 2, 2, 4}, {3, 2}), "R4: input 1 is float[3,2], expected [1,2,2]");
  c.inputs[3] = given(ints({1, 3}, {0, 1, 2}));
  refuses(c, "R4: position_ids are int64[1,3], expected [1,2]");
}

}  // namespace
}  // namespace sardonyx::test
