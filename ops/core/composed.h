// Operators that are defined by others: a rule writes the nodes that one of them stands for.
//
// As soon as the types are known, those take its place (OpDef::apply_mode, in both modes): plans,
// gradients, layouts and devices never meet the operator itself. The kernel and the gradient of
// this file make it whole where it stands for itself: constant folding, a node whose first output
// nobody reads, tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/core/kernel.h"
#include "ops/core/op_builder.h"

namespace sardonyx::ops {

// What a rule sees. Types of the inputs are static.
class ComposeContext {
 public:
  ComposeContext(const Node& node, std::vector<Value*> inputs, OpBuilder& builder)
      : node_(node), x_(std::move(inputs)), b_(builder), y_(node.num_outputs(), nullptr) {}

  // For its attributes only: the operands are x().
  const Node& node() const { return node_; }
  OpBuilder& b() { return b_; }
  // nullptr when left out.
  Value* x(int i) const { return i < static_cast<int>(x_.size()) ? x_[i] : nullptr; }
  const std::vector<Value*>& inputs() const { return x_; }
  bool wants(int output) const { return node_.output(output) != nullptr; }
  // CHECK: wanted, set once, of the type that the shape rule has given it. An input itself, or one
  // value for two outputs, are fine.
  void set(int output, Value* y);
  // Per output; nullptr: left out.
  const std::vector<Value*>& results() const { return y_; }

 private:
  const Node& node_;
  std::vector<Value*> x_;
  OpBuilder& b_;
  std::vector<Value*> y_;
};

using ComposeRule = std::function<void(ComposeContext&)>;

// Fills `gradient` and `apply_mode`.
void compose(OpDef& op, const ComposeRule& rule);
// Runs the nodes one after another, each with its reference kernel.
KernelDef composed_kernel(std::string op, std::string name, const ComposeRule& rule);

}  // namespace sardonyx::ops
