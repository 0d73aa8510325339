// Plans have the parts of the operator, not the operator: there is nothing faster to add here.
#include "ops/causal_conv/causal_conv.h"
#include "ops/registry.h"

namespace sardonyx::ops {

void register_causal_conv_cpu(KernelRegistry& kernels) {
  kernels.add(composed_kernel("CausalConvWithState", "causal_conv.ref", write_causal_conv));
}

}  // namespace sardonyx::ops
