// set_batch: with --set-batch, rewrites the constants in which a file with a fixed number of rows
// holds that number, so that it can be bound to another (passes/baked_batch.h says which those are,
// and why). The file is saved as it was: a parameter of equal rows becomes one row here, which is
// repeated when it is written back.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

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
  Writer(Graph& graph, const BakedBatch& found, PassContext& context)
      : graph_(graph), context_(context), rows_(context.options.batch) {
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
    if (!whole && old.is_constant() && graph::is_floating(old.type.dtype)) {
      context_.notice(fmt::format(
          "--set-batch: '{}' is one row for each sample, and is read as it stands elsewhere: the "
          "row that is repeated is a copy, which isn't trained",
          name));
    }
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
  PassContext& context_;
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

// What the graph, as it is now, gives another number of rows than R1 says. What can't be typed is
// told by infer_shapes.
void require_rows(const Graph& graph, const BakedBatch& found, PassContext& context) {
  const int64_t rows = context.options.batch;
  const std::unique_ptr<Graph> typed = bound_to_rows(graph, context, rows);
  PassContext own;
  own.options = context.options;
  own.unsupported = context.unsupported;
  find_pass("infer_shapes")->run(*typed, own);
  std::unordered_set<const Value*> wrong;
  for (const Node& node : graph.nodes()) {
    const auto is_wrong = [&](const Value* value) { return wrong.contains(value); };
    const bool follows_one = std::ranges::any_of(node.inputs(), is_wrong);
    for (const Value* value : node.outputs()) {
      if (follows_one) wrong.insert(value);
      const auto it = value == nullptr ? found.axes.end() : found.axes.find(value->name);
      if (follows_one || it == found.axes.end()) continue;
      const auto [axis, per_row] = it->second;
      const Value* now = typed->find(value->name);
      if (now == nullptr || !now->type.is_static() || now->type.rank() <= axis) continue;
      const int64_t size = now->type.dims[static_cast<size_t>(axis)].value;
      if (size == per_row * rows) continue;
      wrong.insert(value);
      context.unsupported.push_back(unsupported(
          node, UnsupportedNode::Kind::kFault,
          fmt::format("--set-batch: with {} rows, axis {} of '{}', an output of node {}, has {} "
                      "elements, expected {}: the file limits the rows there (rule R1)",
                      rows, axis, value->name, node.label(), size, per_row * rows)));
    }
  }
}

}  // namespace

bool set_batch(Graph& graph, PassContext& context) {
  if (!context.options.set_batch) return false;
  const BakedBatch found = find_baked_batch(graph, context);
  if (found.rows < 0) return false;
  Writer writer(graph, found, context);
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
  require_rows(graph, found, context);
  return !found.constants.empty();
}

}  // namespace sardonyx::passes
