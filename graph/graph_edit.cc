// Nodes and use lists: the edits that passes are made of. Each costs O(1), O(log uses) for a
// dropped use or O(uses); none looks through the whole graph.
#include <algorithm>

#include "graph/graph.h"
#include "graph/support/error.h"

namespace sardonyx::graph {

// --- uses
// ---------------------------------------------------------------------------------------------------

void Value::close_holes() const {
  size_t kept = 0;
  for (size_t i = 0; i < uses_.size(); ++i) {
    if (uses_[i].node == nullptr) continue;
    uses_[kept] = uses_[i];
    stamps_[kept++] = stamps_[i];
  }
  uses_.resize(kept);
  stamps_.resize(kept);
  holes_ = 0;
}

void Graph::add_use(Value* value, Node* node, int index) {
  node->inputs_[index] = value;
  if (value == nullptr) return;
  node->stamps_[index] = value->next_stamp_;
  value->uses_.push_back({node, index});
  value->stamps_.push_back(value->next_stamp_++);
}

void Graph::drop_use(Value* value, Node* node, int index) {
  const auto at =
      std::lower_bound(value->stamps_.begin(), value->stamps_.end(), node->stamps_[index]);
  const size_t i = at - value->stamps_.begin();
  CHECK(i < value->uses_.size() && value->uses_[i] == (Use{node, index}), "use list of '{}'",
        value->name);
  value->uses_[i] = {};
  ++value->holes_;
  while (!value->uses_.empty() && value->uses_.back().node == nullptr) {
    value->uses_.pop_back();
    value->stamps_.pop_back();
    --value->holes_;
  }
  if (value->holes_ > 32 && 2 * value->holes_ > static_cast<int64_t>(value->uses_.size())) {
    value->close_holes();
  }
}

// --- nodes
// --------------------------------------------------------------------------------------------------

Node* Graph::add_node(std::string domain, std::string op, std::vector<Value*> inputs,
                      const std::vector<std::string>& output_names, Node* before) {
  for (size_t i = 0; i < output_names.size(); ++i) {
    if (output_names[i].empty()) continue;
    check_free(output_names[i]);
    if (std::find(output_names.begin(), output_names.begin() + i, output_names[i]) !=
        output_names.begin() + i) {
      throw Error("the name '{}' stands for two outputs of a node {}", output_names[i], op);
    }
  }
  CHECK(before == nullptr || before->graph_ == this);
  const auto self = nodes_.emplace(before != nullptr ? before->self_ : nodes_.end());
  Node* node = &*self;
  node->graph_ = this;
  node->self_ = self;
  node->domain = std::move(domain);
  node->op = std::move(op);
  node->inputs_.resize(inputs.size());
  node->stamps_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) add_use(inputs[i], node, static_cast<int>(i));
  for (size_t i = 0; i < output_names.size(); ++i) {
    if (output_names[i].empty()) {
      node->outputs_.push_back(nullptr);
    } else {
      add_output_value(node, static_cast<int>(i), output_names[i]);
    }
  }
  return node;
}

void Graph::set_input(Node* node, int i, Value* value) {
  CHECK(node->graph_ == this && i >= 0);
  if (i >= node->num_inputs()) {
    node->inputs_.resize(i + 1);
    node->stamps_.resize(i + 1);
  }
  Value* old = node->inputs_[i];
  if (old == value) return;
  if (old != nullptr) drop_use(old, node, i);
  add_use(value, node, i);
}

void Graph::drop_trailing_inputs(Node* node, int keep) {
  CHECK(node->graph_ == this && keep >= 0);
  for (int i = node->num_inputs() - 1; i >= keep; --i) {
    if (node->inputs_[i] != nullptr) drop_use(node->inputs_[i], node, i);
    node->inputs_.pop_back();
    node->stamps_.pop_back();
  }
}

Value* Graph::add_output_value(Node* node, int slot, std::string name) {
  CHECK(node->graph_ == this && slot >= 0);
  CHECK(node->output(slot) == nullptr, "output {} of {} exists", slot, node->label());
  Value* value = new_value(std::move(name), ValueKind::kResult);
  value->producer = node;
  value->slot = slot;
  if (slot >= node->num_outputs()) node->outputs_.resize(slot + 1);
  node->outputs_[slot] = value;
  return value;
}

void Graph::drop_output_value(Node* node, int slot) {
  CHECK(node->graph_ == this);
  Value* value = node->output(slot);
  CHECK(value != nullptr, "output {} of {} is left out already", slot, node->label());
  erase_value(value);
  node->outputs_[slot] = nullptr;
}

void Graph::remove(Node* node) {
  CHECK(node->graph_ == this);
  drop_trailing_inputs(node, 0);  // first, so that a node that feeds itself can go
  for (int i = 0; i < node->num_outputs(); ++i) {
    if (node->outputs_[i] != nullptr) drop_output_value(node, i);
  }
  nodes_.erase(node->self_);
}

void Graph::move_before(Node* node, Node* before) {
  CHECK(node->graph_ == this && (before == nullptr || before->graph_ == this));
  if (node == before) return;
  nodes_.splice(before != nullptr ? before->self_ : nodes_.end(), nodes_, node->self_);
}

void Graph::replace_uses(Value* from, Value* to) {
  CHECK(from != nullptr && to != nullptr);
  if (from == to) return;
  const std::vector<Use> uses = from->uses();
  from->uses_.clear();
  from->stamps_.clear();
  for (const Use& use : uses) add_use(to, use.node, use.index);
  if (from->output_count_ > 0) {
    std::replace(outputs_.begin(), outputs_.end(), from, to);
    to->output_count_ += std::exchange(from->output_count_, 0);
  }
  if (from->next_count_ > 0) {
    for (Binding& binding : bindings_) {
      if (binding.next == from) binding.next = binding.state->bound_ = to;
    }
    to->next_count_ += std::exchange(from->next_count_, 0);
  }
}

// --- clone
// --------------------------------------------------------------------------------------------------

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>();
  copy->name = name;
  copy->ir_version = ir_version;
  copy->opsets = opsets;
  copy->batch_symbol = batch_symbol;

  std::unordered_map<const Value*, Value*> values{{nullptr, nullptr}};
  values.reserve(values_.size() + 1);
  copy->by_name_.reserve(values_.size());
  for (const Value& old : values_) {
    Value* value = copy->new_value(old.name, old.kind);
    value->type = old.type;
    value->role = old.role;
    value->slot = old.slot;
    value->data = old.data;
    value->origin = old.origin;
    values.emplace(&old, value);
  }
  std::unordered_map<const Node*, Node*> nodes;
  nodes.reserve(nodes_.size());
  for (const Node& old : nodes_) {
    const auto self = copy->nodes_.emplace(copy->nodes_.end());
    Node* node = &*self;
    node->self_ = self;
    node->graph_ = copy.get();
    node->domain = old.domain;
    node->op = old.op;
    node->name = old.name;
    node->attributes = old.attributes;
    node->origin = old.origin;
    node->forward_node = old.forward_node;
    node->inputs_.resize(old.inputs_.size());
    node->stamps_.resize(old.inputs_.size());
    for (const Value* value : old.outputs_) {
      node->outputs_.push_back(values.at(value));
      if (value != nullptr) node->outputs_.back()->producer = node;
    }
    nodes.emplace(&old, node);
  }
  for (const Value& old : values_) {  // by value, so that the copy has the same use order
    for (const Use& use : old.uses()) copy->add_use(values.at(&old), nodes.at(use.node), use.index);
  }
  for (const Value* value : inputs_) copy->inputs_.push_back(values.at(value));
  for (const Value* value : outputs_) copy->add_output(values.at(value));
  for (const Binding& binding : bindings_) {
    copy->bind(values.at(binding.state), values.at(binding.next));
  }
  return copy;
}

}  // namespace sardonyx::graph
