// Equal elements of a tensor, or equal slices along an axis. Private to ops/unique.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "ops/core/lines.h"
#include "ops/core/op.h"

namespace sardonyx::ops::unique {

// The items of x: its elements, or with an axis the slices along it.
Lines items_of(const Node& node, const std::vector<int64_t>& dims);

// Items compared element by element, in row-major order. NaN comes behind all numbers and equals
// NaN.
template <class T>
class Items {
 public:
  Items(const T* x, const Lines& lines) : x_(x), lines_(lines) {}

  // < 0, 0, > 0: item a comes before b, equals it, comes after.
  int compare(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < lines_.outer; ++o) {
      const T* first = x_ + (o * lines_.length + a) * lines_.inner;
      const T* second = x_ + (o * lines_.length + b) * lines_.inner;
      for (int64_t i = 0; i < lines_.inner; ++i) {
        if (precedes(first[i], second[i])) return -1;
        if (precedes(second[i], first[i])) return 1;
      }
    }
    return 0;
  }

 private:
  static bool precedes(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return !std::isnan(a);
    }
    return a < b;
  }

  const T* x_;
  Lines lines_;
};

enum class Sorted : uint8_t { kByValue, kByFirst };

// Sorts the items into groups of equal ones: `order` becomes their numbers, group behind group,
// each ascending; the front of `starts` becomes where the groups begin in it, in the order asked
// for. Returns the number of groups. Both have an entry per item.
template <class T>
int64_t group(const Items<T>& items, Sorted sorted, std::span<int64_t> order,
              std::span<int64_t> starts) {
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::sort(order, [&](int64_t a, int64_t b) {
    const int compared = items.compare(a, b);
    return compared != 0 ? compared < 0 : a < b;
  });
  int64_t groups = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool starts_group = i == 0 || items.compare(order[i - 1], order[i]) != 0;
    if (starts_group) starts[groups++] = static_cast<int64_t>(i);
  }
  if (sorted == Sorted::kByFirst) {
    std::ranges::sort(starts.first(groups), {}, [&](int64_t start) { return order[start]; });
  }
  return groups;
}

inline Sorted sorted_of(const Node& node) {
  return node.get_int("sorted", 1) != 0 ? Sorted::kByValue : Sorted::kByFirst;
}

}  // namespace sardonyx::ops::unique
