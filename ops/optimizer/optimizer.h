// The loops of the room, compiled once per instruction set (optimizer_isa.cc). Private to
// ops/optimizer. Every loop may write in place of the operand that its result is the next value of.
#pragma once

#include <cstdint>

namespace sardonyx::ops::optimizer {

// The numbers of one SGD step, in the type of the parameters.
template <class T>
struct SgdStep {
  T lr, scale;
  T clip;  // largest element of the scaled gradient; infinity: no clipping
  T weight_decay, momentum;
  T fresh;        // factor of the gradient in the momentum: 1 - dampening, or 1 in the first step
  bool nesterov;  // only with momentum
};

// The numbers of one step of Adam and AdamW.
template <class T>
struct AdamStep {
  T scale, clip;       // as above
  T weight_decay;      // of w, added to the gradient (Adam; else 0)
  T kept;              // factor of w before the update (AdamW; else 1)
  T fresh1;            // 1 - beta1
  T beta2, fresh2;     // fresh2: 1 - beta2
  T root_correction2;  // sqrt(1 - beta2^t)
  T eps;
  T step_size;  // lr / (1 - beta1^t)
};

template <class T>
struct Loops {
  // m and m_next are nullptr without momentum; m alone is nullptr in the first step.
  void (*sgd)(const SgdStep<T>& step, const T* w, const T* g, const T* m, int64_t n, T* w_next,
              T* m_next);
  void (*adam)(const AdamStep<T>& step, const T* w, const T* g, const T* m, const T* v, int64_t n,
               T* w_next, T* m_next, T* v_next);
  // y = a + weight * (b - a), rounded as torch.lerp does it.
  void (*lerp)(const T* a, const T* b, T weight, int64_t n, T* y);
  double (*squared_norm)(const T* x, int64_t n);
  // y = a + b
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
