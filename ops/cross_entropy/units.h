// How the kernels of the room cut their work: a unit is up to 64 neighbouring positions of one row.
#pragma once

#include <algorithm>

#include "ops/core/elementwise.h"
#include "ops/core/softmax_loops.h"
#include "ops/cross_entropy/cross_entropy.h"

namespace sardonyx::ops::cross_entropy {

struct Unit {
  int64_t offset;    // of class 0 of the first position, in the scores
  int64_t position;  // of the first position, in the labels
  int64_t columns;   // positions
};

class Units {
 public:
  explicit Units(const Geometry& geometry)
      : g_(geometry),
        width_(std::clamp<int64_t>(geometry.inner, 1, kSoftmaxColumns)),
        per_row_((geometry.inner + width_ - 1) / width_) {}

  // f(part, unit) for all units; part < pool.size() belongs to one thread.
  template <class F>
  void run(ThreadPool& pool, F&& f) const {
    const int64_t count = g_.rows * per_row_;
    if (count == 0) return;
    const int64_t work = std::max<int64_t>(g_.classes * width_, 1);
    const int64_t grain = 1 + kMathGrain / work;
    const int parts = static_cast<int>(std::clamp<int64_t>(count / grain, 1, pool.size()));
    const auto part = [&](int i) {
      for (int64_t unit = count * i / parts; unit < count * (i + 1) / parts; ++unit) {
        f(i, at(unit));
      }
    };
    if (parts == 1) return part(0);
    pool.run(parts, part);
  }

 private:
  Unit at(int64_t unit) const {
    const int64_t row = unit / per_row_, column = unit % per_row_ * width_;
    return {row * g_.classes * g_.inner + column, row * g_.inner + column,
            std::min(width_, g_.inner - column)};
  }

  Geometry g_;
  int64_t width_, per_row_;
};

}  // namespace sardonyx::ops::cross_entropy
