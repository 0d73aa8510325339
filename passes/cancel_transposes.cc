// cancel_transposes: a Transpose of activations moves behind the operators that don't mind the
// order of axes, where it meets its inverse, another one like it (as both operands of an addition)
// or a reduction, and is gone. One that nothing takes away stays where it is; one that only moves
// axes of size one becomes a Reshape, which costs nothing. Exporters of networks with channels last
// surround each convolution with a pair.
//
// Results keep their names and their bits (a gradient of a bias may round differently): a sum,
// which would be added up in another order, holds a Transpose back. Behind the pass weights may be
// read through a Reshape. Of Transposes of weights only those go that a product can do without, by
// reading the matrix as it is stored.
#include <algorithm>
#include <unordered_set>

#include "graph/names.h"
#include "ops/core/axis_order.h"
#include "ops/core/infer.h"
#include "ops/core/op_builder.h"
#include "ops/core/turned_operand.h"
#include "passes/node_facts.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using ops::AxisUse;
using ops::Permutation;

bool is_weight(const Value* value) { return value->is_constant() || value->is_state(); }

// Of a Transpose of activations.
std::optional<Permutation> moved_axes(const Node* node) {
  if (node == nullptr || node->input(0) == nullptr || is_weight(node->input(0))) {
    return std::nullopt;
  }
  return ops::permutation_of(*node);
}

bool are_inverse(const Permutation& a, const Permutation& b) {
  return a.size() == b.size() && ops::is_identity(ops::followed_by(a, b));
}

// At most one axis isn't of size one: as a Reshape it fits any order of axes.
bool is_line(const Value* value) {
  return value->type.is_static() &&
         std::ranges::count_if(value->type.dims, [](const auto& d) { return d.value != 1; }) <= 1;
}

class Canceller {
 public:
  Canceller(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  bool run() {
    bool changed = false;
    // A Transpose that is gone may clear the way for one in front of it: another round. Each takes
    // one away or moves one down, so the rounds end.
    while (run_round()) changed = true;
    for (Node* node : transposes()) changed |= make_view(*node);
    for (Node& node : graph_.nodes()) changed |= read_as_stored(node);
    return changed;
  }

 private:
  std::vector<Node*> transposes() {
    std::vector<Node*> found;
    for (Node& node : graph_.nodes()) {
      if (moved_axes(&node)) found.push_back(&node);
    }
    return found;
  }

  // From the front, so that what moves down meets what hasn't moved yet, and no node is passed
  // twice.
  bool run_round() {
    const std::vector<Node*> found = transposes();
    left_ = {found.begin(), found.end()};
    bool changed = false;
    for (Node* node : found) {
      while (node != nullptr && left_.contains(node) && improve(node)) changed = true;
    }
    return changed;
  }

  void remove(Node* transpose) {
    left_.erase(transpose);
    graph_.remove(transpose);
  }

  // Afterwards `node` is where it went; null when it is gone.
  bool improve(Node*& node) {
    if (join(*node)) return true;
    int passed = passes_that_pay(*node);
    if (passed == 0) return false;
    for (; passed > 0 && node != nullptr; --passed) {
      node = sink(*moved_axes(node), *only_user(node->output(0)));
    }
    return true;
  }

  // With the one in front of it.
  bool join(Node& node) {
    Node* before = node.input(0)->producer;
    const std::optional<Permutation> first = moved_axes(before);
    if (!first) return false;
    const Permutation both = ops::followed_by(*first, *moved_axes(&node));
    if (ops::is_identity(both) && !outlives_plan(graph_, node.output(0))) {
      graph_.replace_uses(node.output(0), before->input(0));
      remove(&node);
    } else if (only_user(before->output(0)) != nullptr) {
      graph_.set_input(&node, 0, before->input(0));
      node.attributes = {{"perm", both}};
    } else {
      return false;
    }
    drop_if_unused(*before);
    return true;
  }

  void drop_if_unused(Node& node) {
    if (node.output(0)->uses().empty() && !outlives_plan(graph_, node.output(0))) remove(&node);
  }

  // Null: none, several, or somebody outside.
  Node* only_user(const Value* value) const {
    if (value->uses().empty() || outlives_plan(graph_, value)) return nullptr;
    if (value->name == context_.logits) return nullptr;
    Node* user = value->uses().front().node;
    for (const graph::Use& use : value->uses()) {
      if (use.node != user) return nullptr;
    }
    return user;
  }

  // How many operators it moves behind until a Transpose less is left; 0: that won't be.
  int passes_that_pay(const Node& node) const {
    const Permutation perm = *moved_axes(&node);
    const Value* value = node.output(0);
    for (int passed = 0;; ++passed) {
      const Node* user = only_user(value);
      if (user == nullptr) return meets_inverse(value, perm) ? passed : 0;
      if (moved_axes(user)) return passed;
      if (!passes_through(*user, perm, value)) return 0;
      if (ops::axis_use(*user) == AxisUse::kReduction) return ends_in(*user, perm) ? passed + 1 : 0;
      if (joins_another(*user, perm, value)) return passed + 1;
      value = user->output(0);
    }
  }

  // One of several users, the others go on reading it transposed.
  bool meets_inverse(const Value* value, const Permutation& perm) const {
    return std::ranges::any_of(value->uses(), [&](const graph::Use& use) {
      const auto next = moved_axes(use.node);
      return next && are_inverse(perm, *next);
    });
  }

  // The reduction leaves no order of axes, or none that matters.
  bool ends_in(const Node& node, const Permutation& perm) const {
    std::vector<int64_t> kept;
    const std::vector<graph::Dim>& in = node.input(0)->type.dims;
    const std::vector<graph::Dim>& out = node.output(0)->type.dims;
    if (in.size() == out.size()) {
      for (size_t i = 0; i < out.size(); ++i) {
        if (out[i].value != 1 || !out[i].symbol.empty()) kept.push_back(perm[i]);
      }
    } else {
      std::vector<int64_t> axes;
      if (node.input(1) != nullptr) axes = node.input(1)->data.to_ints();
      for (int64_t& axis : axes) axis += axis < 0 ? std::ssize(perm) : 0;
      for (int64_t i = 0; i < std::ssize(perm); ++i) {
        if (std::ranges::find(axes, i) == axes.end()) kept.push_back(perm[i]);
      }
    }
    return std::is_sorted(kept.begin(), kept.end());
  }

  // Its other operands can follow: weights of one axis, and what is transposed alike, though that
  // may still stand further up.
  bool passes_through(const Node& node, const Permutation& perm, const Value* from) const {
    if (!ops::commutes(node) || node.num_outputs() != 1) return false;
    const AxisUse use = ops::axis_use(node);
    if (node.output(0) == nullptr || !node.output(0)->type.is_static()) return false;
    const bool first_only = use == AxisUse::kReduction || use == AxisUse::kPads;
    if (first_only ? node.input(0) != from : from->type.rank() != node.output(0)->type.rank()) {
      return false;
    }
    return std::ranges::all_of(node.inputs(), [&](const Value* value) {
      if (value == nullptr || value == from) return true;
      return first_only ? is_weight(value) : follows(value, perm, use);
    });
  }

  bool follows(const Value* value, const Permutation& perm, AxisUse use) const {
    if (is_weight(value)) {
      return use == AxisUse::kElementwise && is_line(value) &&
             value->type.rank() <= std::ssize(perm);
    }
    return comes_transposed(value, perm);
  }

  // By `perm`, through nothing but what a Transpose moves behind.
  bool comes_transposed(const Value* value, const Permutation& perm) const {
    for (;;) {
      const Node* producer = value->producer;
      if (only_user(value) == nullptr || producer == nullptr) return false;
      if (const auto own = moved_axes(producer)) return *own == perm;
      if (ops::axis_use(*producer) != AxisUse::kElementwise || producer->num_outputs() != 1) {
        return false;
      }
      const Value* next = nullptr;
      for (const Value* input : producer->inputs()) {
        if (input == nullptr || (is_weight(input) && follows(input, perm, AxisUse::kElementwise))) {
          continue;
        }
        if (next != nullptr) return false;
        next = input;
      }
      if (next == nullptr || next->type.rank() != value->type.rank()) return false;
      value = next;
    }
  }

  bool joins_another(const Node& node, const Permutation& perm, const Value* from) const {
    return std::ranges::any_of(node.inputs(), [&](const Value* value) {
      return value != nullptr && value != from && !is_weight(value) &&
             comes_transposed(value, perm);
    });
  }

  // Behind `user`, once its other operands are there. Returns the Transpose of the result; null:
  // it needs none.
  Node* sink(const Permutation& perm, Node& user) {
    for (int i = 0; i < user.num_inputs(); ++i) {
      if (user.input(i) != nullptr && !is_weight(user.input(i))) pull_down(user, i, perm);
    }
    const bool reads_lines = ops::axis_use(user) == AxisUse::kElementwise;
    const Permutation left = ops::undo_permutation(user, perm);
    for (int i = 0; i < user.num_inputs(); ++i) {
      Value* value = user.input(i);
      if (value == nullptr) continue;
      if (is_weight(value)) {
        if (reads_lines) turn_line(user, i, perm);
        continue;
      }
      Node* producer = value->producer;
      if (!moved_axes(producer)) continue;  // twice the same operand: seen already
      graph_.set_input(&user, i, producer->input(0));
      if (producer->output(0)->uses().empty()) remove(producer);
    }
    ops::infer_node(user);
    return left.empty() ? nullptr : transpose_result(user, left);
  }

  // Moves the Transpose behind everything between it and this operand.
  void pull_down(Node& user, int slot, const Permutation& perm) {
    std::vector<Node*> between;
    Node* next = user.input(slot)->producer;
    while (!moved_axes(next)) {
      between.push_back(next);
      const auto data = std::ranges::find_if(
          next->inputs(), [](const Value* value) { return value != nullptr && !is_weight(value); });
      next = (*data)->producer;
    }
    for (auto node = between.rbegin(); node != between.rend(); ++node) sink(perm, **node);
  }

  // A weight of one axis, or none, as it is broadcast to the operand that isn't transposed.
  void turn_line(Node& user, int slot, const Permutation& perm) {
    Value* value = user.input(slot);
    const auto rank = std::ssize(perm);
    std::vector<int64_t> shape(rank, 1);
    const auto& dims = value->type.dims;
    for (int64_t i = 0; i < std::ssize(dims); ++i) {
      if (dims[i].value != 1) shape[perm[rank - std::ssize(dims) + i]] = dims[i].value;
    }
    if (value->type.numel() == 1) return;
    ops::OpBuilder b(graph_, &user);
    graph_.set_input(&user, slot,
                     b.op("Reshape", {value, b.ints(shape)}, {}, value->name + "/by_axis"));
  }

  // The result keeps its name: who looks at a value by name sees what the file says.
  Node* transpose_result(Node& user, const Permutation& perm) {
    Value* value = user.output(0);
    const std::string name = value->name;
    const graph::Origin origin = value->origin;
    graph_.rename(value, graph::fresh_name(graph_, name + "/untransposed"));
    value->origin = {};
    Node* transpose = graph_.add_node("", "Transpose", {value}, {name}, &user);
    graph_.move_before(&user, transpose);
    left_.insert(transpose);
    transpose->attributes["perm"] = perm;
    ops::infer_node(*transpose);
    transpose->output(0)->origin = origin;
    graph_.replace_uses(value, transpose->output(0));
    graph_.set_input(transpose, 0, value);
    return transpose;
  }

  // Axes of size one move freely.
  bool make_view(Node& node) {
    const Permutation perm = *moved_axes(&node);
    const graph::TensorType& type = node.input(0)->type;
    if (!type.is_static()) return false;
    std::vector<int64_t> order, shape;
    for (int64_t axis : perm) {
      const graph::Dim& dim = type.dims[axis];
      if (dim.value != 1 || !dim.symbol.empty()) order.push_back(axis);
      const bool copies = axis == std::ssize(shape) && !dim.symbol.empty();
      if (!copies && !dim.symbol.empty()) return false;
      shape.push_back(copies ? 0 : dim.value);
    }
    if (!std::is_sorted(order.begin(), order.end()) || type.numel() == 0) return false;
    const std::string name = node.output(0)->name;
    node.op = "Reshape";
    node.attributes.clear();
    graph_.set_input(&node, 1, ops::OpBuilder(graph_, &node).ints(shape));
    ops::infer_node(node);
    return true;
  }

  // A matrix of activations alone may have its batch on the axis that would be summed.
  bool read_as_stored(Node& node) {
    const Value* stored = ops::turned_right_operand(node);
    if (stored == nullptr || (stored->type.rank() == 2 && !is_weight(stored))) return false;
    Node* transpose = node.input(1)->producer;
    ops::read_turned_right_operand(graph_, node);
    drop_if_unused(*transpose);
    return true;
  }

  Graph& graph_;
  const PassContext& context_;
  // Of this round. A new one at the address of one that is gone is looked at twice, which is
  // harmless.
  std::unordered_set<const Node*> left_;
};

}  // namespace

bool cancel_transposes(Graph& graph, PassContext& context) {
  return Canceller(graph, context).run();
}

}  // namespace sardonyx::passes
