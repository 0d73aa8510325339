// Where gradients get through, said once: differentiation walks by it, and the reports of what is
// trained and of what stands in the way count by it.
#pragma once

#include "ops/core/op.h"

namespace sardonyx::ops {

// The port that input `input` of a node belongs to: the last one takes what is variadic. nullptr:
// the operator has no inputs.
const Port* port_of(const OpDef& op, int input);

// Whether a gradient may come from the node's outputs to this input. Not to integers or from them,
// not where the operator's gradient is zero by nature, not to an input that its port excludes.
// Operators that have no gradient let it through, and so do unknown ones: that one is asked for
// there is a mistake to report, not the end of the path. A type that isn't known yet may be a
// float.
bool gradient_flows(const Node& node, int input);

}  // namespace sardonyx::ops
