// Steps that add to what their output holds, whether or not the kernel can do so itself.
#pragma once

#include "passes/plan.h"

namespace sardonyx::passes {

// Makes `step` add the outputs marked in `adds` to what they hold: through CpuContext::accumulate
// where the kernel honours it (one output), else by a wrapper that runs the kernel into scratch
// memory (workspace) and adds, per step, while the result is still in cache. Other outputs (rows
// beside a sum, like the log-probabilities of a loss) are overwritten.
void make_accumulating(Step& step, const std::vector<bool>& adds);

}  // namespace sardonyx::passes
