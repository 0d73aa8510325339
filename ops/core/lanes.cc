// Picks the copy of the lane kernels by the features of the processor. The copies themselves are
// made by CMake from the *_isa.cc files; only their tables are known here.
#include "ops/core/lanes.h"

#include "graph/support/error.h"

namespace sardonyx::ops::lanes {

namespace baseline {
template <typename T>
const LaneKernels<T>& table();
}
namespace avx2 {
template <typename T>
const LaneKernels<T>& table();
}
namespace avx512 {
template <typename T>
const LaneKernels<T>& table();
}

bool supported(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("fma");
  }
  return false;
}

const char* name(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return "baseline";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "unknown";
}

template <typename T>
const LaneKernels<T>& lane_kernels(Isa isa) {
  if (!supported(isa)) {
    throw Error(std::string("this processor has no ") + name(isa) +
                " instructions; choose another copy of the lane kernels");
  }
  switch (isa) {
    case Isa::kAvx512:
      return avx512::table<T>();
    case Isa::kAvx2:
      return avx2::table<T>();
    case Isa::kBaseline:
      break;
  }
  return baseline::table<T>();
}

template <typename T>
const LaneKernels<T>& lane_kernels() {
  static const LaneKernels<T>& best = lane_kernels<T>(supported(Isa::kAvx512) ? Isa::kAvx512
                                                      : supported(Isa::kAvx2) ? Isa::kAvx2
                                                                              : Isa::kBaseline);
  return best;
}

template const LaneKernels<float>& lane_kernels<float>();
template const LaneKernels<double>& lane_kernels<double>();
template const LaneKernels<float>& lane_kernels<float>(Isa);
template const LaneKernels<double>& lane_kernels<double>(Isa);

}  // namespace sardonyx::ops::lanes
