// Whether an operator may mix what stands along one axis: what the proof behind --set-batch knows
// about operators (passes/baked_batch.h, R4). OpDef::batch says it of axis 0 only,
// OpDef::keeps_rows_apart of all.
#pragma once

#include <vector>

#include "ops/core/op.h"

namespace sardonyx::ops {

// True: slice i of the outputs along the rows depends on slice i of the inputs only. `axes`: for
// each input the axis along which its rows stand, -1 where it has none. Not for views, which move
// no element. False also where it isn't known.
bool keeps_rows_apart(Node& node, const std::vector<int>& axes);

// Of every input that has rows.
bool rows_stand_along(int axis, const std::vector<int>& axes);

// OpDef::batch of output `slot` where axis 0 of the inputs (those with `axes` 0) and of the
// outputs is the batch.
BatchRole role_in_front(Node& node, const std::vector<int>& axes, int slot);

}  // namespace sardonyx::ops
