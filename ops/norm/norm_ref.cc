// The loops in double, element by element: the oracle of the tests.
#include <cmath>

#include "ops/norm/norm_loops.h"

namespace sardonyx::ops::norm {

namespace {

template <class T>
double at(const T* x, int64_t i) {
  return static_cast<double>(x[i]);
}

template <class T>
void statistics(Spans s, Centring centring, double epsilon, const T* x, Statistics* result) {
  const int64_t n = s.params * s.span;
  double sum = 0, squares = 0;
  if (centring == Centring::kMean) {
    for (int64_t i = 0; i < n; ++i) sum += at(x, i);
  }
  const double mean = sum / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) squares += (at(x, i) - mean) * (at(x, i) - mean);
  *result = {mean, 1 / std::sqrt(squares / static_cast<double>(n) + epsilon)};
}

template <class T>
void forward(Spans s, const Statistics* of, const T* x, const T* scale, const T* bias, T* y) {
  for (int64_t i = 0; i < s.params * s.span; ++i) {
    const int64_t p = i / s.span;
    const double shift = bias == nullptr ? 0 : at(bias, p);
    y[i] = static_cast<T>((at(x, i) - of->mean) * of->inverse * at(scale, p) + shift);
  }
}

template <class T>
void sums(Spans s, const Statistics* of, const T* x, const T* scale, const T* dy, Sums* result) {
  *result = {};
  for (int64_t i = 0; i < s.params * s.span; ++i) {
    const double g = at(scale, i / s.span) * at(dy, i);
    result->plain += g;
    result->weighted += g * (at(x, i) - of->mean);
  }
}

template <class T>
void backward(Spans s, const Statistics* of, const Slopes* slopes, const T* x, const T* scale,
              const T* dy, T* dx) {
  for (int64_t i = 0; i < s.params * s.span; ++i) {
    const double g = of->inverse * at(scale, i / s.span) * at(dy, i);
    dx[i] = static_cast<T>(g - slopes->shift - slopes->slope * (at(x, i) - of->mean));
  }
}

template <class T>
void scale_sums(Spans s, const Statistics* of, int, const T* x, const T* dy, double* dscale) {
  for (int64_t i = 0; i < s.params * s.span; ++i) {
    dscale[i / s.span] += at(dy, i) * (at(x, i) - of->mean) * of->inverse;
  }
}

template <class T>
constexpr Loops<T> kReference = {statistics<T>, forward<T>, sums<T>, backward<T>, scale_sums<T>};

}  // namespace

template <class T>
const Loops<T>& reference_loops() {
  return kReference<T>;
}
template const Loops<float>& reference_loops<float>();
template const Loops<double>& reference_loops<double>();

}  // namespace sardonyx::ops::norm
