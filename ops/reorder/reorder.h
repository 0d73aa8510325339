// The move between plain and channels last, for the kernels of every device. Private to the room.
#pragma once

#include "ops/core/strided.h"

namespace sardonyx::ops {

// Whether each of x and y lies plain or with channels last.
bool is_order_change(const KernelRequest& request);
StridedBox order_box(const KernelRequest& request);

}  // namespace sardonyx::ops
