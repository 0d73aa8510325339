// The lines of a dense array: the elements along one axis (or some neighbouring ones) that belong
// together. For kernels that give a line to one thread, so that its sums have one order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/core/parallel.h"

namespace sardonyx::ops {

// The array as [outer][length][inner]: element i of a line stands at first(line) + i * inner.
struct Lines {
  int64_t outer = 1, length = 1, inner = 1;

  // Along axes [begin, end) of these dims (stored_dims: a lane is one of the inner ones).
  static Lines over(const std::vector<int64_t>& dims, int64_t begin, int64_t end) {
    Lines lines;
    for (int64_t i = 0; i < static_cast<int64_t>(dims.size()); ++i) {
      (i < begin ? lines.outer : i < end ? lines.length : lines.inner) *= dims[i];
    }
    return lines;
  }
  static Lines along(const std::vector<int64_t>& dims, int64_t axis) {
    return over(dims, axis, axis + 1);
  }

  int64_t count() const { return length == 0 ? 0 : outer * inner; }
  int64_t first(int64_t line) const { return line / inner * length * inner + line % inner; }
};

// Cuts the lines into pieces of at least `grain` elements: f(begin, end).
template <class F>
void cut_lines(ThreadPool& pool, const Lines& lines, int64_t grain, F&& f) {
  parallel_for(pool, lines.count(), std::max<int64_t>(1, grain / (lines.length + 1)), f);
}

// f(place of its first element) for every line.
template <class F>
void each_line(ThreadPool& pool, const Lines& lines, int64_t grain, F&& f) {
  cut_lines(pool, lines, grain, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) f(lines.first(line));
  });
}

}  // namespace sardonyx::ops
