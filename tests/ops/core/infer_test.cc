// What infer_node asks of every operator.
#include "ops/core/infer.h"

#include <gtest/gtest.h>

namespace sardonyx::ops {
namespace {

std::string error_without(const OpDef& op, size_t left_out) {
  graph::Graph graph;
  std::vector<Value*> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i].presence != Presence::kRequired || i == left_out) {
      inputs.push_back(nullptr);
    } else {
      inputs.push_back(graph.add_input("x" + std::to_string(i), {DType::kFloat32, {2, 3}}));
    }
  }
  Node* node = graph.add_node(op.domain, op.name, inputs, {"y"});
  try {
    infer_node(*node);
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  return "no error";
}

TEST(Infer, each_required_input_that_is_left_out_is_refused_by_name) {
  int refused = 0;
  for (const OpDef* op : OpRegistry::get().all()) {
    if (op->domain == kDomain) continue;
    for (size_t i = 0; i < op->inputs.size(); ++i) {
      if (op->inputs[i].presence != Presence::kRequired) continue;
      EXPECT_EQ(error_without(*op, i),
                fmt::format("input {} ({}) is required", i, op->inputs[i].name))
          << op->name;
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_EQ(error_without(*OpRegistry::get().find("", "Div"), 1), "input 1 (B) is required");
}

}  // namespace
}  // namespace sardonyx::ops
