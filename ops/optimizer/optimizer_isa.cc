// Vector loops of the update; optimizer_cpu.cc picks a copy.
#include "ops/optimizer/optimizer.h"

namespace sardonyx::ops::optimizer::SARDONYX_ISA {

namespace {

constexpr int kPlaces = 16;

enum class Momentum { kNone, kFirst, kNext, kFirstNesterov, kNextNesterov };

template <class T, Momentum kKind>
void sgd_loop(const SgdStep<T>& step, const T* w, const T* g, const T* m, int64_t n, T* w_next,
              T* m_next) {
  constexpr bool first = kKind == Momentum::kFirst || kKind == Momentum::kFirstNesterov;
  constexpr bool nesterov = kKind == Momentum::kFirstNesterov || kKind == Momentum::kNextNesterov;
  const SgdStep<T> s = step;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    T update = g[i] * s.scale + s.weight_decay * w[i];
    if constexpr (kKind != Momentum::kNone) {
      T velocity = update;
      if constexpr (!first) velocity = s.momentum * m[i] + s.fresh * update;
      m_next[i] = velocity;
      update = nesterov ? update + s.momentum * velocity : velocity;
    }
    w_next[i] = w[i] - s.lr * update;
  }
}

template <class T>
void sgd(const SgdStep<T>& step, const T* w, const T* g, const T* m, int64_t n, T* w_next,
         T* m_next) {
  if (m_next == nullptr) {
    sgd_loop<T, Momentum::kNone>(step, w, g, m, n, w_next, m_next);
  } else if (m == nullptr) {
    step.nesterov ? sgd_loop<T, Momentum::kFirstNesterov>(step, w, g, m, n, w_next, m_next)
                  : sgd_loop<T, Momentum::kFirst>(step, w, g, m, n, w_next, m_next);
  } else {
    step.nesterov ? sgd_loop<T, Momentum::kNextNesterov>(step, w, g, m, n, w_next, m_next)
                  : sgd_loop<T, Momentum::kNext>(step, w, g, m, n, w_next, m_next);
  }
}

template <class T>
double squared_norm(const T* x, int64_t n) {
  double places[kPlaces] = {};
  int64_t i = 0;
  for (; i + kPlaces <= n; i += kPlaces) {
    for (int place = 0; place < kPlaces; ++place) {
      const double value = x[i + place];
      places[place] += value * value;
    }
  }
  for (int place = 0; i < n; ++i, ++place) places[place] += static_cast<double>(x[i]) * x[i];
  double sum = 0;
  for (double part : places) sum += part;
  return sum;
}

template <class T>
void add(const T* a, const T* b, int64_t n, T* y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

template <class T>
constexpr Loops<T> kLoops = {sgd<T>, squared_norm<T>, add<T>};

}  // namespace

template <class T>
const Loops<T>& loops() {
  return kLoops<T>;
}
template const Loops<float>& loops<float>();
template const Loops<double>& loops<double>();

}  // namespace sardonyx::ops::optimizer::SARDONYX_ISA
