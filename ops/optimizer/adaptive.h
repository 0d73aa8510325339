// The loops of adaptive_isa.cc, compiled once per instruction set, and the rules they follow.
// Private to ops/optimizer. Every loop may write in place of the operand that its result is the
// next value of.
#pragma once

#include <cstdint>

#include "ops/core/op.h"
#include "ops/optimizer/rules.h"

namespace sardonyx::ops::optimizer {

void register_adaptive(OpRegistry& ops);

inline constexpr int kFirstSlot = 4;  // behind w, g, lr, scale: the input that output 1 is next of

// The attributes of an update, with the defaults of its operator.
struct StepNumbers {
  double lr_factor = 1, clip_value = 0, weight_decay = 0;
  double momentum = 0, beta1 = 0, beta2 = 0;  // beta2: alpha of RMSprop
  double eps = 0, trust = 0;
  int step_input = -1;  // -1: it isn't read
};
StepNumbers step_numbers(const Node& node);

// The operands of n elements; slots[i] and slots_next[i] are nullptr past those of the rule.
template <class T>
struct Operands {
  const T *w = nullptr, *g = nullptr;
  const T* slots[kMostSlots] = {};
  T* w_next = nullptr;
  T* slots_next[kMostSlots] = {};

  Operands from(int64_t begin) const {
    Operands o = *this;
    o.w += begin;
    o.g += begin;
    o.w_next += begin;
    for (int i = 0; i < kMostSlots; ++i) {
      if (o.slots[i] == nullptr) continue;
      o.slots[i] += begin;
      o.slots_next[i] += begin;
    }
    return o;
  }
};

template <class T>
using UpdateLoop = void (*)(const Numbers<T>& numbers, const Operands<T>& operands, int64_t n);
// Adds the squares of w and of what the rule measures to sums[0] and sums[1].
template <class T>
using MeasureLoop = void (*)(const Numbers<T>& numbers, const Operands<T>& operands, int64_t n,
                             double* sums);

template <class T>
struct AdaptiveLoops {
  UpdateLoop<T> adagrad;
  UpdateLoop<T> rms_prop[2][2];  // by centered, momentum
  UpdateLoop<T> lion;
  MeasureLoop<T> lamb_measure;
  UpdateLoop<T> lamb;
  MeasureLoop<T> lars_measure;
  UpdateLoop<T> lars[2];  // by momentum
};

namespace baseline {
template <class T>
const AdaptiveLoops<T>& adaptive_loops();
}
namespace avx2 {
template <class T>
const AdaptiveLoops<T>& adaptive_loops();
}
namespace avx512 {
template <class T>
const AdaptiveLoops<T>& adaptive_loops();
}

}  // namespace sardonyx::ops::optimizer
