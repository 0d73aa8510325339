// Values, outputs and bindings of a graph. Edits of nodes and uses are in graph_edit.cc, the
// topological sort in graph_sort.cc.
#include "graph/graph.h"

#include <algorithm>
#include <charconv>

#include "graph/support/error.h"

namespace sardonyx::graph {

std::string_view role_name(StateRole role) {
  switch (role) {
    case StateRole::kNone:
      return "none";
    case StateRole::kParameter:
      return "parameter";
    case StateRole::kStatistic:
      return "statistic";
    case StateRole::kOptimizer:
      return "optimizer";
    case StateRole::kAccumulator:
      return "accumulator";
    case StateRole::kCounter:
      return "counter";
  }
  CHECK(false, "role {}", static_cast<int>(role));
}

// --- names and values
// ---------------------------------------------------------------------------------------

void Graph::check_free(std::string_view name) const {
  if (name.empty()) throw Error("a value of graph '{}' needs a name", this->name);
  if (by_name_.contains(name)) {
    throw Error("the name '{}' stands for two values of graph '{}'", name, this->name);
  }
}

// "x.3" is free again: the next wish for "x" has to look at 3.
void Graph::forget_name(const std::string& name) {
  by_name_.erase(name);
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return;
  const auto cached = first_suffix_.find(std::string_view(name).substr(0, dot));
  if (cached == first_suffix_.end()) return;
  int64_t suffix = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + dot + 1, end, suffix);
  if (error == std::errc() && stop == end) cached->second = std::min(cached->second, suffix);
}

Value* Graph::new_value(std::string name, ValueKind kind) {
  check_free(name);
  Value& value = values_.emplace_back();
  value.self_ = std::prev(values_.end());
  value.name = std::move(name);
  value.kind = kind;
  by_name_.emplace(value.name, &value);
  return &value;
}

void Graph::erase_value(Value* value) {
  CHECK(value->uses().empty(), "'{}' is read by {}", value->name,
        value->uses().front().node->label());
  CHECK(value->output_count_ == 0, "'{}' is a graph output", value->name);
  CHECK(value->bound_ == nullptr && value->next_count_ == 0, "'{}' is bound", value->name);
  forget_name(value->name);
  values_.erase(value->self_);
}

Value* Graph::add_input(std::string name, TensorType type) {
  Value* value = new_value(std::move(name), ValueKind::kInput);
  value->type = std::move(type);
  inputs_.push_back(value);
  return value;
}

Value* Graph::add_constant(std::string name, Tensor data) {
  CHECK(data.defined(), "constant '{}' has no bytes", name);
  Value* value = new_value(std::move(name), ValueKind::kConstant);
  value->type = data.type();
  value->data = std::move(data);
  return value;
}

Value* Graph::add_state(std::string name, TensorType type, StateRole role, Tensor initial) {
  Value* value = new_value(std::move(name), ValueKind::kState);
  value->type = std::move(type);
  value->role = role;
  value->data = std::move(initial);
  return value;
}

Value* Graph::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at != by_name_.end() ? at->second : nullptr;
}

void Graph::rename(Value* value, std::string name) {
  if (value->name == name) return;
  check_free(name);
  forget_name(value->name);
  value->name = std::move(name);
  by_name_.emplace(value->name, value);
}

void Graph::make_state(Value* constant, StateRole role) {
  CHECK(constant->is_constant(), "'{}' is no constant", constant->name);
  constant->kind = ValueKind::kState;
  constant->role = role;
}

void Graph::make_constant(Value* state) {
  CHECK(state->is_state(), "'{}' is no state", state->name);
  CHECK(state->bound_ == nullptr, "'{}' is bound", state->name);
  if (!state->data.defined()) state->data = Tensor(state->type.dtype, state->type.shape());
  state->kind = ValueKind::kConstant;
  state->role = StateRole::kNone;
}

void Graph::make_constant(Value* input, Tensor data) {
  CHECK(input->kind == ValueKind::kInput, "'{}' is no input", input->name);
  CHECK(data.defined(), "constant '{}' has no bytes", input->name);
  std::erase(inputs_, input);
  input->kind = ValueKind::kConstant;
  input->type = data.type();
  input->data = std::move(data);
}

void Graph::remove(Value* value) {
  CHECK(value->kind != ValueKind::kResult, "'{}' goes with its node", value->name);
  const bool input = value->kind == ValueKind::kInput;
  if (input) std::erase(inputs_, value);
  erase_value(value);
}

std::vector<Value*> Graph::states() const {
  std::vector<Value*> out;
  for (const Value& value : values_) {
    if (value.is_state()) out.push_back(const_cast<Value*>(&value));
  }
  return out;
}

std::vector<Value*> Graph::constants() const {
  std::vector<Value*> out;
  for (const Value& value : values_) {
    if (value.is_constant()) out.push_back(const_cast<Value*>(&value));
  }
  return out;
}

// --- inputs and outputs
// -------------------------------------------------------------------------------------

void Graph::add_output(Value* value) {
  CHECK(value != nullptr);
  ++value->output_count_;
  outputs_.push_back(value);
}

void Graph::set_output(int i, Value* value) {
  CHECK(value != nullptr);
  CHECK(i >= 0 && i < static_cast<int>(outputs_.size()), "output {} of {}", i, outputs_.size());
  --outputs_[i]->output_count_;
  ++value->output_count_;
  outputs_[i] = value;
}

void Graph::clear_outputs() {
  for (Value* value : outputs_) --value->output_count_;
  outputs_.clear();
}

bool Graph::is_output(const Value* value) const { return value->output_count_ > 0; }

void Graph::set_inputs(std::vector<Value*> inputs) {
  std::vector<Value*> dropped = inputs_;
  std::sort(dropped.begin(), dropped.end());
  for (Value* value : inputs) {
    const auto at = std::lower_bound(dropped.begin(), dropped.end(), value);
    CHECK(at != dropped.end() && *at == value, "the list holds something twice or no input");
    dropped.erase(at);
  }
  for (Value* value : inputs_) {  // in the order of the inputs, so that messages don't vary
    if (std::binary_search(dropped.begin(), dropped.end(), value)) erase_value(value);
  }
  inputs_ = std::move(inputs);
}

// --- state
// --------------------------------------------------------------------------------------------------

void Graph::bind(Value* state, Value* next) {
  CHECK(state->is_state(), "'{}' is no state", state->name);
  CHECK(state->bound_ == nullptr, "'{}' is bound already", state->name);
  CHECK(next != nullptr);
  state->bound_ = next;
  ++next->next_count_;
  bindings_.push_back({state, next});
}

void Graph::unbind(Value* state) {
  CHECK(state->bound_ != nullptr, "'{}' is not bound", state->name);
  --state->bound_->next_count_;
  state->bound_ = nullptr;
  std::erase_if(bindings_, [state](const Binding& binding) { return binding.state == state; });
}

Value* Graph::bound(const Value* state) const { return state->bound_; }

}  // namespace sardonyx::graph
