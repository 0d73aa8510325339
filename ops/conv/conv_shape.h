// Parts of the shape rules that Conv, its gradient operators and ConvTranspose share. Private to
// the room; C1.. are the constraints on the plate of conv.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/infer.h"

namespace sardonyx::ops::conv {

// C6
void require_float(const InferContext& c, int i);
// C3
int64_t checked_groups(const InferContext& c);
void require_groups(const InferContext& c, int64_t outputs, int64_t groups);
// w's sizes, from kernel_shape where w doesn't know them. C4
std::vector<int64_t> kernel_sizes(const InferContext& c, const TensorType& w);

std::vector<Dim> join(Dim first, Dim second, const std::vector<int64_t>& rest);

// Rows of x become rows of y; a filter that carries the batch would mix them.
BatchRole rows_unless(const Node& node, int filter);
ParameterSlot conv_slot(int slot);

OpDef conv_transpose_op();

}  // namespace sardonyx::ops::conv
