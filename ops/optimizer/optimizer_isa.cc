// Vector loops of the update; optimizer_cpu.h picks a copy.
#include "ops/optimizer/optimizer.h"
#include "ops/optimizer/rounding_isa.h"

namespace sardonyx::ops::optimizer::SARDONYX_ISA {

namespace {

template <class T>
[[gnu::always_inline]] inline T clamp(T x, T most) {
  x = x > most ? most : x;
  return x < -most ? -most : x;
}

// --- SGD

enum class Momentum { kNone, kFirst, kNext, kFirstNesterov, kNextNesterov };

template <class T, Momentum kKind>
void sgd_loop(const SgdStep<T>& step, const T* w, const T* g, const T* m, int64_t n, T* w_next,
              T* m_next) {
  constexpr bool first = kKind == Momentum::kFirst || kKind == Momentum::kFirstNesterov;
  constexpr bool nesterov = kKind == Momentum::kFirstNesterov || kKind == Momentum::kNextNesterov;
  const SgdStep<T> s = step;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    T update = mul_add(s.weight_decay, w[i], clamp(g[i] * s.scale, s.clip));
    if constexpr (kKind != Momentum::kNone) {
      T velocity = update;
      if constexpr (!first) velocity = mul_add(s.fresh, update, s.momentum * m[i]);
      m_next[i] = velocity;
      update = nesterov ? mul_add(s.momentum, velocity, update) : velocity;
    }
    w_next[i] = mul_add(-s.lr, update, w[i]);
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

// --- Adam

// torch.lerp starts from the nearer end, so that a weight of 1 gives b exactly.
enum class NearEnd { kA, kB };

template <NearEnd kEnd, class T>
[[gnu::always_inline]] inline T lerp_one(T a, T b, T weight) {
  return kEnd == NearEnd::kA ? mul_add(weight, b - a, a) : mul_add(weight - T(1), b - a, b);
}

template <class T, NearEnd kEnd>
void adam_loop(const AdamStep<T>& step, const T* w, const T* g, const T* m, const T* v, int64_t n,
               T* w_next, T* m_next, T* v_next) {
  const AdamStep<T> s = step;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T update = mul_add(s.weight_decay, w[i], clamp(g[i] * s.scale, s.clip));
    const T first = lerp_one<kEnd>(m[i], update, s.fresh1);
    const T second = mul_add(s.fresh2 * update, update, s.beta2 * v[i]);
    const T divisor = root(second) / s.root_correction2 + s.eps;
    m_next[i] = first;
    v_next[i] = second;
    w_next[i] = s.kept * w[i] - s.step_size * first / divisor;
  }
}

template <class T>
void adam(const AdamStep<T>& step, const T* w, const T* g, const T* m, const T* v, int64_t n,
          T* w_next, T* m_next, T* v_next) {
  const auto loop = step.fresh1 < T(0.5) ? adam_loop<T, NearEnd::kA> : adam_loop<T, NearEnd::kB>;
  loop(step, w, g, m, v, n, w_next, m_next, v_next);
}

// --- The rest

template <class T, NearEnd kEnd>
void lerp_loop(const T* a, const T* b, T weight, int64_t n, T* y) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = lerp_one<kEnd>(a[i], b[i], weight);
}

template <class T>
void lerp(const T* a, const T* b, T weight, int64_t n, T* y) {
  const auto loop = weight < T(0.5) ? lerp_loop<T, NearEnd::kA> : lerp_loop<T, NearEnd::kB>;
  loop(a, b, weight, n, y);
}

template <class T>
double squared_norm(const T* x, int64_t n) {
  double places[kPlaces] = {};
  int64_t i = 0;
  for (; i + kPlaces <= n; i += kPlaces) {
    for (int place = 0; place < kPlaces; ++place) {
      const double value = x[i + place];
      places[place] = mul_add(value, value, places[place]);
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
constexpr Loops<T> kLoops = {sgd<T>, adam<T>, lerp<T>, squared_norm<T>, add<T>};

}  // namespace

template <class T>
const Loops<T>& loops() {
  return kLoops<T>;
}
template const Loops<float>& loops<float>();
template const Loops<double>& loops<double>();

}  // namespace sardonyx::ops::optimizer::SARDONYX_ISA
