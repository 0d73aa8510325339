// Plans have the parts of the operator, not the operator: there is nothing faster to add here.
#include "ops/linear_attention/linear_attention.h"
#include "ops/registry.h"

namespace sardonyx::ops {

void register_linear_attention_cpu(KernelRegistry& kernels) {
  kernels.add(composed_kernel("LinearAttention", "linear_attention.ref", write_linear_attention));
}

}  // namespace sardonyx::ops
