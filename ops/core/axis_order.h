// How operators commute with a permutation of axes, by OpDef::axes: what cancel_transposes knows
// about operators.
#pragma once

#include <optional>
#include <vector>

#include "ops/core/op.h"

namespace sardonyx::ops {

// y[i(perm[0]), i(perm[1]), ...] = x[i0, i1, ...], as Transpose writes it.
using Permutation = std::vector<int64_t>;

// Of a Transpose whose operand has a rank; nothing for any other node.
std::optional<Permutation> permutation_of(const Node& node);
bool is_identity(const Permutation& perm);
// y = b(a(x)) as one permutation of x.
Permutation followed_by(const Permutation& a, const Permutation& b);

// OpDef::axes; kNone of an unknown operator, and where an operand stands as opset 6 says.
AxisUse axis_use(const Node& node);

// Makes f' of a node other than kNone whose data operands are still transposed by `perm`, and
// infers its type. The operands are left to the caller. Returns what its output must be transposed
// by; empty: nothing. CHECK: commutes(node, perm).
Permutation undo_permutation(Node& node, const Permutation& perm);
// Whether attributes and constants allow that, too.
bool commutes(const Node& node);

}  // namespace sardonyx::ops
