// The reverse walk: gradients of what nodes give become gradients of what they read.
//
// Call `want` for each value whose gradient is asked for, `follow` for each node in the order of
// the graph, `add` for each gradient that is given, `visit` for each node against the order, then
// `gradient`. Contributions are joined in the order in which they come.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ops/core/op_builder.h"

namespace sardonyx::ops {

class ReverseWalk {
 public:
  explicit ReverseWalk(OpBuilder& builder) : b_(builder) {}
  virtual ~ReverseWalk() = default;
  ReverseWalk(const ReverseWalk&) = delete;
  ReverseWalk& operator=(const ReverseWalk&) = delete;

  void want(const Value* value) { active_.insert(value); }
  void follow(const Node& node);
  // Whether a gradient of the node's outputs is asked for.
  bool is_active(const Node& node) const;
  // `dy` is a part of the gradient of y.
  void add(const Value* y, Value* dy) { parts_[y].push_back(dy); }
  // Applies the node's rule. CHECK: its operator has one, which sets all that is asked for.
  void visit(Node& node);
  // The sum of the parts; nullptr when there is none (read: zero).
  Value* gradient(const Value* value);

 protected:
  OpBuilder& b() { return b_; }
  bool has_gradient(const Value* value) const { return parts_.contains(value); }

 private:
  bool flows(const Node& node, int input) const;

  // What follows are the nodes of this node's rule.
  virtual void begin_rule(const Node& /*node*/) {}
  // The rule of `node` gave this part of the gradient of x, which comes behind the others.
  virtual void take_part(const Value* /*x*/, Value* /*dx*/, const Node& /*node*/) {}
  virtual Value* sum_of(const Value* /*x*/, const std::vector<Value*>& parts) {
    return b_.op("Sum", parts);
  }

  OpBuilder& b_;
  std::unordered_set<const Value*> active_;  // wanted, or computed from what is
  std::unordered_map<const Value*, std::vector<Value*>> parts_;
};

}  // namespace sardonyx::ops
