// Which nodes of a file change when it is saved in inference form: those whose operator says so, in
// functions too, unless an output is read that only the training form has.
#include "ops/core/inference_form.h"

#include <gtest/gtest.h>

#include "ops/core/infer.h"

namespace sardonyx::ops {
namespace {

// Two modes, told by an attribute, and a second output for training only.
OpRegistry registry_of_norm() {
  OpDef op;
  op.name = "Norm";
  op.doc = "An operator with a mode.";
  op.infer = [](InferContext&) {};
  op.gradient = zero_gradient("a test");
  op.inference_form = [](InferenceFormContext& form) {
    if (!form.attribute_is("training_mode", 0, 0)) form.edit().ints["training_mode"] = 0;
    form.edit().keep_outputs = 1;
  };
  OpRegistry registry;
  registry.add(std::move(op));
  return registry;
}

graph::ImportedModel model_of(int64_t training_mode, const std::vector<std::string>& outputs) {
  graph::ImportedModel model;
  model.graph = std::make_unique<graph::Graph>();
  Value* x = model.graph->add_input("x", TensorType(DType::kFloat32, {2}));
  Node* node = model.graph->add_node("ai.onnx", "Norm", {x}, outputs);
  node->name = "n";
  node->origin.node = 7;
  node->attributes = {{"training_mode", training_mode}};
  model.graph->add_output(node->output(0));
  return model;
}

TEST(InferenceForm, a_node_in_training_form_is_edited_and_loses_unread_outputs) {
  const InferenceForm form = inference_form(model_of(1, {"y", "mean"}), registry_of_norm());
  ASSERT_EQ(form.edits.size(), 1u);
  EXPECT_EQ(form.edits[0].function, -1);
  EXPECT_EQ(form.edits[0].node, 7);
  EXPECT_EQ(form.edits[0].ints, (std::map<std::string, int64_t>{{"training_mode", 0}}));
  EXPECT_EQ(form.edits[0].keep_outputs, 1);
  EXPECT_TRUE(form.notices.empty());
}

TEST(InferenceForm, a_node_in_inference_form_stays_as_it_is) {
  EXPECT_TRUE(inference_form(model_of(0, {"y"}), registry_of_norm()).edits.empty());
}

TEST(InferenceForm, an_output_that_is_read_keeps_the_training_form_with_a_notice) {
  const auto notice = [](const graph::ImportedModel& model) {
    const InferenceForm form = inference_form(model, registry_of_norm());
    EXPECT_TRUE(form.edits.empty());
    return form.notices.empty() ? "" : form.notices[0];
  };
  const std::string expected =
      "node n (ai.onnx.Norm) is saved in training form, because its output 'mean' is read; what it "
      "computes depends on the batch";
  graph::ImportedModel by_node = model_of(1, {"y", "mean"});
  by_node.graph->add_node("", "Relu", {by_node.graph->find("mean")}, {"z"});
  EXPECT_EQ(notice(by_node), expected);
  graph::ImportedModel by_graph = model_of(1, {"y", "mean"});
  by_graph.graph->add_output(by_graph.graph->find("mean"));
  EXPECT_EQ(notice(by_graph), expected);
  graph::ImportedModel by_body = model_of(1, {"y", "mean"});
  Node* branch = by_body.graph->add_node("", "If", {by_body.graph->find("x")}, {"z"});
  branch->attributes = {{"then_branch", graph::GraphAttribute{"", {"mean"}}}};
  EXPECT_EQ(notice(by_body), expected);
}

TEST(InferenceForm, nodes_of_functions_are_named_by_function_and_index) {
  graph::ImportedModel model = model_of(0, {"y"});
  graph::ImportedModel inner = model_of(1, {"y", "mean"});
  for (int i = 0; i < 2; ++i) model.functions.emplace_back();
  model.functions[0].body = std::make_unique<graph::Graph>();
  model.functions[1].body = std::move(inner.graph);
  const InferenceForm form = inference_form(model, registry_of_norm());
  ASSERT_EQ(form.edits.size(), 1u);
  EXPECT_EQ(form.edits[0].function, 1);
  EXPECT_EQ(form.edits[0].node, 7);
}

TEST(InferenceForm, an_attribute_that_the_call_decides_counts_as_training) {
  graph::ImportedModel model = model_of(0, {"y"});
  model.functions.emplace_back().body = std::move(model_of(0, {"y"}).graph);
  model.functions[0].body->nodes().front().attributes = {
      {"training_mode", graph::AttributeReference{"mode"}}};
  const InferenceForm form = inference_form(model, registry_of_norm());
  ASSERT_EQ(form.edits.size(), 1u);
  EXPECT_EQ(form.edits[0].ints, (std::map<std::string, int64_t>{{"training_mode", 0}}));
}

}  // namespace
}  // namespace sardonyx::ops
