// build_backward: the nodes that compute gradients, graph to graph.
//
// In a training graph the seed is d(loss_sum) = 1 and the wanted values are the parameters. Without
// a loss (gradient_pipeline, goldens) every seeded output y gets an input "dy" and every wanted
// value x an output "dx"; a value that no path reaches has the gradient zero.
#include <map>
#include <unordered_map>

#include "graph/names.h"
#include "graph/support/error.h"
#include "ops/core/gradient.h"
#include "ops/core/op_builder.h"
#include "passes/backward.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Value;

std::vector<Value*> named_values(const Graph& graph, const std::vector<std::string>& names,
                                 const char* what) {
  std::vector<Value*> values;
  for (const std::string& name : names) {
    Value* value = graph.find(name);
    if (value == nullptr) {
      std::vector<std::string> all;
      for (const Value& other : graph.values()) all.push_back(other.name);
      std::string hint;
      for (const std::string& near : graph::near_names(name, all)) hint += " " + near;
      throw Error("there is no value '{}' to {}; near names:{}", name, what, hint);
    }
    values.push_back(value);
  }
  return values;
}

std::vector<Value*> floats_of(const std::vector<Value*>& values) {
  std::vector<Value*> result;
  for (Value* value : values) {
    if (graph::is_floating(value->type.dtype)) result.push_back(value);
  }
  return result;
}

void build_for_training(Graph& graph, PassContext& context) {
  Value* loss = graph.find(context.loss_sum);
  ops::OpBuilder b(graph);
  Value* one = b.scalar(loss->type.dtype, 1.0);
  std::vector<Value*> parameters;
  for (Value* state : graph.states()) {
    if (state->role == graph::StateRole::kParameter) parameters.push_back(state);
  }
  const auto gradients = differentiate(graph, {{loss, one}}, parameters);
  std::unordered_map<const graph::Node*, int> position;
  for (const graph::Node& node : graph.nodes()) position.emplace(&node, position.size());
  std::multimap<int, std::pair<std::string, std::string>> by_completion;
  for (Value* parameter : parameters) {
    const auto it = gradients.find(parameter);
    if (it == gradients.end()) continue;
    const graph::Node* producer = it->second->producer;
    by_completion.emplace(producer == nullptr ? -1 : position.at(producer),
                          std::pair(parameter->name, it->second->name));
  }
  for (auto& [when, gradient] : by_completion) context.gradients.push_back(std::move(gradient));
}

void build_for_gradients(Graph& graph, PassContext& context) {
  const GradientOptions& options = context.options.gradient;
  const std::vector<Value*> outputs = options.seeds.empty()
                                          ? floats_of(graph.outputs())
                                          : named_values(graph, options.seeds, "seed");
  const std::vector<Value*> wrt = options.wrt.empty()
                                      ? floats_of(graph.inputs())
                                      : named_values(graph, options.wrt, "differentiate for");
  std::vector<std::pair<Value*, Value*>> seeds;
  for (Value* output : outputs) {
    Value* seed = graph.add_input(graph::fresh_name(graph, "d" + output->name), output->type);
    seeds.emplace_back(output, seed);
  }
  const auto gradients = differentiate(graph, seeds, wrt);
  for (Value* value : wrt) {
    const auto it = gradients.find(value);
    Value* gradient = it != gradients.end() ? it->second : nullptr;
    ops::OpBuilder b(graph);
    const std::string name = "d" + value->name;
    if (gradient == nullptr) {
      const std::vector<int64_t> shape = ops::GradientContext::shape(value);
      gradient = b.constant(graph::Tensor(value->type.dtype, shape), name);
    } else if (gradient->name != name && graph.find(name) == nullptr &&
               gradient->kind == graph::ValueKind::kResult && !graph.is_output(gradient)) {
      graph.rename(gradient, name);
    } else if (gradient->name != name) {
      gradient = b.op("Identity", {gradient}, {}, name);
    }
    graph.add_output(gradient);
    context.gradients.emplace_back(value->name, gradient->name);
  }
}

}  // namespace

bool build_backward(Graph& graph, PassContext& context) {
  if (context.loss_sum.empty()) {
    build_for_gradients(graph, context);
  } else {
    build_for_training(graph, context);
  }
  return true;
}

}  // namespace sardonyx::passes
