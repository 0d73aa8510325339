// Vector loops of Dropout; dropout_cpu.cc picks a copy.
#include "ops/dropout/dropout.h"

namespace sardonyx::ops::dropout::SARDONYX_ISA {

namespace {

template <class T>
void drop(const uint32_t* bits, uint32_t threshold, const T* x, T scale, int64_t n, T* y,
          uint8_t* mask) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) mask[i] = bits[i] >= threshold ? 1 : 0;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = bits[i] >= threshold ? x[i] * scale : T(0);
}

template <class T>
void gradient(const T* dy, const uint8_t* mask, T scale, int64_t n, T* dx) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) dx[i] = mask[i] ? dy[i] * scale : T(0);
}

template <class T>
constexpr Loops<T> kLoops = {drop<T>, gradient<T>};

}  // namespace

template <class T>
const Loops<T>& loops() {
  return kLoops<T>;
}
template const Loops<float>& loops<float>();
template const Loops<double>& loops<double>();

}  // namespace sardonyx::ops::dropout::SARDONYX_ISA
