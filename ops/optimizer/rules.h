// The updates of adaptive.cc for one element, written once: in double the reference, in float and
// double the loops of the CPU (adaptive_isa.cc) and the kernels of CUDA (adaptive.cu).
//
// M says how products and sums are rounded; its type must be local to the file that names it, or
// the linker mixes the copies of adaptive_isa.cc. A rule replaces slots by their next values and
// returns w'. Private to ops/optimizer.
#pragma once

#include "ops/core/host_device.h"

namespace sardonyx::ops::optimizer {

inline constexpr int kMostSlots = 3;

// The numbers of one step; a rule reads those of its formula.
template <class T>
struct Numbers {
  T lr = 0, scale = 1;
  T clip = 0;  // largest element of the scaled gradient; infinity: no clipping
  T weight_decay = 0;
  T kept = 1;  // 1 - lr * weight_decay
  T momentum = 0;
  T beta1 = 0, fresh1 = 1, beta2 = 0, fresh2 = 1;  // fresh: 1 - beta
  T correction1 = 1, correction2 = 1;              // 1 - beta^t
  T eps = 0;
};

template <class T>
HOST_DEVICE inline T clipped_gradient(const Numbers<T>& s, T g) {
  T u = g * s.scale;
  u = u > s.clip ? s.clip : u;
  return u < -s.clip ? -s.clip : u;
}

struct Adagrad {
  static constexpr int kSlots = 1;
  template <class M, class T>
  HOST_DEVICE static inline T next(const Numbers<T>& s, T w, T g, T* slot) {
    const T u = M::fma(s.weight_decay, w, clipped_gradient(s, g));
    slot[0] = M::fma(u, u, slot[0]);
    return w + -s.lr * u / (M::root(slot[0]) + s.eps);
  }
};

// Slots: v, then the mean of gradients if kCentered, then the velocity if kMomentum.
template <bool kCentered, bool kMomentum>
struct RmsProp {
  static constexpr int kSlots = 1 + (kCentered ? 1 : 0) + (kMomentum ? 1 : 0);
  template <class M, class T>
  HOST_DEVICE static inline T next(const Numbers<T>& s, T w, T g, T* slot) {
    const T u = M::fma(s.weight_decay, w, clipped_gradient(s, g));
    slot[0] = M::fma(s.fresh2 * u, u, s.beta2 * slot[0]);
    T square = slot[0];
    if constexpr (kCentered) {
      // torch.lerp: from the nearer end.
      const T near_mean = M::fma(s.fresh2, u - slot[1], slot[1]);
      const T near_u = M::fma(s.fresh2 - T(1), u - slot[1], u);
      slot[1] = s.fresh2 < T(0.5) ? near_mean : near_u;
      square = M::fma(-slot[1], slot[1], square);
      square = square < T(0) ? T(0) : square;  // by rounding only
    }
    const T divisor = M::root(square) + s.eps;
    if constexpr (kMomentum) {
      T& velocity = slot[kSlots - 1];
      velocity = s.momentum * velocity + u / divisor;
      return M::fma(-s.lr, velocity, w);
    }
    return w + -s.lr * u / divisor;
  }
};

struct Lion {
  static constexpr int kSlots = 1;
  template <class M, class T>
  HOST_DEVICE static inline T next(const Numbers<T>& s, T w, T g, T* slot) {
    const T u = clipped_gradient(s, g);
    const T direction = s.beta1 * slot[0] + s.fresh1 * u;
    slot[0] = M::fma(s.fresh2, u, s.beta2 * slot[0]);
    const T sign = direction > T(0) ? T(1) : direction < T(0) ? T(-1) : T(0) * direction;
    return s.kept * w - s.lr * sign;
  }
};

// The two below move by lr times a ratio of norms over the whole tensor. `measured` is the value
// whose norm is compared with that of w, and sets what `next` reads again; lr holds the ratio then.
struct Lamb {
  static constexpr int kSlots = 2;
  template <class M, class T>
  HOST_DEVICE static inline T direction(const Numbers<T>& s, T w, const T* slot) {
    const T divisor = M::root(slot[1] / s.correction2) + s.eps;
    return M::fma(s.weight_decay, w, slot[0] / s.correction1 / divisor);
  }
  template <class M, class T>
  HOST_DEVICE static inline T measured(const Numbers<T>& s, T w, T g, T* slot) {
    const T u = clipped_gradient(s, g);
    slot[0] = M::fma(s.fresh1, u, s.beta1 * slot[0]);
    slot[1] = M::fma(s.fresh2 * u, u, s.beta2 * slot[1]);
    return direction<M>(s, w, slot);
  }
  template <class M, class T>
  HOST_DEVICE static inline T next(const Numbers<T>& s, T w, T, T* slot) {
    return M::fma(-s.lr, direction<M>(s, w, slot), w);
  }
};

template <bool kMomentum>
struct Lars {
  static constexpr int kSlots = kMomentum ? 1 : 0;
  template <class M, class T>
  HOST_DEVICE static inline T measured(const Numbers<T>& s, T, T g, T*) {
    return clipped_gradient(s, g);
  }
  template <class M, class T>
  HOST_DEVICE static inline T next(const Numbers<T>& s, T w, T g, T* slot) {
    const T u = M::fma(s.weight_decay, w, clipped_gradient(s, g));
    if constexpr (kMomentum) {
      slot[0] = M::fma(s.lr, u, s.momentum * slot[0]);
      return w - slot[0];
    }
    return M::fma(-s.lr, u, w);
  }
};

}  // namespace sardonyx::ops::optimizer
