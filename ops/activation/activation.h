// The loops of the room: y[i] = f(a[i], b[i]; p, q). Private to ops/activation.
#pragma once

#include <cstdint>

namespace sardonyx::ops::activation {

enum class Loop : uint8_t {
  kRelu,           // a = x
  kSigmoid,        // a = x
  kTanh,           // a = x
  kLeakyRelu,      // a = x, p = alpha
  kElu,            // a = x, p = alpha
  kSoftplus,       // a = x
  kClip,           // a = x, p = min, q = max
  kReluGrad,       // a = y, b = dy
  kSigmoidGrad,    // a = y, b = dy
  kTanhGrad,       // a = y, b = dy
  kLeakyReluGrad,  // a = x (or y, which has the sign of x), b = dy, p = alpha
  kEluGrad,        // a = x, b = dy, p = alpha
  kClipGrad,       // a = x, b = dy, p = min, q = max
  kCount,
};

// `y` may be `a` or `b`.
template <class T>
using LoopFunction = void (*)(const T* a, const T* b, T* y, int64_t n, T p, T q);

template <class T>
struct Loops {
  LoopFunction<T> of[static_cast<int>(Loop::kCount)];
};

// The copies of activation_isa.cc.
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

}  // namespace sardonyx::ops::activation
