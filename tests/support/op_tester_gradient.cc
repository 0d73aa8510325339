// Gradients of an OpCase: the rule's nodes, evaluated one by one, against central differences.
#include <algorithm>
#include <map>

#include "ops/core/gradient.h"
#include "ops/core/gradient_flow.h"
#include "ops/core/op.h"
#include "tests/support/op_graph.h"

namespace sardonyx::test {

namespace {

// A power of two: x + h and x - h are exact, so only the function's own rounding counts.
constexpr double kStep = 0x1p-16;

struct Gradients {
  std::vector<Tensor> dy;  // per output; undefined: no gradient reaches it
  std::vector<Tensor> dx;  // per input; undefined: not asked for
  std::vector<std::string> faults;
};

std::vector<int> wanted_inputs(const OpCase& c, const ops::OpDef& op, const OpGraph& g) {
  if (c.differentiate) return *c.differentiate;
  std::vector<int> result;
  if (op.gradient.kind != ops::Gradient::Kind::kRule && !c.gradient_rule) return result;
  for (int i = 0; i < g.node->num_inputs(); ++i) {
    if (!g.inputs[i].defined() || !graph::is_floating(g.inputs[i].dtype())) continue;
    const ops::Port* port = ops::port_of(op, i);
    if (port == nullptr || port->no_gradient.empty()) result.push_back(i);
  }
  return result;
}

std::vector<int> seeded_outputs(const OpCase& c, const OpGraph& g) {
  if (c.seeds) return *c.seeds;
  std::vector<int> result;
  for (int i = 0; i < g.node->num_outputs(); ++i) {
    const ops::Value* y = g.node->output(i);
    if (y != nullptr && graph::is_floating(y->type.dtype)) result.push_back(i);
  }
  return result;
}

Tensor seed_for(const OpCase& c, const ops::Value* y, int output) {
  if (output < static_cast<int>(c.dy.size()) && c.dy[output].defined()) {
    return c.dy[output].cast(y->type.dtype);
  }
  return random_tensor(y->type.dtype, y->type.shape(), 0.25, 1.5, 500 + output);
}

// Applies the rule behind the node and evaluates what it wrote.
Gradients apply_rule(const OpCase& c, const ops::OpDef& op, OpGraph& g,
                     const std::vector<int>& inputs, const std::vector<int>& outputs,
                     const NodeVisitor& visit = {}) {
  Gradients result;
  std::map<const ops::Value*, Tensor> known;
  for (int i = 0; i < g.node->num_inputs(); ++i) {
    if (g.node->input(i) != nullptr) known[g.node->input(i)] = g.inputs[i];
  }
  std::vector<ops::Value*> dy(g.node->num_outputs(), nullptr);
  result.dy.resize(dy.size());
  for (int i : outputs) {
    result.dy[i] = seed_for(c, g.node->output(i), i);
    dy[i] = g.graph->add_input(fmt::format("dy{}", i), g.node->output(i)->type);
    known[dy[i]] = result.dy[i];
  }
  std::vector<bool> wanted(g.node->num_inputs(), false);
  for (int i : inputs) wanted[i] = true;
  ops::OpBuilder builder(*g.graph);
  ops::GradientContext context(*g.node, builder, dy, wanted);
  (c.gradient_rule ? c.gradient_rule : op.gradient.rule)(context);

  // Behind the rule, which may ask the node for an output that was left out.
  const std::vector<Tensor> forward = ops::evaluate(*g.node, g.inputs);
  for (size_t i = 0; i < forward.size(); ++i) {
    if (g.node->output(i) != nullptr) known[g.node->output(i)] = forward[i];
  }
  for (const ops::Node& node : g.graph->nodes()) {
    if (&node == g.node) continue;
    std::vector<Tensor> values;
    for (const ops::Value* value : node.inputs()) {
      if (value != nullptr && value->is_constant()) known[value] = value->data;
      values.push_back(value == nullptr ? Tensor() : known.at(value));
    }
    const std::vector<Tensor> outputs_of_node = ops::evaluate(node, values);
    if (visit) visit(node, values, outputs_of_node);
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (node.output(i) != nullptr) known[node.output(i)] = outputs_of_node[i];
    }
  }
  result.dx.resize(g.node->num_inputs());
  for (int i : inputs) {
    const ops::Value* dx = context.result()[i];
    if (dx == nullptr) {
      result.faults.push_back(fmt::format("the gradient rule sets nothing for input {}", i));
    } else if (dx->type.dtype != g.node->input(i)->type.dtype) {
      result.faults.push_back(
          fmt::format("the gradient of input {} has type {}", i, dx->type.str()));
    } else {
      result.dx[i] = known.count(dx) ? known.at(dx) : dx->data;
    }
  }
  return result;
}

// sum over outputs of dy * y
double objective(const OpGraph& g, const std::vector<Tensor>& inputs,
                 const std::vector<Tensor>& dy) {
  const std::vector<Tensor> y = ops::evaluate(*g.node, inputs);
  double sum = 0;
  for (size_t i = 0; i < dy.size(); ++i) {
    if (!dy[i].defined()) continue;
    for (int64_t j = 0; j < y[i].numel(); ++j) sum += dy[i].as_double(j) * y[i].as_double(j);
  }
  return sum;
}

Tensor central_differences(const OpGraph& g, int input, const std::vector<Tensor>& dy) {
  std::vector<double> slope;
  for (int64_t j = 0; j < g.inputs[input].numel(); ++j) {
    double value[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<Tensor> inputs = g.inputs;
      inputs[input].mutable_data<double>()[j] += side == 0 ? -kStep : kStep;
      value[side] = objective(g, inputs, dy);
    }
    slope.push_back((value[1] - value[0]) / (2 * kStep));
  }
  return doubles(g.inputs[input].shape(), slope);
}

bool all_zero(const Tensor& tensor) {
  for (double v : tensor.to_doubles()) {
    if (v != 0) return false;
  }
  return true;
}

// A batch of no rows: the rule's nodes run, and what doesn't carry the batch has a zero gradient.
std::vector<std::string> empty_batch_faults(const OpCase& c, const ops::OpDef& op,
                                            const std::vector<int>& inputs,
                                            const std::vector<int>& outputs) {
  OpCase without_seed = c;
  without_seed.dy.clear();
  OpGraph g = build(c, input_values(c, DType::kFloat64, 0));
  const Gradients got = apply_rule(without_seed, op, g, inputs, outputs);
  std::vector<std::string> faults;
  for (int i : inputs) {
    if (!got.dx[i].defined() || ops::carries_batch(*g.node, g.node->input(i))) continue;
    if (!all_zero(got.dx[i])) {
      faults.push_back(fmt::format("gradient of input {} of an empty batch is not zero", i));
    }
  }
  return faults;
}

}  // namespace

void for_gradient_nodes(const OpCase& c, DType dtype, const NodeVisitor& visit) {
  OpGraph g = build(c, input_values(c, dtype, -1));
  const ops::OpDef& op = ops::OpRegistry::get().at(*g.node);
  const std::vector<int> inputs = wanted_inputs(c, op, g);
  const std::vector<int> outputs = seeded_outputs(c, g);
  if (!inputs.empty() && !outputs.empty()) apply_rule(c, op, g, inputs, outputs, visit);
}

std::vector<std::string> gradient_faults(const OpCase& c) {
  OpGraph g = build(c, input_values(c, DType::kFloat64, -1));
  const ops::OpDef& op = ops::OpRegistry::get().at(*g.node);
  const std::vector<int> inputs = wanted_inputs(c, op, g);
  const std::vector<int> outputs = seeded_outputs(c, g);
  if (inputs.empty() || outputs.empty()) return {};
  Gradients got = apply_rule(c, op, g, inputs, outputs);
  std::vector<std::string> faults = got.faults;
  for (int i : inputs) {
    if (!got.dx[i].defined()) continue;
    if (i < static_cast<int>(c.expected_gradients.size()) && c.expected_gradients[i].defined()) {
      if (const auto d = difference(got.dx[i], c.expected_gradients[i], c.expected_tolerance)) {
        faults.push_back(fmt::format("gradient of input {} {}", i, *d));
      }
    }
    if (c.numeric == Numeric::kCompare) {
      const Tensor want = central_differences(g, i, got.dy);
      if (const auto d = difference(got.dx[i], want, c.gradient_tolerance)) {
        faults.push_back(
            fmt::format("gradient of input {} against central differences: {}", i, *d));
      }
    }
    const bool may_be_zero = std::count(c.zero_gradients.begin(), c.zero_gradients.end(), i) > 0;
    if (!may_be_zero && got.dx[i].numel() > 0 && all_zero(got.dx[i])) {
      faults.push_back(fmt::format("gradient of input {} is zero everywhere", i));
    }
  }
  if (c.batch && c.empty_batch && !c.fixed_rows) {
    for (std::string& f : empty_batch_faults(c, op, inputs, outputs))
      faults.push_back(std::move(f));
  }
  return faults;
}

}  // namespace sardonyx::test
