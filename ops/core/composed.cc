#include "ops/core/composed.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "graph/support/error.h"
#include "ops/core/gradient.h"
#include "ops/core/mode.h"
#include "ops/core/reverse_walk.h"

namespace sardonyx::ops {

void ComposeContext::set(int output, Value* y) {
  CHECK(wants(output) && y_[output] == nullptr, "output {} of {} is not wanted, or set twice",
        output, node_.label());
  CHECK(y != nullptr && y->type.same_storage(node_.output(output)->type),
        "output {} of {} is {}, its parts give {}", output, node_.label(),
        node_.output(output)->type.str(), y->type.str());
  const bool of_others = std::ranges::count(x_, y) + std::ranges::count(y_, y) > 0;
  y_[output] = of_others || y->producer == nullptr ? b_.op("Identity", {y}) : y;
}

namespace {

void write(const ComposeRule& rule, ComposeContext& c) {
  rule(c);
  for (size_t i = 0; i < c.results().size(); ++i) {
    CHECK(!c.wants(static_cast<int>(i)) || c.results()[i] != nullptr,
          "the rule of {} leaves out output {}", c.node().label(), i);
  }
}

// --- In place of the operator

bool is_static(const Node& node) {
  return std::ranges::all_of(node.inputs(), [](const Value* value) {
    return value == nullptr || value->type.is_static();
  });
}

void replace(ModeContext& mode, const ComposeRule& rule) {
  Node& node = mode.node();
  // Without sizes no plan is made; whoever only looks at the graph sees the operator.
  if (!is_static(node)) return;
  mode.b().set_prefix(node.output(0)->name + "/");
  ComposeContext c(node, node.inputs(), mode.b());
  write(rule, c);
  c.results()[0]->producer->name = node.name;
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (node.output(i) != nullptr) take_over(*node.graph(), node.output(i), c.results()[i]);
  }
}

// --- Gradient

// The reverse walk over the nodes of one operator.
void differentiate_parts(GradientContext& g, const ComposeRule& rule) {
  ReverseWalk walk(g.b());
  std::vector<Value*> x;
  for (int i = 0; i < g.num_inputs(); ++i) {
    // One value at two inputs becomes two, each with a gradient of its own.
    x.push_back(g.wants(i) ? g.b().op("Identity", {g.x(i)}) : g.x(i));
    if (g.wants(i)) walk.want(x.back());
  }
  auto& nodes = g.b().graph().nodes();
  const auto before = std::prev(nodes.end());  // the builder of a gradient rule appends
  ComposeContext c(g.node(), x, g.b());
  write(rule, c);
  std::vector<Node*> parts;
  for (auto node = std::next(before); node != nodes.end(); ++node) {
    parts.push_back(&*node);
    walk.follow(*node);
  }
  for (int i = 0; i < g.num_outputs(); ++i) {
    if (g.dy(i) != nullptr) walk.add(c.results()[i], g.dy(i));
  }
  for (auto node = parts.rbegin(); node != parts.rend(); ++node) walk.visit(**node);
  for (int i = 0; i < g.num_inputs(); ++i) {
    if (!g.wants(i)) continue;
    Value* dx = walk.gradient(x[i]);
    g.set(i, dx != nullptr ? dx : g.b().filled_like(x[i], 0));
  }
}

// --- Kernel

Tensor borrowed(const TensorType& type, const std::byte* bytes) {
  return Tensor::borrow(type.dtype, type.shape(), {bytes, type.bytes()}, nullptr);
}

// Runs the nodes on tensors of their own, one by one and without threads: plans meet it only where
// an operator stayed for outputs behind its first.
class ComposedKernel final : public Kernel {
 public:
  ComposedKernel(const KernelRequest& request, const ComposeRule& rule) {
    graph_.batch_symbol = request.node->graph()->batch_symbol;
    std::vector<Value*> inputs;
    for (size_t i = 0; i < request.in.size(); ++i) inputs.push_back(source(request, i));
    OpBuilder builder(graph_);
    ComposeContext c(*request.node, std::move(inputs), builder);
    write(rule, c);
    results_ = c.results();
    // Realigns what lies crooked in a file, which only one thread may do.
    for (const Value* constant : graph_.constants()) constant->data.aligned_data();
  }

  void run(CpuContext& context) const override {
    std::unordered_map<const Value*, Tensor> known;
    for (const Value* constant : graph_.constants()) known[constant] = constant->data;
    for (const auto& [input, i] : inputs_) {
      known[input] = borrowed(input->type, context.in<std::byte>(i));
    }
    for (const Node& node : graph_.nodes()) {
      std::vector<Tensor> x;
      for (const Value* value : node.inputs()) {
        x.push_back(value == nullptr ? Tensor() : known.at(value));
      }
      const std::vector<Tensor> y = evaluate(node, x);
      for (int i = 0; i < node.num_outputs(); ++i) known[node.output(i)] = y[i];
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      if (results_[i] == nullptr) continue;
      std::ranges::copy(known.at(results_[i]).bytes(), context.out<std::byte>(static_cast<int>(i)));
    }
  }

 private:
  Value* source(const KernelRequest& request, size_t i) {
    const int slot = static_cast<int>(i);
    if (!request.has_in(slot)) return nullptr;
    const std::string name = "x" + std::to_string(i);
    if (const Tensor* constant = request.constant(slot)) {
      return graph_.add_constant(name, *constant);
    }
    return inputs_.emplace_back(graph_.add_input(name, request.in[i]), slot).first;
  }

  graph::Graph graph_;
  std::vector<std::pair<Value*, int>> inputs_;  // and their slots
  std::vector<Value*> results_;                 // nullptr: left out
};

}  // namespace

void compose(OpDef& op, const ComposeRule& rule) {
  op.gradient = gradient([rule](GradientContext& g) { differentiate_parts(g, rule); });
  op.apply_mode = [rule](ModeContext& mode) { replace(mode, rule); };
}

KernelDef composed_kernel(std::string op, std::string name, const ComposeRule& rule) {
  KernelDef def;
  def.op = std::move(op);
  def.name = std::move(name);
  def.create = [rule](const KernelRequest& request) {
    return std::make_unique<ComposedKernel>(request, rule);
  };
  return def;
}

}  // namespace sardonyx::ops
