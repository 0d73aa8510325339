// The loops of the room, compiled once per instruction set (dropout_isa.cc). Private to
// ops/dropout. Masks are bytes here: padding lanes may hold what no bool can.
#pragma once

#include <cstdint>

namespace sardonyx::ops::dropout {

template <class T>
struct Loops {
  // mask = bits >= threshold; y = mask ? x * scale : 0. y may be x.
  void (*drop)(const uint32_t* bits, uint32_t threshold, const T* x, T scale, int64_t n, T* y,
               uint8_t* mask);
  // dx = mask ? dy * scale : 0. dx may be dy.
  void (*gradient)(const T* dy, const uint8_t* mask, T scale, int64_t n, T* dx);
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

}  // namespace sardonyx::ops::dropout
