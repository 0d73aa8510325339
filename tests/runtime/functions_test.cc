// Local functions of a file, trained through: what their calls, attributes and bodies may look
// like.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/model_sketch.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::runtime {
namespace {

using testing::inner_graph;
using testing::ModelSketch;
using testing::node_of;
using testing::output_for;
using testing::set_default;
using testing::set_graph;
using testing::set_overload;
using testing::states_after_step;
namespace fs = std::filesystem;
using States = std::map<std::string, std::vector<double>>;
using Numbers = std::vector<double>;

// Two calls in a row.
ModelSketch two_calls(const std::string& op) {
  return ModelSketch(R"(<ir_version: 10, opset_import: ["" : 17, "local" : 1]>
g (float[N,2] x) => (float[N,2] y) {
  [a] h = local.)" + op +
                     R"((x)
  [b] y = local.)" + op +
                     R"((h)
})");
}

constexpr const char* kScaled = R"(<ir_version: 10, opset_import: ["" : 17]>
f (float u) => (float v) {
  k = Constant<value = float[2] {2, 3}>()
  v = Mul(u, k)
})";

TEST(Functions, weights_of_calls_inside_calls_have_the_whole_path_and_are_saved_by_it) {
  ModelSketch sketch(R"(<ir_version: 10, opset_import: ["" : 17, "local" : 1]>
g (float[N,2] x) => (float[N,2] y) { r = Relu(x)  [outer] y = local.twice(r) })");
  sketch.add_function("local", "scaled", kScaled);
  sketch.add_function("local", "twice",
                      R"(<ir_version: 10, opset_import: ["" : 17, "local" : 1]>
f (float u) => (float v) {
  [first] h = local.scaled(u)
  [second] v = local.scaled(h)
})");
  auto session = sketch.open();
  // y = (4, 9); mean over two elements: dy = y - label = (4, 8); dk = dy x k_other.
  EXPECT_EQ(states_after_step(*session, {{1, 1}}, {{0, 1}}, 0.125),
            (States{{"outer/first/k", {1, 0}}, {"outer/second/k", {1, 0}}}));
  session = sketch.open();
  session->prepare_training({{{1}}});
  session->set_state("outer/second/k", graph::Tensor::of<float>({2}, {10, 20}));
  const fs::path path = fs::temp_directory_path() / fmt::format("sardonyx_fn_{}.onnx", getpid());
  session->save(path);
  EXPECT_EQ(output_for(*Session::open(path, session->options()), {{1, 1}}), (Numbers{20, 60}));
  fs::remove(path);
}

TEST(Functions, overloads_are_different_functions) {
  ModelSketch sketch = two_calls("f");
  set_overload(node_of(sketch.graph(), "h"), "by_two");
  set_overload(node_of(sketch.graph(), "y"), "plus_one");
  set_overload(sketch.add_function("local", "f", R"(<ir_version: 10, opset_import: ["" : 17]>
f (float u) => (float v) { k = Constant<value = float[] {2}>()  v = Mul(u, k) })"),
               "by_two");
  set_overload(sketch.add_function("local", "f", R"(<ir_version: 10, opset_import: ["" : 17]>
f (float u) => (float v) { k = Constant<value = float[] {1}>()  v = Add(u, k) })"),
               "plus_one");
  EXPECT_EQ(output_for(*sketch.open(), {{3, 5}}), (Numbers{7, 11}));
}

TEST(Functions, one_that_is_called_like_a_standard_operator_takes_its_place) {
  ModelSketch sketch(R"(<ir_version: 10, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,2] y) { y = Relu(x) })");
  sketch.add_function("", "Relu", R"(<ir_version: 10, opset_import: ["" : 17]>
f (float u) => (float v) { v = Neg(u) })");
  EXPECT_EQ(output_for(*sketch.open(), {{3, -5}}), (Numbers{-3, 5}));
}

TEST(Functions, attributes_pass_through_two_levels_and_have_defaults) {
  ModelSketch sketch = two_calls("outer");
  onnx::AttributeProto& slope = *node_of(sketch.graph(), "h").add_attribute();
  slope.set_name("slope");
  slope.set_type(onnx::AttributeProto::FLOAT);
  slope.set_f(0.5f);
  sketch
      .add_function("local", "inner", R"(<ir_version: 10, opset_import: ["" : 17]>
f (float u) => (float v) { v = LeakyRelu<alpha = @alpha>(u) })")
      .add_attribute("alpha");
  set_default(sketch.add_function("local", "outer",
                                  R"(<ir_version: 10, opset_import: ["" : 17, "local" : 1]>
f (float u) => (float v) { v = local.inner<alpha = @slope>(u) })"),
              "slope", 0.25f);
  // The first call says 0.5, the second one nothing.
  EXPECT_EQ(output_for(*sketch.open(), {{-8, 8}}), (Numbers{-1, 8}));
}

TEST(Functions, an_attribute_that_neither_call_nor_function_gives_is_left_out) {
  ModelSketch sketch = two_calls("f");
  sketch
      .add_function("local", "f", R"(<ir_version: 10, opset_import: ["" : 17]>
f (float u) => (float v) { v = HardSigmoid<alpha = @a, beta = @b>(u) })")
      .add_attribute("a");
  EXPECT_EQ(output_for(*sketch.open(), {{-10, 10}}), (Numbers{0.5, 0.7f}));  // 0.2 x + 0.5, clipped
}

// The condition, an attribute and a weight stand in the body; so does a call, inside the branch.
TEST(Functions, a_branch_in_a_body_sees_its_attributes_values_and_functions) {
  ModelSketch sketch = two_calls("f");
  for (const char* output : {"h", "y"}) {
    onnx::AttributeProto& slope = *node_of(sketch.graph(), output).add_attribute();
    slope.set_name("slope");
    slope.set_type(onnx::AttributeProto::FLOAT);
    slope.set_f(*output == 'h' ? 0.5f : 0.25f);
  }
  sketch.add_function("local", "scaled", kScaled);
  onnx::FunctionProto& f = sketch.add_function("local", "f",
                                               R"(<ir_version: 10, opset_import: ["" : 17]>
f (float u) => (float v) {
  yes = Constant<value = bool[] {1}>()
  r = LeakyRelu<alpha = @slope>(u)
  [choice] v = If(yes)
})");
  f.add_attribute("slope");
  set_graph(node_of(f, "v"), "then_branch",
            inner_graph(R"(<ir_version: 10, opset_import: ["" : 17, "local" : 1]>
then (float r) => (float t) {
  [call] q = local.scaled(r)
  t = LeakyRelu<alpha = @slope>(q)
})"));
  set_graph(node_of(f, "v"), "else_branch",
            inner_graph(R"(<ir_version: 10, opset_import: ["" : 17, "acme" : 1]>
else (float u) => (float t) { t = acme.Secret(u) })"));
  auto session = sketch.open();
  // -8 -> -4 -> -8 -> -4, then -1 -> -2 -> -0.5; 1 -> 3 -> 9.
  EXPECT_EQ(output_for(*session, {{-8, 1}}), (Numbers{-0.5, 9}));
  session = sketch.open();
  session->prepare_training({{{1}}});
  EXPECT_EQ(testing::states_of(*session), (States{{"a/choice/then_branch/call/k", {2, 3}},
                                                  {"b/choice/then_branch/call/k", {2, 3}}}));
  session->set_state("b/choice/then_branch/call/k", graph::Tensor::of<float>({2}, {4, 5}));
  const fs::path path = fs::temp_directory_path() / fmt::format("sardonyx_fi_{}.onnx", getpid());
  const auto saved = session->save(path);
  EXPECT_EQ(saved.notices.size(), 4u);  // copies of f and scaled for both calls
  EXPECT_EQ(output_for(*Session::open(path, session->options()), {{-8, 1}}), (Numbers{-1, 15}));
  fs::remove(path);
}

TEST(Functions, a_body_has_its_own_opset_also_inside_a_branch) {
  // Up to opset 12 Softmax flattens: over all behind axis 1, not over the last axis.
  ModelSketch sketch(R"(<ir_version: 10, opset_import: ["" : 17, "local" : 1]>
g (float[N,2] x) => (float[N,1,2] p, float[N,1,2] q, float[N,1,2] r) <int64[3] s = {0, 1, 2}> {
  t = Reshape(x, s)
  p = Softmax<axis = 1>(t)
  q, r = local.old(t)
})");
  onnx::FunctionProto& f = sketch.add_function("local", "old",
                                               R"(<ir_version: 10, opset_import: ["" : 11]>
f (float u) => (float v, float w) {
  yes = Constant<value = bool[] {1}>()
  v = Softmax<axis = 1>(u)
  w = If(yes)
})");
  for (const char* branch : {"then_branch", "else_branch"}) {
    set_graph(node_of(f, "w"), branch, inner_graph(R"(<ir_version: 10, opset_import: ["" : 11]>
then (float u) => (float t) { t = Softmax<axis = 1>(u) })"));
  }
  auto session = sketch.open();
  Batch batch;
  batch.inputs.emplace_back("", graph::Tensor::of<float>({1, 2}, {3, 3}));
  const auto outputs = session->forward(batch, passes::Mode::kEval);
  EXPECT_EQ(outputs.at(0).second.to_doubles(), (Numbers{1, 1}));
  EXPECT_EQ(outputs.at(1).second.to_doubles(), (Numbers{0.5, 0.5}));
  EXPECT_EQ(outputs.at(2).second.to_doubles(), (Numbers{0.5, 0.5}));
}

TEST(Functions, one_with_the_name_of_a_known_operator_is_what_the_file_says) {
  ModelSketch sketch(R"(<ir_version: 10, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[N,2] x) => (float[N,2] y) { h = com.microsoft.Gelu(x)  y = com.microsoft.QuickGelu<alpha = 0.0>(h) })");
  sketch.add_function("com.microsoft", "Gelu", R"(<ir_version: 10, opset_import: ["" : 17]>
f (float u) => (float v) { v = Neg(u) })");
  // -x / 2: the sigmoid of 0 times h, by the operator.
  EXPECT_EQ(output_for(*sketch.open(), {{4, -2}}), (Numbers{-2, 1}));
}

TEST(Functions, operands_may_be_left_out) {
  ModelSketch sketch(R"(<ir_version: 10, opset_import: ["" : 17, "local" : 1]>
g (float[N,2] x) => (float[N,2] y) <float[] high = {2}> {
  h = local.clip(x, "", high)
  z, "", y = local.three(h)
})");
  sketch.add_function("local", "clip", R"(<ir_version: 10, opset_import: ["" : 17]>
f (float u, float low, float high) => (float v) { v = Clip(u, low, high) })");
  sketch.add_function("local", "three", R"(<ir_version: 10, opset_import: ["" : 17]>
f (float u) => (float a, float b, float c) { a = Neg(u)  b = acme.Secret(u)  c = Sum(u, u, a) })");
  sketch.proto().add_opset_import()->set_domain("acme");
  sketch.proto().mutable_functions(1)->add_opset_import()->set_domain("acme");
  // Trailing operands that a call doesn't even list count as left out.
  EXPECT_EQ(output_for(*sketch.open(), {{-4, 4}}), (Numbers{-4, 2}));
  node_of(sketch.graph(), "h").mutable_input()->RemoveLast();
  node_of(sketch.graph(), "h").mutable_input()->RemoveLast();
  EXPECT_EQ(output_for(*sketch.open(), {{-4, 4}}), (Numbers{-4, 4}));
}

TEST(Functions, one_that_nobody_calls_may_hold_anything) {
  ModelSketch sketch = two_calls("f");
  sketch.add_function("local", "f", kScaled);
  sketch.add_function("local", "unused", R"(<ir_version: 10, opset_import: ["" : 17, "acme" : 1]>
f (float u) => (float v) { v = acme.Secret(u) })");
  EXPECT_EQ(output_for(*sketch.open(), {{1, 1}}), (Numbers{4, 9}));
}

TEST(Functions, an_output_keeps_its_name_when_the_function_hands_on_its_input) {
  ModelSketch sketch(R"(<ir_version: 10, opset_import: ["" : 17, "local" : 1]>
g (float[N,2] x) => (float[N,1] y) <float[2,1] w = {1, 1}> {
  h = MatMul(x, w)
  y = local.Same(h)
})");
  sketch.add_function("local", "Same", R"(<ir_version: 10, opset_import: ["" : 17]>
f (float u) => (float u) { })");
  const auto session = sketch.open("y");
  EXPECT_EQ(states_after_step(*session, {{1, 2}}, {{5}}, 0.125),
            (States{{"w", {1.5, 2.0}}}));  // dw = 2 (3 - 5) x
}

}  // namespace
}  // namespace sardonyx::runtime
