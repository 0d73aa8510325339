// What the kernels of the room share; private to it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "ops/core/isa.h"
#include "ops/core/kernel.h"
#include "ops/optimizer/optimizer.h"

namespace sardonyx::ops::optimizer {

// The copy for this processor.
template <class T>
const Loops<T>& best_loops() {
  static const Loops<T>& best =
      best_copy(baseline::loops<T>(), avx2::loops<T>(), avx512::loops<T>());
  return best;
}

// optimizer.ref or optimizer.vector, by its speed.
KernelDef make_kernel(const char* op, Speed speed, std::vector<std::pair<int, int>> in_place,
                      std::function<std::unique_ptr<Kernel>(const KernelRequest&)> create);

// adaptive_cpu.cc
void register_adaptive_cpu(KernelRegistry& kernels);
// gradients_cpu.cc
void register_gradients_cpu(KernelRegistry& kernels);

}  // namespace sardonyx::ops::optimizer
