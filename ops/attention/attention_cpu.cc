// Plans have the parts of these operators, not the operators: there is nothing faster to add here.
#include "ops/attention/attention.h"
#include "ops/registry.h"

namespace sardonyx::ops {

void register_attention_cpu(KernelRegistry& kernels) {
  kernels.add(composed_kernel("Attention", "attention.ref", attention::write_attention));
  kernels.add(composed_kernel("RotaryEmbedding", "rotary.ref", attention::write_rotary));
}

}  // namespace sardonyx::ops
