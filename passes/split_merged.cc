// split_merged: one tensor that an exporter used for several parameters or statistics, because
// their values were equal when it wrote the file, becomes one per use: "NAME@NODE:INPUT".
//
// A tensor was merged when it stands in a slot that nothing shares by design (a statistic, or the
// scale or bias of a normalisation) and anywhere else. Uses as a weight stay one tensor. A
// statistic behind an alias (Identity) is read directly, so that it is found by its slot.
#include <fmt/ranges.h>

#include "graph/names.h"
#include "graph/support/error.h"
#include "ops/core/op.h"
#include "passes/node_facts.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using ops::ParameterSlot;

bool is_alias(const graph::Use& use) {
  const ops::OpDef* op = ops::OpRegistry::get().find(*use.node);
  const Value* value = use.node->output(0);
  return op != nullptr && op->view && !op->view_begin && use.index == 0 && value != nullptr &&
         value->type.is_static() && value->type.same_storage(use.node->input(0)->type);
}

class Splitter {
 public:
  Splitter(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  bool run() {
    for (Value* value : graph_.constants()) {
      const bool of_file = value->origin.kind != graph::Origin::Kind::kNone &&
                           value->origin.kind != graph::Origin::Kind::kNodeOutput;
      if (of_file && graph::is_floating(value->type.dtype)) visit(value);
    }
    if (split_.empty()) return changed_;
    context_.notice(
        fmt::format("tensors that the exporter merged are split, one per use (NAME@NODE:INPUT): {}",
                    fmt::join(split_, ", ")));
    return true;
  }

 private:
  static void collect_uses(const Value* value, std::vector<graph::Use>& uses) {
    for (const graph::Use& use : value->uses()) {
      if (is_alias(use)) {
        collect_uses(use.node->output(0), uses);
      } else {
        uses.push_back(use);
      }
    }
  }

  void visit(Value* value) {
    std::vector<graph::Use> uses;
    collect_uses(value, uses);
    bool merged = false;
    for (const graph::Use& use : uses) {
      const ParameterSlot slot = slot_of(use);
      merged |= slot == ParameterSlot::kStatistic || is_scale(slot) ||
                (slot == ParameterSlot::kBias && takes_scale(*use.node));
      if (slot == ParameterSlot::kStatistic) read_directly(use, value);
    }
    if (!merged || uses.size() < 2) return;
    for (const graph::Use& use : uses) {
      if (slot_of(use) != ParameterSlot::kWeight) split(value, use);
    }
    split_.push_back(fmt::format("'{}' ({} uses)", value->name, uses.size()));
    remove_unused(value);
  }

  void read_directly(const graph::Use& use, Value* value) {
    if (use.node->input(use.index) == value) return;
    graph_.set_input(use.node, use.index, value);
    changed_ = true;
  }

  void split(Value* value, const graph::Use& use) {
    const Node& node = *use.node;
    if (!node.origin.path.empty()) {
      throw Error(
          "'{}' is used in several roles that can't be one parameter, one of them inside {}, "
          "a call of a local function or a branch; inline it first",
          value->name, node.origin.path);
    }
    // A node that is a fault may lack its output.
    const std::string unnamed = node.output(0) == nullptr ? node.op : node.output(0)->name;
    const std::string label = node.name.empty() ? unnamed : node.name;
    Value* own = graph_.add_constant(
        graph::fresh_name(graph_, fmt::format("{}@{}:{}", value->name, label, use.index)),
        value->data);
    own->origin = value->origin;
    own->origin.node = node.origin.node;
    own->origin.slot = use.index;
    own->origin.split_use = own->name;
    graph_.set_input(use.node, use.index, own);
  }

  void remove_unused(Value* value) {
    const std::vector<graph::Use> uses = value->uses();
    for (const graph::Use& use : uses) {
      Value* alias = use.node->output(0);
      if (!is_alias(use) || !alias->uses().empty() || graph_.is_output(alias)) continue;
      graph_.remove(use.node);
    }
    if (value->uses().empty() && !graph_.is_output(value)) graph_.remove(value);
  }

  Graph& graph_;
  PassContext& context_;
  std::vector<std::string> split_;
  bool changed_ = false;
};

}  // namespace

bool split_merged(Graph& graph, PassContext& context) { return Splitter(graph, context).run(); }

}  // namespace sardonyx::passes
