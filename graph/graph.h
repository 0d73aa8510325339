// The graph: SSA values, nodes, state values and the bindings that end a step.
//
// Invariants (checked by graph/verify.h):
//  * names of values are unique in a graph; every use is in its value's use list;
//  * nodes are listed in an order in which every value is defined before it is used;
//  * a state value is changed only through its binding `state -> new value`, applied after the last
//  node.
// The graph knows no operator by name: what a node means is the business of ops/.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/attribute.h"
#include "graph/tensor.h"
#include "graph/type.h"

namespace sardonyx::graph {

class Graph;
struct Node;
struct Value;

// Where a value or node stands in the user's file. Saving edits the file at these places
// (graph/onnx_export.h), so passes may restructure the graph as they like, as long as they hand the
// origin on.
struct Origin {
  enum class Kind : uint8_t { kNone, kGraphInput, kInitializer, kConstantNode, kNodeOutput };
  Kind kind = Kind::kNone;
  std::string
      path;  // names of the calls that lead into a local function: "call1/call2"; "" = main graph
  int32_t node = -1;   // index of the node in its graph or function body, in file order
  int32_t slot = -1;   // output slot of that node
  std::string tensor;  // name of the tensor in the file
  // Set when one tensor of the file became several values ("NAME@NODE:INPUT").
  std::string split_use;
  friend bool operator==(const Origin&, const Origin&) = default;
};

enum class ValueKind : uint8_t {
  kInput,     // fed at every step: data, labels, learning rate
  kConstant,  // known bytes, never changes
  kState,     // lives across steps: parameters, statistics, optimizer slots, accumulators, counters
  kResult,    // output of a node
};

enum class StateRole : uint8_t {
  kNone,
  kParameter,
  kStatistic,
  kOptimizer,
  kAccumulator,
  kCounter
};

std::string_view role_name(StateRole role);  // "parameter", "statistic", ...

struct Use {
  Node* node = nullptr;
  int32_t index = 0;  // input slot
  friend bool operator==(const Use&, const Use&) = default;
};

struct Value {
  std::string name;
  TensorType type;
  ValueKind kind = ValueKind::kResult;
  StateRole role = StateRole::kNone;
  Node* producer = nullptr;  // kResult only
  int32_t slot = 0;          // output slot of the producer
  Tensor data;               // kConstant: the bytes; kState: the initial value (undefined: zeros)
  Origin origin;

  // In the order in which the uses were added; edits never reorder the rest. Dropping a use leaves
  // a hole that the next call closes, so copy the list before editing, and after an edit let one
  // thread make the first call.
  const std::vector<Use>& uses() const {
    if (holes_ != 0) close_holes();
    return uses_;
  }
  bool is_constant() const { return kind == ValueKind::kConstant; }
  bool is_state() const { return kind == ValueKind::kState; }

 private:
  friend class Graph;
  void close_holes() const;

  // A use is found again by its stamp (Node::stamps_): stamps ascend, so a drop is a binary search
  // plus a hole (node == nullptr), and the order of the rest stands.
  mutable std::vector<Use> uses_;
  mutable std::vector<int64_t> stamps_;  // parallel to uses_
  mutable int64_t holes_ = 0;
  int64_t next_stamp_ = 0;
  int32_t output_count_ = 0;  // how often this is a graph output
  int32_t next_count_ = 0;    // how many bindings take this value
  Value* bound_ = nullptr;    // kState: the value it takes after the step
  std::list<Value>::iterator self_;
};

struct Node {
  std::string domain;  // "" for ai.onnx
  std::string op;
  std::string name;  // as in the file; may be empty or repeated
  std::map<std::string, Attribute, std::less<>> attributes;
  Origin origin;
  // Set on nodes that a gradient rule made: name of the forward node they belong to.
  std::string forward_node;

  Graph* graph() const { return graph_; }
  const std::vector<Value*>& inputs() const { return inputs_; }  // nullptr: optional input left out
  const std::vector<Value*>& outputs() const {
    return outputs_;
  }  // nullptr: optional output left out
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  // nullptr when the slot doesn't exist or is left out.
  Value* input(int i) const { return i < num_inputs() ? inputs_[i] : nullptr; }
  Value* output(int i) const { return i < num_outputs() ? outputs_[i] : nullptr; }
  bool is(std::string_view op_domain, std::string_view op_name) const {
    return op == op_name && domain == op_domain;
  }

  // Attribute access with defaults. Throws Error (attribute, expected and found kind) on a wrong
  // kind.
  bool has(std::string_view attribute) const {
    return attributes.find(attribute) != attributes.end();
  }
  int64_t get_int(std::string_view attribute, int64_t fallback) const;
  double get_float(std::string_view attribute, double fallback) const;
  std::string get_string(std::string_view attribute, std::string fallback) const;
  std::vector<int64_t> get_ints(std::string_view attribute, std::vector<int64_t> fallback) const;
  std::vector<double> get_floats(std::string_view attribute, std::vector<double> fallback) const;
  const Tensor* get_tensor(std::string_view attribute) const;  // nullptr when absent

  // `conv1 (Conv)`, or `Conv -> y` for a nameless node: how messages name it.
  std::string label() const;

 private:
  friend class Graph;
  Graph* graph_ = nullptr;
  std::vector<Value*> inputs_;
  std::vector<int64_t> stamps_;  // parallel to inputs_: the stamp of that use in its value's list
  std::vector<Value*> outputs_;
  int64_t order_ = 0;  // scratch of sort()
  std::list<Node>::iterator self_;
};

// `state` takes the value of `next` after the last node of the step.
struct Binding {
  Value* state = nullptr;
  Value* next = nullptr;
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  Graph(Graph&&) = delete;  // nodes point back to their graph

  std::string name = "graph";
  int64_t ir_version = 8;
  std::map<std::string, int64_t> opsets;  // domain -> version; "" is ai.onnx
  // Symbol of the batch axis ("" until bind_batch has found it).
  std::string batch_symbol;

  // --- values
  // -----------------------------------------------------------------------------------------------
  // Each throws Error when the name is taken or empty.
  Value* add_input(std::string name, TensorType type);
  Value* add_constant(std::string name, Tensor data);
  // `initial` may be undefined: the state starts as zeros.
  Value* add_state(std::string name, TensorType type, StateRole role, Tensor initial = {});
  Value* find(std::string_view name) const;  // nullptr when unknown
  void rename(Value* value, std::string name);
  // Turns a constant into a state with the same uses (mark_trainable), or back.
  void make_state(Value* constant, StateRole role);
  void make_constant(Value* state);
  // Turns an input into a constant with the same uses.
  void make_constant(Value* input, Tensor data);
  // CHECK: no uses, not an output, not bound. For kResult remove the node instead.
  void remove(Value* value);

  std::list<Value>& values() { return values_; }
  const std::list<Value>& values() const { return values_; }
  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  std::vector<Value*> states() const;
  std::vector<Value*> constants() const;
  void add_output(Value* value);
  void set_output(int i, Value* value);
  void clear_outputs();
  bool is_output(const Value* value) const;
  // Reorders or drops inputs; dropped ones are removed and must have no uses.
  void set_inputs(std::vector<Value*> inputs);

  // --- nodes
  // ------------------------------------------------------------------------------------------------
  // Appends a node (or inserts it before `before`). `output_names`: "" leaves an optional output
  // out.
  Node* add_node(std::string domain, std::string op, std::vector<Value*> inputs,
                 const std::vector<std::string>& output_names, Node* before = nullptr);
  std::list<Node>& nodes() { return nodes_; }
  const std::list<Node>& nodes() const { return nodes_; }
  void set_input(Node* node, int i, Value* value);  // grows the input list when needed
  void drop_trailing_inputs(Node* node, int keep);
  // Adds an output value to a slot that was left out or doesn't exist yet.
  Value* add_output_value(Node* node, int slot, std::string name);
  // Gives the value of output `slot` to nobody: the slot reads as left out. CHECK: no uses.
  void drop_output_value(Node* node, int slot);
  // CHECK: no output is used, bound or a graph output.
  void remove(Node* node);
  void move_before(Node* node, Node* before);  // before == nullptr: to the end
  // Every use of `from` (node inputs, graph outputs, binding results) now reads `to`.
  void replace_uses(Value* from, Value* to);
  // Stable topological sort of the node list. Throws Error naming the nodes of a cycle.
  void sort();

  // --- state
  // ------------------------------------------------------------------------------------------------
  // CHECK: `state` is a state value with no binding yet.
  void bind(Value* state, Value* next);
  void unbind(Value* state);
  const std::vector<Binding>& bindings() const { return bindings_; }
  Value* bound(const Value* state) const;  // nullptr when unbound

  // A deep copy; tensors are shared. Value and node orders are kept.
  std::unique_ptr<Graph> clone() const;

 private:
  friend std::string fresh_name(const Graph& graph, std::string_view wish);  // graph/names.h

  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
  };
  template <class T>
  using NameMap = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;

  Value* new_value(std::string name, ValueKind kind);
  void erase_value(Value* value);
  void check_free(std::string_view name) const;
  void forget_name(const std::string& name);
  void add_use(Value* value, Node* node, int index);
  void drop_use(Value* value, Node* node, int index);

  std::list<Value> values_;
  std::list<Node> nodes_;
  std::vector<Value*> inputs_;
  std::vector<Value*> outputs_;
  std::vector<Binding> bindings_;
  NameMap<Value*> by_name_;
  // Wish -> a suffix below which every generated name is taken: a cache, so that n equal wishes
  // cost O(n).
  mutable NameMap<int64_t> first_suffix_;
};

}  // namespace sardonyx::graph
