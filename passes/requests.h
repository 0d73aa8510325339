// Kernel requests of nodes inside regions: the batch axis is the block, and an accumulate input is
// left out.
#pragma once

#include "ops/core/kernel.h"
#include "passes/pass.h"

namespace sardonyx::passes {

// `rows` replaces axis 0 of every operand that carries the batch; 0: the whole batch as typed.
ops::KernelRequest request_for(const graph::Graph& graph, const graph::Node& node, int64_t rows);
// The request as kernels of the target are chosen and made with it: its libraries, the precision.
ops::KernelRequest on_target(ops::KernelRequest request, const PassContext& context);
// The layout, beside the plain one, that values of a device may have while a plan runs: lanes of 16
// images on the CPU, channels last on CUDA.
enum class InnerLayout : uint8_t { kLanes, kChannelsLast };
// Whether a value may: it carries the batch, and has channels with axes behind them.
bool may_lie(const graph::Graph& graph, const graph::Value* value, InnerLayout inner);
graph::Layout layout_of(InnerLayout inner, int rank);
// The request with every operand in that layout that may lie so, whatever its element type.
ops::KernelRequest request_in(const graph::Graph& graph, const graph::Node& node, int64_t rows,
                              InnerLayout inner);
// The type of `value` with `rows` on its batch axis (when it has one and rows > 0).
graph::TensorType type_for(const graph::Graph& graph, const graph::Value& value, int64_t rows);
// Input slot whose bytes output 0 is added to; -1 when the node doesn't accumulate.
int accumulate_slot(const graph::Node& node);

}  // namespace sardonyx::passes
