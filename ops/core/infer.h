// What a shape rule sees: input types, constant inputs, attributes; it sets the output types.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/support/error.h"
#include "ops/core/constraint.h"
#include "ops/core/op.h"

namespace sardonyx::ops {

class InferContext {
 public:
  explicit InferContext(Node& node) : node_(node) {}

  const Node& node() const { return node_; }
  int num_inputs() const { return node_.num_inputs(); }
  int num_outputs() const { return node_.num_outputs(); }
  bool has(int i) const { return node_.input(i) != nullptr; }
  bool wants(int output) const { return node_.output(output) != nullptr; }
  // Throws Error when the required input is left out.
  const TensorType& type(int i) const;
  DType dtype(int i) const { return type(i).dtype; }
  // Number of axes; -1 when not known.
  int rank(int i) const { return type(i).ranked ? type(i).rank() : -1; }
  const std::vector<Dim>& dims(int i) const { return type(i).dims; }
  // Axes of the tensor whose sizes input i lists, when only its length is known; -1: not known
  // either. Throws Error when there are more than any model has.
  int listed_rank(int i) const;
  // Bytes of a constant input; nullptr when it isn't constant (or left out).
  const Tensor* constant(int i) const;
  // Integers of a constant input. Throws Error: "input 1 (shape) must be known before training:
  // ...".
  std::vector<int64_t> ints(int i) const;
  // The same, but nullopt while shape arithmetic can't be folded: an input of the graph has unknown
  // dimensions, or an operator in front of them isn't known.
  std::optional<std::vector<int64_t>> known_ints(int i) const;

  // The type of an output (ignored for outputs left out).
  void set(int output, TensorType type);
  void set(int output, DType dtype, std::vector<Dim> dims) {
    set(output, TensorType(dtype, std::move(dims)));
  }
  void set_unranked(int output, DType dtype) { set(output, TensorType::unranked(dtype)); }

  // Throws ConstraintError; infer_node adds the node. `constraint` is the number on the room's
  // plate.
  template <class... Args>
  [[noreturn]] void fail(const char* constraint, fmt::format_string<Args...> format,
                         Args&&... args) const {
    throw ConstraintError(constraint, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void require(bool condition, const char* constraint, fmt::format_string<Args...> format,
               Args&&... args) const {
    if (!condition) fail(constraint, format, std::forward<Args>(args)...);
  }

 private:
  Node& node_;
};

// "input 1 (scale) 'bn.weight'", of an input that is there.
std::string input_label(const Node& node, int i);

// Runs the shape rule of `node` and stores the output types. Throws Error when the elements of an
// operand can't be counted, or an output would need more than 1 TiB. Errors gain "while inferring
// shapes of node ...".
void infer_node(Node& node);

}  // namespace sardonyx::ops
