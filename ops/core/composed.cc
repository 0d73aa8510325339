#include "ops/core/composed.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/support/error.h"
#include "ops/core/gradient.h"
#include "ops/core/mode.h"

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
class PartsGradient {
 public:
  PartsGradient(GradientContext& g, const ComposeRule& rule)
      : g_(g), rule_(rule), c_(g.node(), sources(), g.b()) {}

  void run() {
    write(rule_, c_);
    for (int i = 0; i < g_.num_inputs(); ++i) {
      if (g_.wants(i)) active_.insert(c_.x(i));
    }
    inner_.insert(c_.inputs().begin(), c_.inputs().end());
    for (Value* y : c_.results()) collect(y);
    for (int i = 0; i < g_.num_outputs(); ++i) {
      if (g_.dy(i) != nullptr) parts_[c_.results()[i]].push_back(g_.dy(i));
    }
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) visit(**node);
    for (int i = 0; i < g_.num_inputs(); ++i) {
      if (!g_.wants(i)) continue;
      Value* dx = joined(c_.x(i));
      g_.set(i, dx != nullptr ? dx : g_.b().filled_like(c_.x(i), 0));
    }
  }

 private:
  // One value at two inputs becomes two, each with a gradient of its own.
  std::vector<Value*> sources() {
    std::vector<Value*> x;
    for (int i = 0; i < g_.num_inputs(); ++i) {
      x.push_back(g_.wants(i) ? g_.b().op("Identity", {g_.x(i)}) : g_.x(i));
    }
    return x;
  }

  // Nodes behind the value, each after those it reads.
  void collect(const Value* value) {
    if (value == nullptr || value->producer == nullptr || !inner_.insert(value).second) return;
    Node& node = *value->producer;
    for (const Value* output : node.outputs()) inner_.insert(output);
    for (const Value* input : node.inputs()) collect(input);
    nodes_.push_back(&node);
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (!flows(node, i)) continue;
      for (const Value* output : node.outputs()) active_.insert(output);
    }
  }

  bool flows(const Node& node, int i) const {
    const OpDef& op = OpRegistry::get().at(node);
    const size_t port = std::min<size_t>(i, op.inputs.size() - 1);
    const Value* y = node.outputs()[0];
    return op.gradient.kind == Gradient::Kind::kRule && op.inputs[port].no_gradient.empty() &&
           active_.contains(node.input(i)) && graph::is_floating(node.input(i)->type.dtype) &&
           (y == nullptr || graph::is_floating(y->type.dtype));
  }

  void visit(Node& node) {
    std::vector<Value*> dy;
    for (const Value* value : node.outputs()) dy.push_back(joined(value));
    if (std::ranges::all_of(dy, [](const Value* value) { return value == nullptr; })) return;
    std::vector<bool> wanted;
    for (int i = 0; i < node.num_inputs(); ++i) wanted.push_back(flows(node, i));
    if (std::ranges::count(wanted, true) == 0) return;
    GradientContext context(node, g_.b(), std::move(dy), std::move(wanted));
    OpRegistry::get().at(node).gradient.rule(context);
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (Value* dx = context.result()[i]) parts_[node.input(i)].push_back(dx);
    }
  }

  Value* joined(const Value* value) {
    const auto it = parts_.find(value);
    if (it == parts_.end()) return nullptr;
    if (it->second.size() > 1) it->second = {g_.b().op("Sum", it->second)};
    return it->second[0];
  }

  GradientContext& g_;
  const ComposeRule& rule_;
  ComposeContext c_;
  std::vector<Node*> nodes_;
  std::unordered_set<const Value*> inner_;   // visited by collect
  std::unordered_set<const Value*> active_;  // depend on an input that wants a gradient
  std::unordered_map<const Value*, std::vector<Value*>> parts_;
};

// --- Kernel

constexpr size_t kAlignment = 64;

// Bytes of a value while the kernel runs.
struct Place {
  enum class Kind : uint8_t { kInput, kConstant, kWorkspace };
  Kind kind = Kind::kWorkspace;
  size_t index = 0;   // of an input
  size_t offset = 0;  // in the input, the constant or the workspace
  const std::byte* constant = nullptr;
};

// The lists of operands are made anew in each run: plans have no such kernel.
class ComposedKernel final : public Kernel {
 public:
  ComposedKernel(const KernelRequest& request, const ComposeRule& rule) {
    graph_.batch_symbol = request.node->graph()->batch_symbol;
    std::vector<Value*> inputs;
    for (size_t i = 0; i < request.in.size(); ++i) inputs.push_back(source(request, i));
    OpBuilder builder(graph_);
    ComposeContext c(*request.node, std::move(inputs), builder);
    write(rule, c);
    for (const Value* constant : graph_.constants()) {
      places_[constant] = {Place::Kind::kConstant, 0, 0, constant->data.aligned_data()};
    }
    for (const Node& node : graph_.nodes()) add(node);
    for (const Value* y : c.results()) {
      results_.emplace_back(y == nullptr ? Place() : places_.at(y),
                            y == nullptr ? 0 : y->type.bytes());
    }
  }

  size_t workspace_bytes() const override { return bytes_ + inner_bytes_; }

  void run(CpuContext& context) const override {
    for (const Step& step : steps_) {
      CpuContext inner;
      inner.pool = context.pool;
      inner.workspace = context.workspace.subspan(bytes_);
      for (const auto& place : step.inputs) {
        inner.inputs.push_back(place ? at(*place, context) : nullptr);
      }
      for (const auto& place : step.outputs) {
        inner.outputs.push_back(place ? at(*place, context) : nullptr);
      }
      step.kernel->run(inner);
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      const auto& [place, bytes] = results_[i];
      if (bytes > 0) std::copy_n(at(place, context), bytes, context.out<std::byte>(i));
    }
  }

 private:
  struct Step {
    std::unique_ptr<Kernel> kernel;
    std::vector<std::optional<Place>> inputs, outputs;  // nullopt: left out
  };

  Value* source(const KernelRequest& request, size_t i) {
    if (!request.has_in(static_cast<int>(i))) return nullptr;
    const std::string name = "x" + std::to_string(i);
    if (const Tensor* constant = request.constant(static_cast<int>(i))) {
      return graph_.add_constant(name, *constant);
    }
    Value* value = graph_.add_input(name, request.in[i]);
    places_[value] = {Place::Kind::kInput, i, 0, nullptr};
    return value;
  }

  void add(const Node& node) {
    const OpDef& op = OpRegistry::get().at(node);
    if (op.view) {
      Place place = places_.at(node.input(0));
      if (op.view_begin) {
        place.offset +=
            static_cast<size_t>(op.view_begin(node)) * graph::dtype_size(node.input(0)->type.dtype);
      }
      places_[node.output(0)] = place;
      return;
    }
    const KernelRequest request = KernelRequest::of(node);
    const auto kernels = KernelRegistry::get().find(node.domain, node.op);
    const auto kernel = std::find_if(kernels.rbegin(), kernels.rend(), [&](const KernelDef* def) {
      return !declines(*def, request);
    });
    if (kernel == kernels.rend()) {
      throw Error("no CPU kernel of {} takes {}", op_label(node.domain, node.op),
                  request.in[0].str());
    }
    Step step{(*kernel)->create(request), {}, {}};
    inner_bytes_ = std::max(inner_bytes_, step.kernel->workspace_bytes());
    for (const Value* value : node.inputs()) {
      step.inputs.push_back(value == nullptr ? std::nullopt : std::optional(places_.at(value)));
    }
    for (const Value* value : node.outputs()) {
      step.outputs.push_back(value == nullptr ? std::nullopt : std::optional(reserve(value)));
    }
    steps_.push_back(std::move(step));
  }

  Place reserve(const Value* value) {
    const Place place{Place::Kind::kWorkspace, 0, bytes_, nullptr};
    bytes_ += (value->type.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    return places_[value] = place;
  }

  static std::byte* at(const Place& place, const CpuContext& context) {
    switch (place.kind) {
      case Place::Kind::kInput:
        return const_cast<std::byte*>(context.in<std::byte>(static_cast<int>(place.index))) +
               place.offset;
      case Place::Kind::kConstant:
        return const_cast<std::byte*>(place.constant) + place.offset;
      default:
        return context.workspace.data() + place.offset;
    }
  }

  graph::Graph graph_;
  std::unordered_map<const Value*, Place> places_;
  std::vector<Step> steps_;
  std::vector<std::pair<Place, size_t>> results_;  // where an output's bytes are, and how many
  size_t bytes_ = 0, inner_bytes_ = 0;
};

}  // namespace

void compose(OpDef& op, const ComposeRule& rule) {
  op.gradient = gradient([rule](GradientContext& g) { PartsGradient(g, rule).run(); });
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
