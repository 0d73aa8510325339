// Which copy of a *_isa.cc file this processor should run (tools/cmake/layers.cmake makes them).
#pragma once

#include "ops/core/lanes.h"

namespace sardonyx::ops {

// The widest of the copies that the processor supports.
template <class T>
const T& best_copy(const T& baseline, const T& avx2, const T& avx512) {
  if (lanes::supported(lanes::Isa::kAvx512)) return avx512;
  return lanes::supported(lanes::Isa::kAvx2) ? avx2 : baseline;
}

}  // namespace sardonyx::ops
