// set_batch: with --set-batch, rewrites the constants in which a file with a fixed number of rows
// holds that number, so that it can be bound to another (passes/baked_batch.h says which those are,
// and why). The file is saved as it was: a parameter of equal rows becomes one row here, which is
// repeated when it is written back.
#include <algorithm>
#include <unordered_map>

#include "graph/names.h"
#include "ops/core/op.h"
#include "passes/baked_batch.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;
using graph::Value;

class Writer {
 public:
  Writer(Graph& graph, const BakedBatch& found, int64_t rows) : graph_(graph), rows_(rows) {
    for (Node& node : graph.nodes()) nodes_.push_back(&node);
    for (const BakedConstant& constant : found.constants) {
      if (constant.axis >= 0) ++repeated_uses_[operand(constant)];
    }
  }

  void write(const BakedConstant& constant) {
    Node* node = nodes_[static_cast<size_t>(constant.node)];
    Value* old = operand(constant);
    graph_.set_input(
        node, constant.slot,
        constant.axis >= 0 ? repeated(constant, *old, node) : counted(constant, *old, *node));
    if (old->is_constant() && old->uses().empty() && !graph_.is_output(old)) graph_.remove(old);
  }

  Node& node(int position) { return *nodes_[static_cast<size_t>(position)]; }

 private:
  Value* operand(const BakedConstant& constant) const {
    return nodes_[static_cast<size_t>(constant.node)]->input(constant.slot);
  }

  Value* counted(const BakedConstant& constant, const Value& old, const Node& node) {
    std::vector<int64_t> numbers = constant.data.to_ints();
    for (const auto& [element, count] : constant.counts) {
      numbers[static_cast<size_t>(element)] = count * rows_;
    }
    // "The rest" tells where the batch is even if there is one row only.
    const bool alone = constant.counts.size() == 1 && std::ranges::count(numbers, -1) == 0;
    if (alone && constant.counts[0].second > 1 && ops::OpRegistry::get().at(node).view) {
      numbers[static_cast<size_t>(constant.counts[0].first)] = -1;
    }
    return graph_.add_constant(
        graph::fresh_name(graph_, old.name),
        Tensor::of<int64_t>(constant.data.shape(), numbers).cast(constant.data.dtype()));
  }

  // A constant that is repeated wherever it is read stays the tensor of the file that it is.
  Value* one_slice(const BakedConstant& constant, Value& old) {
    Value*& slice = slices_[&old];
    if (slice != nullptr && slice->type.shape() == constant.data.shape()) return slice;
    const bool whole =
        slice == nullptr && old.is_constant() && repeated_uses_.at(&old) == old.uses().size();
    const std::string name = old.name;
    if (whole) graph_.rename(&old, graph::fresh_name(graph_, name));
    slice = graph_.add_constant(whole ? name : graph::fresh_name(graph_, name), constant.data);
    if (whole) slice->origin = old.origin;
    return slice;
  }

  Value* repeated(const BakedConstant& constant, Value& old, Node* before) {
    std::vector<int64_t> shape = constant.data.shape();
    shape[static_cast<size_t>(constant.axis)] = rows_;
    Value* row = one_slice(constant, old);
    Value* sizes =
        graph_.add_constant(graph::fresh_name(graph_, row->name + "/rows"),
                            Tensor::of<int64_t>({static_cast<int64_t>(shape.size())}, shape));
    return graph_
        .add_node("", "Expand", {row, sizes}, {graph::fresh_name(graph_, row->name + "/repeated")},
                  before)
        ->output(0);
  }

  Graph& graph_;
  int64_t rows_;
  std::vector<Node*> nodes_;                                // as they were
  std::unordered_map<const Value*, size_t> repeated_uses_;  // of those that are repeated
  std::unordered_map<const Value*, Value*> slices_;
};

// What the file declares about its results is for its own number of rows.
void declare(Graph& graph, const BakedBatch& found, int64_t rows) {
  for (const auto& [name, place] : found.axes) {
    Value* value = graph.find(name);
    const auto [axis, per_row] = place;
    if (value == nullptr || value->producer == nullptr || value->type.rank() <= axis) continue;
    value->type.dims[static_cast<size_t>(axis)] = graph::Dim(per_row * rows);
  }
}

}  // namespace

bool set_batch(Graph& graph, PassContext& context) {
  if (!context.options.set_batch) return false;
  const BakedBatch found = find_baked_batch(graph, context);
  if (found.rows < 0) return false;
  Writer writer(graph, found, context.options.batch);
  for (const BakedConstant& constant : found.constants) writer.write(constant);
  declare(graph, found, context.options.batch);
  for (const auto& [position, why] : found.faults) {
    const Node& node = writer.node(position);
    context.unsupported.push_back(unsupported(
        node, UnsupportedNode::Kind::kFault,
        fmt::format("--set-batch: node {} can't be shown to take another number of rows than the "
                    "{} of the file: {}",
                    node.label(), found.rows, why)));
  }
  return !found.constants.empty();
}

}  // namespace sardonyx::passes
