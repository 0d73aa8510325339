// assign_layouts: values of a region may lie in the inner layout of its device (InnerLayout); the
// changes are Reorder nodes, or Relabel where the bytes are the same.
//
// A node with a kernel for the inner layout gets it, unless a kernel of plain operands is said to
// be faster; a node that follows (kSameAll, kChannelsFollow) takes what its first operand has; all
// others, and everything that crosses a region's border, are plain. The CPU has lanes in blocked
// regions, CUDA channels last in whole batches.
#include <map>
#include <unordered_set>

#include "graph/names.h"
#include "ops/core/op_builder.h"
#include "passes/lower.h"
#include "passes/node_facts.h"
#include "passes/requests.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Layout;
using graph::Node;
using graph::Value;

enum class Wish : uint8_t { kPlain, kInner, kFollow };

Wish wish_of(const ops::KernelDef& kernel) {
  switch (kernel.layouts) {
    case ops::Layouts::kLanes:
    case ops::Layouts::kChannelsLast:
      return Wish::kInner;
    case ops::Layouts::kSameAll:
    case ops::Layouts::kChannelsFollow:
      return Wish::kFollow;
    default:
      return Wish::kPlain;
  }
}

using Kernels = std::vector<const ops::KernelDef*>;  // the fastest first

// Whether a kernel of plain operands is faster. Not asked of lanes, which make a region local.
bool is_outrun(const ops::KernelDef& kernel, const Kernels& kernels,
               const ops::KernelRequest& plain) {
  if (kernel.layouts != ops::Layouts::kChannelsLast) return false;
  for (const ops::KernelDef* other : kernels) {
    if (other->speed <= kernel.speed) return false;
    if (!ops::declines(*other, plain)) return true;
  }
  return false;
}

class LayoutAssigner {
 public:
  // `behind`: the first node after the region, nullptr when it is the last.
  LayoutAssigner(Lowering& lowering, const PassContext& context, InnerLayout inner,
                 RegionSpec& region, Node* behind)
      : lowering_(lowering),
        context_(context),
        graph_(*lowering.graph),
        layout_(inner),
        region_(region),
        behind_(behind) {}

  void run() {
    const std::vector<Node*> nodes = region_.nodes;
    inside_.insert(nodes.begin(), nodes.end());
    for (size_t i = 0; i < nodes.size(); ++i) {
      visit(nodes[i], i + 1 < nodes.size() ? nodes[i + 1] : behind_);
    }
    region_.nodes = std::move(order_);
  }

 private:
  void visit(Node* node, Node* next) {
    Wish wish = wish_of_node(*node);
    if (wish == Wish::kFollow) wish = first_operand_is_inner(*node) ? Wish::kInner : Wish::kPlain;
    const bool inner = wish == Wish::kInner;
    for (int i = 0; i < node->num_inputs(); ++i) {
      Value* value = node->input(i);
      if (!may_lie(graph_, value, layout_)) continue;
      if (is_inner(value) != inner) graph_.set_input(node, i, reordered(value, inner, node));
    }
    order_.push_back(node);
    if (!inner) return;
    for (Value* value : node->outputs()) {
      if (!may_lie(graph_, value, layout_)) continue;
      value->type.layout = layout_of(layout_, value->type.rank());
      if (leaves_region(value)) publish(value, next);
    }
  }

  Wish wish_of_node(const Node& node) const {
    if (ops::OpRegistry::get().at(node).view) return wish_of_view(node);
    const ops::KernelRequest inner =
        on_target(request_in(graph_, node, region_.block_rows, layout_), context_);
    const ops::KernelDef* asked = asked_kernel(node, lowering_.keys[&node], context_);
    if (asked != nullptr && asked->layouts == ops::Layouts::kPlain) return Wish::kPlain;
    if (asked != nullptr && !ops::declines(*asked, inner)) return wish_of(*asked);
    const Kernels kernels =
        ops::KernelRegistry::get(context_.target->device()).find(node.domain, node.op);
    for (const ops::KernelDef* kernel : kernels) {
      if (wish_of(*kernel) == Wish::kPlain || ops::declines(*kernel, inner)) continue;
      const ops::KernelRequest plain =
          on_target(request_for(graph_, node, region_.block_rows), context_);
      return is_outrun(*kernel, kernels, plain) ? Wish::kPlain : wish_of(*kernel);
    }
    return Wish::kPlain;
  }

  // Lanes stay innermost under another shape; channels don't.
  Wish wish_of_view(const Node& node) const {
    if (layout_ == InnerLayout::kLanes) return Wish::kFollow;
    const bool same_shape = node.input(0)->type.dims == node.output(0)->type.dims;
    return same_shape ? Wish::kFollow : Wish::kPlain;
  }

  bool first_operand_is_inner(const Node& node) const {
    for (const Value* value : node.inputs()) {
      if (may_lie(graph_, value, layout_)) return is_inner(value);
    }
    return false;
  }

  static bool is_inner(const Value* value) { return !value->type.layout.plain(); }

  Value* reordered(Value* value, bool inner, Node* before) {
    auto [it, fresh] = reordered_.try_emplace({value, inner}, nullptr);
    if (fresh) it->second = reorder(value, inner, before);
    return it->second;
  }

  Value* reorder(Value* value, bool inner, Node* before) {
    ops::OpBuilder b(graph_, before);
    const bool same_bytes =
        layout_ == InnerLayout::kChannelsLast && value->type.one_channel_or_cell();
    const std::string to = inner ? inner_name() : "plain";
    Value* result =
        b.own(same_bytes ? "Relabel" : "Reorder", {value}, {{"to", to}}, value->name + "@" + to);
    order_.push_back(result->producer);
    inside_.insert(result->producer);
    return result;
  }

  std::string inner_name() const {
    return layout_ == InnerLayout::kLanes ? "n16" : "channels_last";
  }

  bool leaves_region(const Value* value) const {
    if (outlives_plan(graph_, value)) return true;
    for (const graph::Use& use : value->uses()) {
      if (!inside_.contains(use.node)) return true;
    }
    return false;
  }

  // Uses outside the region read a plain copy, made right behind the producer.
  void publish(Value* value, Node* next) {
    Value* plain = reorder(value, false, next);
    reordered_[{value, false}] = plain;
    const std::vector<graph::Use> uses = value->uses();
    for (const graph::Use& use : uses) {
      if (!inside_.contains(use.node)) graph_.set_input(use.node, use.index, plain);
    }
    if (graph_.is_output(value)) {
      // Who asks for the output knows its name.
      const std::string name = value->name;
      graph_.rename(value, graph::fresh_name(graph_, name + "@" + inner_name()));
      graph_.rename(plain, name);
    }
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (graph_.outputs()[i] == value) graph_.set_output(static_cast<int>(i), plain);
    }
    for (const graph::Binding& binding : std::vector<graph::Binding>(graph_.bindings())) {
      if (binding.next != value) continue;
      graph_.unbind(binding.state);
      graph_.bind(binding.state, plain);
    }
  }

  Lowering& lowering_;
  const PassContext& context_;
  Graph& graph_;
  InnerLayout layout_;
  RegionSpec& region_;
  Node* behind_;
  std::vector<Node*> order_;
  std::unordered_set<const Node*> inside_;
  std::map<std::pair<Value*, bool>, Value*> reordered_;
};

bool has_lanes(const RegionSpec& region, const PipelineOptions& options) {
  if (options.lanes == 0) return false;
  const bool everywhere = options.lanes == 16;
  return region.block_rows > 0 ? region.block_rows % 16 == 0 : everywhere;
}

bool has_channels_last(const RegionSpec& region, const PipelineOptions& options) {
  if (region.block_rows > 0) return false;
  if (options.channels != ChannelOrder::kByPrecision)
    return options.channels == ChannelOrder::kLast;
  return options.precision != Precision::kAsStored;
}

}  // namespace

void assign_layouts(Lowering& lowering, const PassContext& context) {
  const bool cuda = context.target->device() == ops::Device::kCuda;
  const InnerLayout inner = cuda ? InnerLayout::kChannelsLast : InnerLayout::kLanes;
  for (size_t i = 0; i < lowering.regions.size(); ++i) {
    RegionSpec& region = lowering.regions[i];
    if (!(cuda ? has_channels_last : has_lanes)(region, context.options)) continue;
    Node* behind =
        i + 1 < lowering.regions.size() ? lowering.regions[i + 1].nodes.front() : nullptr;
    LayoutAssigner(lowering, context, inner, region, behind).run();
  }
}

}  // namespace sardonyx::passes
