// Einsum: y[output indices] = sum over all other indices of the product of the operands
//
// Inputs   x0, x1, ... of one type, each with an index per axis      Output  y
// equation "ij,jk->ik": a term per operand, letters (a and A are two) and "...", which stands for
//          any number of axes; spaces don't count. Without "->" the output has the axes of "...",
//          then the letters that occur once, in the order of their codes. A letter twice in a term
//          takes the diagonal. Axes of size 1 are broadcast.
// E1 the equation consists of letters, ",", "->", and one "..." a term at most
// E2 a term per operand, an index per axis      E3 output indices are those of operands, none twice
// E4 axes of one index agree in size            E5 operands are numbers of one type
// Gradient that of the nodes it consists of: MatMul where an index is summed over two operands, Mul
//          where none is, ReduceSum, Transpose, Slice of the flattened matrix for diagonals
//          (einsum_parts.cc). Operands meet from left to right.
// Source   ONNX Einsum-12, 28
#include "ops/einsum/einsum.h"

#include <algorithm>
#include <map>

#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/infer.h"
#include "ops/core/one_type.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace einsum {

namespace {

// --- Shape

void require_agreement(const InferContext& c, const Dim& a, const Dim& b, Label label) {
  c.require(agree(a, b), "E4", "{} is an index of axes of size {} and {}", label_name(label),
            a.value, b.value);
}

// What an index has in several terms.
Dim common(const InferContext& c, const Dim& a, const Dim& b, Label label) {
  if (a.value == 1 || b.value == 1) return a.value == 1 ? b : a;
  require_agreement(c, a, b, label);
  return merged(a, b, c.node().graph()->batch_symbol);
}

// Per index of one operand.
std::map<Label, Dim> sizes_of(const InferContext& c, int operand, const Labels& labels) {
  std::map<Label, Dim> sizes;
  for (size_t axis = 0; axis < labels.size(); ++axis) {
    const Dim& dim = c.dims(operand)[axis];
    const auto [size, first] = sizes.try_emplace(labels[axis], dim);
    if (!first) require_agreement(c, size->second, dim, labels[axis]);
  }
  return sizes;
}

void infer_einsum(InferContext& c) {
  require_numbers(c, 0, "E5");
  require_one_type(c, 0, c.num_inputs() - 1, "E5");
  std::vector<int> ranks;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.rank(i) < 0) return c.set_unranked(0, c.dtype(0));
    ranks.push_back(c.rank(i));
  }
  const Equation equation = read_equation(c.node().get_string("equation", ""), ranks);
  std::map<Label, Dim> sizes;
  for (int i = 0; i < c.num_inputs(); ++i) {
    for (const auto& [label, dim] : sizes_of(c, i, equation.inputs[i])) {
      const auto [size, first] = sizes.try_emplace(label, dim);
      if (!first) size->second = common(c, size->second, dim, label);
    }
  }
  std::vector<Dim> dims;
  for (const Label label : equation.output) dims.push_back(sizes.at(label));
  c.set(0, c.dtype(0), std::move(dims));
}

// --- Definition

// Of an operand's axes those that are summed, and those that it alone brings to the result.
graph::Fan einsum_fan(const Node& node, int slot) {
  std::vector<int> ranks;
  for (const Value* value : node.inputs()) ranks.push_back(value->type.rank());
  const Equation equation = read_equation(node.get_string("equation", ""), ranks);
  const auto terms_with = [&](Label label) {
    return std::ranges::count_if(
        equation.inputs, [label](const Labels& term) { return std::ranges::count(term, label); });
  };
  const Labels& own = equation.inputs[slot];
  graph::Fan fan;
  for (size_t axis = 0; axis < own.size(); ++axis) {
    if (std::find(own.begin(), own.begin() + axis, own[axis]) != own.begin() + axis) continue;
    const auto size = static_cast<double>(node.input(slot)->type.dims[axis].value);
    const bool summed = std::ranges::count(equation.output, own[axis]) == 0;
    if (summed) fan.in *= size;
    if (!summed && terms_with(own[axis]) == 1) fan.out *= size;
  }
  return fan;
}

OpDef einsum_op() {
  OpDef op;
  op.name = "Einsum";
  op.doc = "Sums products of elements over the indices that an equation names.";
  op.since = {12, 28};
  op.inputs = {{"inputs", Presence::kVariadic}};
  op.outputs = {{"output"}};
  op.attributes = {{"equation", "string, required: \"ij,jk->ik\""}};
  op.infer = infer_einsum;
  op.parameter_slot = [](int) { return ParameterSlot::kWeight; };
  op.fan = einsum_fan;
  compose(op, write_einsum);
  return op;
}

}  // namespace

}  // namespace einsum

void register_einsum(OpRegistry& ops) { ops.add(einsum::einsum_op()); }

}  // namespace sardonyx::ops
