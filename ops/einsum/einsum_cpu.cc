// Plans have the parts of Einsum, not the operator: there is nothing faster to add here.
#include "ops/einsum/einsum.h"
#include "ops/registry.h"

namespace sardonyx::ops {

void register_einsum_cpu(KernelRegistry& kernels) {
  kernels.add(composed_kernel("Einsum", "einsum.ref", einsum::write_einsum));
}

}  // namespace sardonyx::ops
