// The loops of the room, compiled once per instruction set (optimizer_isa.cc). Private to
// ops/optimizer.
#pragma once

#include <cstdint>

namespace sardonyx::ops::optimizer {

// The numbers of one SGD step, in the type of the parameters.
template <class T>
struct SgdStep {
  T lr, scale, weight_decay, momentum;
  T fresh;        // factor of the gradient in the momentum: 1 - dampening, or 1 in the first step
  bool nesterov;  // only with momentum
};

template <class T>
struct Loops {
  // m and m_next are nullptr without momentum; m alone is nullptr in the first step. w_next may be
  // w, m_next may be m.
  void (*sgd)(const SgdStep<T>& step, const T* w, const T* g, const T* m, int64_t n, T* w_next,
              T* m_next);
  double (*squared_norm)(const T* x, int64_t n);
  // y = a + b; y may be a.
  void (*add)(const T* a, const T* b, int64_t n, T* y);
};

namespace baseline {
template <class T>
const Loops<T>& loops();
}
namespace avx2 {
template <class T>
const Loops<T>& loops();
}
namespace avx512 {
template <class T>
const Loops<T>& loops();
}

}  // namespace sardonyx::ops::optimizer
