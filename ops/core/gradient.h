// What a gradient rule sees. A rule returns nodes: it builds dx from x, y, dy with the builder and
// hands each to `set`. Shapes were inferred before and are static.
#pragma once

#include <string>
#include <vector>

#include "ops/core/op_builder.h"

namespace sardonyx::ops {

class GradientContext {
 public:
  GradientContext(Node& node, OpBuilder& builder, std::vector<Value*> output_gradients,
                  std::vector<bool> wanted);

  const Node& node() const { return node_; }
  OpBuilder& b() { return b_; }
  Value* x(int i) const { return node_.input(i); }   // nullptr when left out
  Value* y(int i) const { return node_.output(i); }  // nullptr when left out
  int num_inputs() const { return node_.num_inputs(); }
  int num_outputs() const { return node_.num_outputs(); }
  // Gradient of output i; nullptr when no gradient reaches it (read: zero).
  Value* dy(int i) const { return i < static_cast<int>(dy_.size()) ? dy_[i] : nullptr; }
  // The same, with a zero constant where none reaches it (rules with several outputs).
  Value* dy_or_zero(int i);
  // Input i lies on a path to something that wants a gradient.
  bool wants(int i) const { return i < static_cast<int>(wanted_.size()) && wanted_[i]; }
  // The gradient of input i: same shape as x(i). CHECK: wants(i), set once.
  void set(int i, Value* dx);
  const std::vector<Value*>& result() const { return dx_; }

  // Sums `g` over the axes along which `like` was broadcast, so that the result has like's shape.
  // Returns `g` itself when the shapes are equal. Nodes: ReduceSum (keepdims 0 on leading axes),
  // Reshape.
  Value* reduce_to(Value* g, const Value* like);
  // Static dimensions of a value. Throws Error when not static ("bind the batch first").
  static std::vector<int64_t> shape(const Value* value);

 private:
  Node& node_;
  OpBuilder& b_;
  std::vector<Value*> dy_;
  std::vector<bool> wanted_;
  std::vector<Value*> dx_;
};

}  // namespace sardonyx::ops
