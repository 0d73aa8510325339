// Vector loops of the updates in rules.h; adaptive_cpu.cc picks a copy.
#include "ops/optimizer/adaptive.h"
#include "ops/optimizer/rounding_isa.h"

namespace sardonyx::ops::optimizer::SARDONYX_ISA {

namespace {

struct Rounding {
  template <class T>
  [[gnu::always_inline]] static T root(T x) {
    return SARDONYX_ISA::root(x);
  }
  template <class T>
  [[gnu::always_inline]] static T fma(T x, T y, T z) {
    return mul_add(x, y, z);
  }
};

template <class T, class Rule>
void update(const Numbers<T>& numbers, const Operands<T>& operands, int64_t n) {
  const Numbers<T> s = numbers;
  const Operands<T> o = operands;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    T slot[kMostSlots] = {};
    for (int k = 0; k < Rule::kSlots; ++k) slot[k] = o.slots[k][i];
    const T next = Rule::template next<Rounding>(s, o.w[i], o.g[i], slot);
    for (int k = 0; k < Rule::kSlots; ++k) o.slots_next[k][i] = slot[k];
    o.w_next[i] = next;
  }
}

// What the rule measures goes into `places` sums, so that neighbours are added side by side.
template <class T, class Rule>
void measure(const Numbers<T>& numbers, const Operands<T>& operands, int64_t n, double* sums) {
  const Numbers<T> s = numbers;
  const Operands<T> o = operands;
  double of_w[kPlaces] = {}, of_update[kPlaces] = {};
  for (int64_t begin = 0; begin < n; begin += kPlaces) {
    const int count = static_cast<int>(n - begin < kPlaces ? n - begin : kPlaces);
#pragma GCC ivdep
    for (int place = 0; place < count; ++place) {
      const int64_t i = begin + place;
      T slot[kMostSlots] = {};
      for (int k = 0; k < Rule::kSlots; ++k) slot[k] = o.slots[k][i];
      const double w = o.w[i], x = Rule::template measured<Rounding>(s, o.w[i], o.g[i], slot);
      for (int k = 0; k < Rule::kSlots; ++k) o.slots_next[k][i] = slot[k];
      of_w[place] += w * w;
      of_update[place] += x * x;
    }
  }
  for (int place = 0; place < kPlaces; ++place) {
    sums[0] += of_w[place];
    sums[1] += of_update[place];
  }
}

template <class T>
constexpr AdaptiveLoops<T> kLoops = {
    update<T, Adagrad>,
    {{update<T, RmsProp<false, false>>, update<T, RmsProp<false, true>>},
     {update<T, RmsProp<true, false>>, update<T, RmsProp<true, true>>}},
    update<T, Lion>,
    measure<T, Lamb>,
    update<T, Lamb>,
    measure<T, Lars<false>>,
    {update<T, Lars<false>>, update<T, Lars<true>>}};

}  // namespace

template <class T>
const AdaptiveLoops<T>& adaptive_loops() {
  return kLoops<T>;
}
template const AdaptiveLoops<float>& adaptive_loops<float>();
template const AdaptiveLoops<double>& adaptive_loops<double>();

}  // namespace sardonyx::ops::optimizer::SARDONYX_ISA
