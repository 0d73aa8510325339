// The loops under softmax and cross-entropy: maximum, sum of exponentials and friends along an
// axis.
//
// A loop works on `columns` neighbouring groups at once: element c of group j is x[c * stride + j],
// c < length. stride 1 means one group (columns = 1), contiguous. Sums are kept in double. NaN in a
// group makes its results NaN.
#pragma once

#include <cstdint>

#include "ops/core/isa.h"

namespace sardonyx::ops {

// Groups per call; callers keep a number per group on the stack.
inline constexpr int64_t kSoftmaxColumns = 64;

struct SoftmaxGroups {
  int64_t length, stride, columns;
};

template <class T>
struct SoftmaxLoops {
  // max[j] over the group (NaN passed over), sum[j] of exp(x - max[j]).
  void (*max_and_sum)(SoftmaxGroups g, const T* x, T* max, double* sum);
  // y = exp(x - shift[j]) * scale[j]
  void (*exponentials)(SoftmaxGroups g, const T* x, const T* shift, const T* scale, T* y);
  // y = (x - max[j]) - log_sum[j]
  void (*log_probabilities)(SoftmaxGroups g, const T* x, const T* max, const T* log_sum, T* y);
  // dx = y (dy - sum of y dy), where y is the softmax
  void (*softmax_gradient)(SoftmaxGroups g, const T* y, const T* dy, T* dx);
  // dx = dy - exp(y) sum of dy, where y is the log-softmax
  void (*log_softmax_gradient)(SoftmaxGroups g, const T* y, const T* dy, T* dx);
};

// The copies of softmax_loops_isa.cc.
namespace baseline {
template <class T>
const SoftmaxLoops<T>& softmax_loops();
}
namespace avx2 {
template <class T>
const SoftmaxLoops<T>& softmax_loops();
}
namespace avx512 {
template <class T>
const SoftmaxLoops<T>& softmax_loops();
}

// The copy for this processor (float, double).
template <class T>
const SoftmaxLoops<T>& softmax_loops() {
  static const SoftmaxLoops<T>& best =
      best_copy(baseline::softmax_loops<T>(), avx2::softmax_loops<T>(), avx512::softmax_loops<T>());
  return best;
}

}  // namespace sardonyx::ops
