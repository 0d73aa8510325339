#include "ops/core/axis_order.h"

#include <algorithm>
#include <numeric>

#include "graph/support/error.h"
#include "ops/core/broadcast.h"
#include "ops/core/infer.h"
#include "ops/core/op_builder.h"

namespace sardonyx::ops {

namespace {

// Those of a reduction, by the axes of its operand as it is now.
std::vector<int64_t> reduced(const Node& node) {
  const auto rank = static_cast<int64_t>(node.input(0)->type.rank());
  std::vector<int64_t> axes;
  if (node.input(1) != nullptr) axes = node.input(1)->data.to_ints();
  if (axes.empty() && node.get_int("noop_with_empty_axes", 0) == 0) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
  return axes;
}

Permutation undo_reduction(Node& node, const Permutation& perm, const std::vector<int64_t>& axes) {
  std::vector<int64_t> own;
  for (int64_t axis : axes) own.push_back(perm[axis]);
  std::sort(own.begin(), own.end());
  if (!axes.empty()) {
    node.graph()->set_input(&node, 1, OpBuilder(*node.graph(), &node).ints(own));
  }
  if (node.get_int("keepdims", 1) != 0) return perm;
  // What is left of the axes, counted anew.
  Permutation left;
  for (int64_t i = 0; i < std::ssize(perm); ++i) {
    if (std::ranges::find(axes, i) != axes.end()) continue;
    left.push_back(perm[i] - std::ranges::count_if(own, [&](int64_t a) { return a < perm[i]; }));
  }
  return left;
}

void undo_pads(Node& node, const Permutation& perm) {
  const std::vector<int64_t> pads = node.input(1)->data.to_ints();
  const size_t rank = perm.size();
  std::vector<int64_t> own(2 * rank, 0), axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (node.input(3) != nullptr) axes = node.input(3)->data.to_ints();
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = perm[axes[i] + (axes[i] < 0 ? static_cast<int64_t>(rank) : 0)];
    own[axis] = pads[i];
    own[axis + rank] = pads[i + axes.size()];
  }
  node.graph()->set_input(&node, 1, OpBuilder(*node.graph(), &node).ints(own));
  if (node.input(3) != nullptr) node.graph()->drop_trailing_inputs(&node, 3);
}

bool is_constant(const Value* value) { return value == nullptr || value->is_constant(); }

}  // namespace

std::optional<Permutation> permutation_of(const Node& node) {
  if (!node.is("", "Transpose") || !node.input(0)->type.ranked) return std::nullopt;
  const int rank = node.input(0)->type.rank();
  Permutation perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  if (node.get_int("swap_last", 0) != 0 && rank >= 2) {
    std::swap(perm[rank - 1], perm[rank - 2]);
    return perm;
  }
  std::reverse(perm.begin(), perm.end());
  return node.get_ints("perm", perm);
}

bool is_identity(const Permutation& perm) { return std::is_sorted(perm.begin(), perm.end()); }

Permutation followed_by(const Permutation& a, const Permutation& b) {
  Permutation both;
  for (int64_t axis : b) both.push_back(a[axis]);
  return both;
}

AxisUse axis_use(const Node& node) {
  const OpDef* op = OpRegistry::get().find(node);
  return op == nullptr || node.has(kLegacyAxis) ? AxisUse::kNone : op->axes;
}

bool commutes(const Node& node) {
  const AxisUse use = axis_use(node);
  if (use == AxisUse::kReduction) return is_constant(node.input(1));
  if (use == AxisUse::kPads) return is_constant(node.input(1)) && is_constant(node.input(3));
  return use != AxisUse::kNone;
}

Permutation undo_permutation(Node& node, const Permutation& perm) {
  CHECK(commutes(node));
  Permutation left = perm;
  const AxisUse use = axis_use(node);
  if (use == AxisUse::kReduction) {
    left = undo_reduction(node, perm, reduced(node));
  } else if (use == AxisUse::kPads) {
    undo_pads(node, perm);
  } else if (use == AxisUse::kAxis) {
    const int64_t axis = node.get_int("axis", 0);
    node.attributes["axis"] = perm[axis + (axis < 0 ? std::ssize(perm) : 0)];
  }
  return is_identity(left) ? Permutation() : left;
}

}  // namespace sardonyx::ops
