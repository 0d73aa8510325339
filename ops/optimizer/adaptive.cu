// The updates of rules.h that need nothing beside the element, rounded as adaptive_isa.cc rounds
// them.
#include <cmath>

#include "ops/core/cuda.cuh"
#include "ops/optimizer/optimizer_cuda.h"
#include "ops/optimizer/rules.h"

namespace sardonyx::ops::optimizer {

namespace {

using cuda::for_elements;
using cuda::grid_over;

struct Rounding {
  template <class T>
  HOST_DEVICE static inline T root(T x) {
    return std::sqrt(x);
  }
  template <class T>
  HOST_DEVICE static inline T fma(T x, T y, T z) {
    return std::fma(x, y, z);
  }
};

template <class T>
__device__ inline Numbers<T> numbers_of(const AdaptiveOperands& o) {
  const double lr = *o.update.lr * o.update.lr_factor;
  Numbers<T> n;
  n.lr = static_cast<T>(lr);
  n.scale = *static_cast<const T*>(o.update.scale);
  n.clip = static_cast<T>(o.update.clip);
  n.weight_decay = static_cast<T>(o.update.weight_decay);
  n.kept = static_cast<T>(1 - lr * o.update.weight_decay);
  n.momentum = static_cast<T>(o.momentum);
  n.beta1 = static_cast<T>(o.beta1);
  n.fresh1 = static_cast<T>(1 - o.beta1);
  n.beta2 = static_cast<T>(o.beta2);
  n.fresh2 = static_cast<T>(1 - o.beta2);
  n.eps = static_cast<T>(o.eps);
  return n;
}

// Where a step is skipped, every value is its own next one.
template <class T, class Rule>
__global__ void adaptive_kernel(int64_t n, AdaptiveOperands o) {
  const Numbers<T> numbers = numbers_of<T>(o);
  const bool skipped = numbers.scale != numbers.scale;
  for_elements(n, [&](int64_t i) {
    T slot[kMostSlots] = {};
    T w = static_cast<const T*>(o.update.w)[i];
    for (int k = 0; k < Rule::kSlots; ++k) slot[k] = static_cast<const T*>(o.slots[k])[i];
    if (!skipped) {
      w = Rule::template next<Rounding>(numbers, w, static_cast<const T*>(o.update.g)[i], slot);
    }
    for (int k = 0; k < Rule::kSlots; ++k) static_cast<T*>(o.slots_next[k])[i] = slot[k];
    static_cast<T*>(o.w_next)[i] = w;
  });
}

template <class Rule>
void launch_rule(cuda::Stream stream, graph::DType dtype, int64_t n,
                 const AdaptiveOperands& operands) {
  if (n == 0) return;
  cuda::dispatch_float(dtype, [&]<class T>() {
    LAUNCH((adaptive_kernel<T, Rule>), grid_over(n), stream, n, operands);
  });
}

}  // namespace

void launch_adagrad(cuda::Stream stream, graph::DType dtype, int64_t n,
                    const AdaptiveOperands& operands) {
  launch_rule<Adagrad>(stream, dtype, n, operands);
}

void launch_rms_prop(cuda::Stream stream, graph::DType dtype, int64_t n,
                     const AdaptiveOperands& operands, RmsPropSlots slots) {
  switch (slots) {
    case RmsPropSlots::kSquares:
      return launch_rule<RmsProp<false, false>>(stream, dtype, n, operands);
    case RmsPropSlots::kMomentum:
      return launch_rule<RmsProp<false, true>>(stream, dtype, n, operands);
    case RmsPropSlots::kMean:
      return launch_rule<RmsProp<true, false>>(stream, dtype, n, operands);
    case RmsPropSlots::kMeanMomentum:
      return launch_rule<RmsProp<true, true>>(stream, dtype, n, operands);
  }
}

void launch_lion(cuda::Stream stream, graph::DType dtype, int64_t n,
                 const AdaptiveOperands& operands) {
  launch_rule<Lion>(stream, dtype, n, operands);
}

}  // namespace sardonyx::ops::optimizer
