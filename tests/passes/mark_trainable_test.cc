// What mark_trainable tells the user beside the table.
#include <gtest/gtest.h>

#include "graph/parse.h"
#include "passes/pass_manager.h"

namespace sardonyx::passes {
namespace {

// The passes on a graph whose constants stand for tensors of a file.
PassContext run(graph::Graph& graph, Mode mode, const std::vector<std::string>& passes) {
  for (graph::Value* constant : graph.constants()) {
    constant->origin = {graph::Origin::Kind::kInitializer, "", -1, -1, constant->name, ""};
  }
  const NullTarget target;
  PassContext context;
  context.target = &target;
  context.options.mode = mode;
  Pipeline pipeline;
  for (const std::string& pass : passes) pipeline.push_back({pass, ""});
  run_pipeline(graph, context, pipeline);
  context.target = nullptr;
  return context;
}

std::vector<std::string> notices_of(const std::string& constants) {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1]>
g (float[N,2] x) => (float[N,2] y) <)" +
                                  constants + R"(>
{
  a = MatMul(x, v)
  y = MatMul(a, w)
})");
  return run(*graph, Mode::kTrain, {"bind_batch", "infer_shapes", "append_loss", "mark_trainable"})
      .notices;
}

TEST(MarkTrainable, equal_weights_are_trained_apart_with_a_notice) {
  EXPECT_EQ(
      notices_of("float[2,2] v = {1, 2, 3, 4}, float[2,2] w = {1, 2, 3, 4}"),
      (std::vector<std::string>{"equal weights under two names are trained apart; 'v' and 'w'"}));
}

TEST(MarkTrainable, of_many_equal_weights_three_are_named) {
  std::string constants = "float[2,2] v = {1, 2, 3, 4}, float[2,2] w = {1, 2, 3, 4}";
  std::string chain, last = "a";
  for (int i = 1; i <= 5; ++i) {
    constants += fmt::format(", float[2,2] w{} = {{1, 2, 3, 4}}", i);
    chain += fmt::format("  a{} = MatMul({}, w{})\n", i, last, i);
    last = fmt::format("a{}", i);
  }
  const auto graph = graph::parse(
      "<ir_version: 8, opset_import: [\"\" : 13, \"sardonyx\" : 1]>\n"
      "g (float[N,2] x) => (float[N,2] y) <" +
      constants +
      ">\n{\n"
      "  a = MatMul(x, v)\n" +
      chain + "  y = MatMul(a5, w)\n}");
  EXPECT_EQ(
      run(*graph, Mode::kTrain, {"bind_batch", "infer_shapes", "append_loss", "mark_trainable"})
          .notices,
      (std::vector<std::string>{
          "equal weights under two names are trained apart; 'v' and 'w'; 'v' and 'w1'; 'v' "
          "and 'w2'; and 3 more pairs"}));
}

TEST(MarkTrainable, a_weight_behind_an_unknown_operator_is_blocked_by_it) {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1]>
g (float[2,2] x) => (float[2,2] y) <float[2,2] v = {1, 2, 3, 4}, float[2,2] w = {5, 6, 7, 8}> {
  a = MatMul(x, v)
  [magic] b = Foo(a)
  [side] c = Bar(a)
  y = MatMul(b, w)
})");
  const PassContext context = run(*graph, Mode::kEval, {"infer_shapes", "mark_trainable"});
  ASSERT_EQ(context.parameters.size(), 2u);
  EXPECT_EQ(context.parameters[0].reason, "blocked: magic (Foo) isn't supported");
}

TEST(MarkTrainable, a_weight_behind_a_function_of_steps_is_told_which) {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1]>
g (float[2,2] x) => (float[2,2] y) <float[2,2] v = {1, 2, 3, 4}, float[2,2] w = {5, 6, 7, 8}> {
  a = MatMul(x, v)
  [side] c = Round(a)
  b = Neg(a)
  [hm] d = Hardmax(b)
  y = MatMul(d, w)
})");
  const PassContext context = run(*graph, Mode::kEval, {"infer_shapes", "mark_trainable"});
  ASSERT_EQ(context.parameters.size(), 2u);
  EXPECT_EQ(context.parameters[0].reason,
            "no gradient path from the loss reaches it: that of node hm (Hardmax) is zero (the "
            "function is made of steps)");
}

// Each of 60 values is read twice: a walk along every path would never end.
TEST(ApplyMode, what_a_scale_is_computed_from_is_asked_once_per_value) {
  std::string body;
  for (int i = 0; i < 60; ++i) body += fmt::format("  s{} = Add(s{}, s{})\n", i + 1, i, i);
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 15, "sardonyx" : 1]>
g (float[N,3] x) => (float[N,3] y)
<float[3] s0 = {1, 2, 3}, float[3] b = {0, 0, 1}, float[3] m = {0, 0, 0}, float[3] v = {1, 1, 1}> {
)" + body + "  y = BatchNormalization<training_mode = 1>(x, s60, b, m, v)\n}\n");
  const PassContext context =
      run(*graph, Mode::kTrain,
          {"bind_batch", "infer_shapes", "append_loss", "mark_trainable", "apply_mode"});
  EXPECT_EQ(context.parameters.size(), 4u);
}

// What is trained by the flags, as notices; an error's text counts as one.
std::vector<std::string> told_of(std::vector<std::string> train, std::vector<std::string> freeze) {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 15, "sardonyx" : 1]>
g (float[N,3] x) => (float[N,3] y)
<float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[3] s = {1, 2, 3}, float[3] b = {0, 0, 1},
 float[3] mean = {0, 0, 0}, float[3] var = {1, 1, 1}, int64[2] shape = {-1, 3}, float[3] idle = {1, 2, 3}> {
  [first] a = MatMul(x, w)
  r = Reshape(a, shape)
  [norm] y = BatchNormalization(r, s, b, mean, var)
})");
  for (graph::Value* constant : graph->constants()) {
    constant->origin = {graph::Origin::Kind::kInitializer, "", -1, -1, constant->name, ""};
  }
  PassContext context;
  context.options.mode = Mode::kTrain;
  context.options.trainable.train = std::move(train);
  context.options.trainable.freeze = std::move(freeze);
  try {
    run_pipeline(
        *graph, context,
        {{"bind_batch", ""}, {"infer_shapes", ""}, {"append_loss", ""}, {"mark_trainable", ""}});
  } catch (const Error& error) {
    return {error.what()};
  }
  return context.notices;
}

TEST(MarkTrainable, training_what_can_t_be_trained_is_refused_with_the_reason) {
  using Told = std::vector<std::string>;
  EXPECT_EQ(
      told_of({"shape"}, {}),
      (Told{"--train 'shape' finds nothing that can be trained:\n  shape  int64[2]: integer or "
            "other type (int64)"}));
  EXPECT_EQ(told_of({"m*"}, {}),
            (Told{"--train 'm*' finds nothing that can be trained:\n  mean  float[3]: running "
                  "statistic of norm (BatchNormalization)"}));
  EXPECT_EQ(told_of({"idle"}, {}),
            (Told{"--train 'idle' finds nothing that can be trained:\n  idle  "
                  "float[3]: unused: no node reads it"}));
  EXPECT_EQ(told_of({"a"}, {}), (Told{"--train 'a': that is what node first (MatMul) computes, no "
                                      "tensor of the model"}));
  EXPECT_EQ(told_of({"x"}, {}), (Told{"--train 'x': that is an input, no tensor of the model"}));
  EXPECT_EQ(told_of({"ww"}, {}).at(0).find("--train 'ww' matches no tensor of the model"), 0u);
  EXPECT_EQ(told_of({"*", "s"}, {}), Told{});
  EXPECT_EQ(told_of({"s"}, {"s"}), Told{});
}

TEST(MarkTrainable, freezing_what_isn_t_trained_anyway_is_told) {
  using Told = std::vector<std::string>;
  EXPECT_EQ(
      told_of({}, {"var"}),
      (Told{"--freeze 'var' freezes nothing: 'var' isn't trained anyway (running statistic of "
            "norm (BatchNormalization))"}));
  EXPECT_EQ(
      told_of({}, {"r"}),
      (Told{"--freeze 'r': that is what node Reshape -> r computes, no tensor of the model"}));
  EXPECT_EQ(told_of({}, {"*", "s"}).size(), 1u);  // nothing is left to train
  EXPECT_EQ(told_of({}, {"*s*", "b"}), Told{});
}

TEST(MarkTrainable, a_mask_and_tables_of_angles_are_constants) {
  const auto graph = graph::parse(R"(<ir_version: 10, opset_import: ["" : 23, "sardonyx" : 1]>
g (float[N,1,2,2] x) => (float[N,1,2,2] y)
<float[2,2] mask = {0, -inf, 0, 0}, float[2,2] bias = {0, -inf, 2, 0}, float[1,2,1] c = {1, 0},
 float[1,2,1] s = {0, 1}> {
  a = Attention(x, x, x, mask)
  b = RotaryEmbedding(a, c, s)
  y = Attention(b, b, b, bias)
})");
  const PassContext context = run(*graph, Mode::kEval, {"infer_shapes", "mark_trainable"});
  std::map<std::string, std::string> reasons;
  for (const ParameterRow& row : context.parameters) reasons[row.name] = row.reason;
  EXPECT_EQ(reasons.at("mask"), "mask: holds zeros and minus infinities alone");
  EXPECT_EQ(reasons.at("c").find("constant: table of angles of "), 0u);
  EXPECT_EQ(reasons.at("s"), reasons.at("c"));
  EXPECT_EQ(reasons.at("bias").find("reaches the loss"), 0u) << reasons.at("bias");
}

TEST(MarkTrainable, different_or_uniform_weights_give_no_notice) {
  EXPECT_TRUE(notices_of("float[2,2] v = {1, 2, 3, 4}, float[2,2] w = {1, 2, 3, 5}").empty());
  EXPECT_TRUE(notices_of("float[2,2] v = {1, 1, 1, 1}, float[2,2] w = {1, 1, 1, 1}").empty());
}

TEST(MarkTrainable,
     equal_numbers_in_a_constant_node_are_the_exporters_where_weights_are_initializers) {
  const auto roles = [](graph::Origin::Kind weights, const std::vector<std::string>& train) {
    const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 18, "sardonyx" : 1]>
g (float[2,2] x) => (float[2,2] y)
<float[2,2] w = {1, 2, 3, 4}, float[2] ones = {1, 1}, float[2] bias = {1, 2}> {
  a = MatMul(x, w)
  y = LayerNormalization(a, ones, bias)
})");
    PassContext context;
    context.options.trainable.train = train;
    for (graph::Value* constant : graph->constants()) {
      constant->origin.kind = constant->name == "w" ? weights : graph::Origin::Kind::kConstantNode;
      constant->origin.tensor = constant->name;
    }
    const NullTarget target;
    context.target = &target;
    run_pipeline(*graph, context, {{"infer_shapes", ""}, {"mark_trainable", ""}});
    std::string roles;
    for (const ParameterRow& row : context.parameters) {
      roles += row.role == ParameterRow::Role::kTrainable ? row.name + " " : "";
    }
    return roles;
  };
  using Kind = graph::Origin::Kind;
  EXPECT_EQ(roles(Kind::kInitializer, {}), "w bias ");
  EXPECT_EQ(roles(Kind::kInitializer, {"ones"}), "w ones bias ");
  EXPECT_EQ(roles(Kind::kConstantNode, {}), "w ones bias ");
}

TEST(MarkTrainable, what_meets_the_data_behind_a_trained_factor_is_a_weight) {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1]>
g (float[2,2] x) => (float[2,2] y) <float[2] scale = {1, 2}, float[2] shift = {3, 4}> {
  a = Mul(x, scale)
  y = Add(a, shift)
})");
  for (graph::Value* constant : graph->constants()) {
    constant->origin.kind = graph::Origin::Kind::kInitializer;
  }
  const NullTarget target;
  PassContext context;
  context.target = &target;
  context.options.trainable.train = {"scale"};
  run_pipeline(*graph, context, {{"infer_shapes", ""}, {"mark_trainable", ""}});
  ASSERT_EQ(context.parameters.size(), 2u);
  EXPECT_EQ(context.parameters[1].reason, "reaches the loss through Add -> y");
}

}  // namespace
}  // namespace sardonyx::passes
