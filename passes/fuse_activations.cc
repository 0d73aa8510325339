// fuse_activations: an addition and an activation behind an operator that can do them while it
// writes its result (OpDef::fusion) become part of it, so that they cost no pass over memory.
//
// The fused node stands where the last of them stood: the other operand of the addition may be made
// later than its own operands. What it gives has the name and origin of what the last of them gave.
#include <algorithm>
#include <map>
#include <unordered_set>

#include "ops/core/infer.h"
#include "passes/node_facts.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

// The only node that reads a value which nobody else takes; nullptr: there is none.
Node* only_reader(const Graph& graph, const Value* value) {
  if (value->uses().size() != 1 || outlives_plan(graph, value)) return nullptr;
  return value->uses()[0].node;
}

bool has_one_output(const Node& node) {
  return node.num_outputs() == 1 && node.output(0) != nullptr;
}

class Fuser {
 public:
  explicit Fuser(Graph& graph) : graph_(graph) {}

  bool run(PassContext& context) {
    std::vector<Node*> nodes;
    for (Node& node : graph_.nodes()) nodes.push_back(&node);
    for (Node* node : nodes) {
      if (absorbed_.contains(node)) continue;
      const ops::OpDef* op = ops::OpRegistry::get().find(node->domain, node->op);
      if (op == nullptr || !has_one_output(*node)) continue;
      take_addition(*node, op->fusion);
      take_activation(*node, op->fusion);
    }
    for (const auto& [op, counts] : fused_) {
      std::string line;
      for (const auto& [with, count] : counts) {
        line += line.empty() ? fmt::format("{} {} fused with {}", count, op, with)
                             : fmt::format(", {} with {}", count, with);
      }
      context.remarks.push_back(line);
    }
    return !fused_.empty();
  }

 private:
  void take_addition(Node& node, const ops::Fusion& fusion) {
    if (fusion.addend < 0 || node.input(fusion.addend) != nullptr) return;
    const Value* own = node.output(0);
    Node* reader = only_reader(graph_, own);
    if (reader == nullptr || reader->num_inputs() != 2 || !has_one_output(*reader)) return;
    if (!ops::OpRegistry::get().at(*reader).adds) return;
    Value* addend = reader->input(own->uses()[0].index == 0 ? 1 : 0);
    if (addend == nullptr || addend->type != own->type || !own->type.is_static()) return;
    absorb(node, *reader);
    graph_.set_input(&node, fusion.addend, addend);
  }

  void take_activation(Node& node, const ops::Fusion& fusion) {
    if (fusion.activations.empty() || node.has("activation")) return;
    Node* reader = only_reader(graph_, node.output(0));
    if (reader == nullptr || !has_one_output(*reader)) return;
    const std::string activation = ops::op_label(reader->domain, reader->op);
    const auto& known = fusion.activations;
    if (std::find(known.begin(), known.end(), activation) == known.end()) return;
    absorb(node, *reader);
    node.attributes["activation"] = activation;
  }

  // `node` gives what its only reader gave, in its place.
  void absorb(Node& node, Node& reader) {
    ++fused_[node.op][reader.op];
    Value *own = node.output(0), *result = reader.output(0);
    const std::string name = result->name;
    own->origin = result->origin;
    graph_.move_before(&node, &reader);
    graph_.replace_uses(result, own);
    absorbed_.insert(&reader);
    graph_.remove(&reader);
    graph_.rename(own, name);
  }

  Graph& graph_;
  std::unordered_set<const Node*> absorbed_;  // no longer there
  // How many nodes of an operator took over one of another, for the remark.
  std::map<std::string, std::map<std::string, int>> fused_;
};

}  // namespace

bool fuse_activations(Graph& graph, PassContext& context) { return Fuser(graph).run(context); }

}  // namespace sardonyx::passes
