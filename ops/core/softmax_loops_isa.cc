// The copies of softmax_loops.h. A contiguous group is walked in pieces of 16 elements with one
// partial result per place, neighbouring groups with one result each: both become vectors.
#include "ops/core/softmax_loops.h"
#include "ops/core/vector_math_isa.h"

namespace sardonyx::ops::SARDONYX_ISA {

namespace {

constexpr int kPlaces = 16;

template <class T>
constexpr T kLowest = -static_cast<T>(__builtin_inf());

// result[place] = combine(result[place], i) over a contiguous group; the rest goes to the first
// places.
template <class T, class Body>
[[gnu::always_inline]] inline void pieces(int64_t length, Body body) {
  int64_t i = 0;
  for (; i + kPlaces <= length; i += kPlaces) {
#pragma GCC ivdep
    for (int place = 0; place < kPlaces; ++place) body(place, i + place);
  }
  for (int place = 0; i < length; ++i, ++place) body(place, i);
}

[[gnu::always_inline]] inline double total(const double* places) {
  double sum = 0;
  for (int place = 0; place < kPlaces; ++place) sum += places[place];
  return sum;
}

// Calls body(element, group) for all elements.
template <class Body>
[[gnu::always_inline]] inline void each(SoftmaxGroups g, Body body) {
  if (g.stride == 1) {
#pragma GCC ivdep
    for (int64_t c = 0; c < g.length; ++c) body(c, 0);
    return;
  }
  for (int64_t c = 0; c < g.length; ++c) {
#pragma GCC ivdep
    for (int64_t j = 0; j < g.columns; ++j) body(c * g.stride + j, j);
  }
}

// sum[j] of value(element, group)
template <class Value>
[[gnu::always_inline]] inline void sums(SoftmaxGroups g, double* sum, Value value) {
  if (g.stride == 1) {
    double places[kPlaces] = {};
    pieces<double>(g.length, [&](int place, int64_t c) { places[place] += value(c, 0); });
    sum[0] = total(places);
    return;
  }
  for (int64_t j = 0; j < g.columns; ++j) sum[j] = 0;
  each(g, [&](int64_t i, int64_t j) { sum[j] += value(i, j); });
}

template <class T>
void max_and_sum(SoftmaxGroups g, const T* x, T* max, double* sum) {
  if (g.stride == 1) {
    T places[kPlaces];
    for (int place = 0; place < kPlaces; ++place) places[place] = kLowest<T>;
    pieces<T>(g.length, [&](int place, int64_t c) {
      places[place] = x[c] > places[place] ? x[c] : places[place];
    });
    for (int place = 1; place < kPlaces; ++place) {
      places[0] = places[place] > places[0] ? places[place] : places[0];
    }
    max[0] = places[0];
  } else {
    for (int64_t j = 0; j < g.columns; ++j) max[j] = kLowest<T>;
    each(g, [&](int64_t i, int64_t j) { max[j] = x[i] > max[j] ? x[i] : max[j]; });
  }
  sums(g, sum, [&](int64_t i, int64_t j) { return static_cast<double>(exp_of(x[i] - max[j])); });
}

template <class T>
void exponentials(SoftmaxGroups g, const T* x, const T* shift, const T* scale, T* y) {
  each(g, [&](int64_t i, int64_t j) { y[i] = exp_of(x[i] - shift[j]) * scale[j]; });
}

template <class T>
void log_probabilities(SoftmaxGroups g, const T* x, const T* max, const T* log_sum, T* y) {
  each(g, [&](int64_t i, int64_t j) { y[i] = (x[i] - max[j]) - log_sum[j]; });
}

template <class T>
void softmax_gradient(SoftmaxGroups g, const T* y, const T* dy, T* dx) {
  double dot[kSoftmaxColumns];
  sums(g, dot, [&](int64_t i, int64_t) { return static_cast<double>(y[i]) * dy[i]; });
  each(g, [&](int64_t i, int64_t j) { dx[i] = y[i] * (dy[i] - static_cast<T>(dot[j])); });
}

template <class T>
void log_softmax_gradient(SoftmaxGroups g, const T* y, const T* dy, T* dx) {
  double sum[kSoftmaxColumns];
  sums(g, sum, [&](int64_t i, int64_t) { return static_cast<double>(dy[i]); });
  each(g, [&](int64_t i, int64_t j) { dx[i] = dy[i] - exp_of(y[i]) * static_cast<T>(sum[j]); });
}

template <class T>
constexpr SoftmaxLoops<T> kLoops = {max_and_sum<T>, exponentials<T>, log_probabilities<T>,
                                    softmax_gradient<T>, log_softmax_gradient<T>};

}  // namespace

template <class T>
const SoftmaxLoops<T>& softmax_loops() {
  return kLoops<T>;
}
template const SoftmaxLoops<float>& softmax_loops<float>();
template const SoftmaxLoops<double>& softmax_loops<double>();

}  // namespace sardonyx::ops::SARDONYX_ISA
