// Which operators commute with a permutation of axes, and how: what cancel_transposes knows about
// operators. A table beside OpDef, so that a pass compares no operator names.
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

// f(Transpose(x)) = Transpose(f'(x)), where f' is f with other attributes or constants.
enum class AxisUse : uint8_t {
  kNone,         // there is no such f'
  kElementwise,  // f' is f; all operands have the axes, short ones are broadcast
  kAxis,         // the attribute "axis" names one of them; all operands have the axes
  kReduction,    // input 1 lists them; input 0 has the axes
  kPads,         // input 1 lists two numbers for each of them; input 0 has the axes
};
AxisUse axis_use(const Node& node);

// Makes f' of a node other than kNone whose data operands are still transposed by `perm`, and
// infers its type. The operands are left to the caller. Returns what its output must be transposed
// by; empty: nothing. CHECK: commutes(node, perm).
Permutation undo_permutation(Node& node, const Permutation& perm);
// Whether attributes and constants allow that, too.
bool commutes(const Node& node);

}  // namespace sardonyx::ops
