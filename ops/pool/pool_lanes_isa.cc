// Average and maximum pooling of a block of 16 images, forward and gradient. Bound by memory: a
// window is clipped once per output cell, and gradients of windows that do not overlap are written
// once instead of added to zeros.
#include "ops/core/lanes_vector.h"

namespace sardonyx::ops::lanes::SARDONYX_ISA {
namespace {

// Part of a window along one axis: cells at, at + dil, ... (count of them); `counted` = cells that
// an average counts.
struct Span {
  int at, count, counted;
};

Span clip(int start, int taps, int dilation, int size, int pad_begin, int pad_end,
          PoolPadding padding) {
  const auto below = [&](int limit) {  // taps that lie before limit
    const int n = limit > start ? (limit - start + dilation - 1) / dilation : 0;
    return n < taps ? n : taps;
  };
  const int skipped = below(0);
  Span span{start + skipped * dilation, below(size) - skipped, 0};
  span.counted =
      padding == PoolPadding::kCounted ? below(size + pad_end) - below(-pad_begin) : span.count;
  return span;
}

// Calls cell(x offset of the clipped window, rows, cols, y offset) for every output cell of one
// channel.
template <typename F>
void for_each_window(const PoolShape& shape, PoolPadding padding, F cell) {
  for (int p = 0; p < shape.p; ++p) {
    const Span rows = clip(p * shape.stride_h - shape.pad_top, shape.r, shape.dil_h, shape.h,
                           shape.pad_top, shape.pad_bottom, padding);
    for (int q = 0; q < shape.q; ++q) {
      const Span cols = clip(q * shape.stride_w - shape.pad_left, shape.s, shape.dil_w, shape.w,
                             shape.pad_left, shape.pad_right, padding);
      cell((static_cast<ptrdiff_t>(rows.at) * shape.w + cols.at) * kLanes, rows, cols,
           (static_cast<ptrdiff_t>(p) * shape.q + q) * kLanes);
    }
  }
}

ptrdiff_t x_plane(const PoolShape& shape) {
  return static_cast<ptrdiff_t>(shape.h) * shape.w * kLanes;
}
ptrdiff_t y_plane(const PoolShape& shape) {
  return static_cast<ptrdiff_t>(shape.p) * shape.q * kLanes;
}

template <typename T>
T inverse(const Span& rows, const Span& cols) {
  const int counted = rows.counted * cols.counted;
  return counted > 0 ? T(1) / static_cast<T>(counted) : T(0);
}

// Windows that tile the input without gaps, borders or overlap, two by two: the common case.
bool is_plain_2x2(const PoolShape& s) {
  return s.r == 2 && s.s == 2 && s.stride_h == 2 && s.stride_w == 2 && s.dil_h == 1 &&
         s.dil_w == 1 && s.pad_top == 0 && s.pad_left == 0 && 2 * s.p <= s.h && 2 * s.q <= s.w;
}

template <typename T>
void avg_pool(const PoolShape& shape, PoolPadding padding, const T* x, T* y) {
  const ptrdiff_t x_row = static_cast<ptrdiff_t>(shape.w) * kLanes;
  const ptrdiff_t row_step = shape.dil_h * x_row;
  const ptrdiff_t col_step = static_cast<ptrdiff_t>(shape.dil_w) * kLanes;
  if (is_plain_2x2(shape)) {
    const Vec<T> quarter = broadcast<T>(T(0.25));
    for (int c = 0; c < shape.c; ++c, x += x_plane(shape)) {
      for (int p = 0; p < shape.p; ++p) {
        const T* from = x + 2 * p * x_row;
        for (int q = 0; q < shape.q; ++q, from += 2 * kLanes, y += kLanes) {
          for (int lane = 0; lane < kLanes; lane += kWidth<T>) {
            const Vec<T> top = load(from + lane) + load(from + kLanes + lane);
            const Vec<T> bottom = load(from + x_row + lane) + load(from + x_row + kLanes + lane);
            store(y + lane, (top + bottom) * quarter);
          }
        }
      }
    }
    return;
  }
  for (int c = 0; c < shape.c; ++c, x += x_plane(shape), y += y_plane(shape)) {
    for_each_window(shape, padding,
                    [&](ptrdiff_t x_at, const Span& rows, const Span& cols, ptrdiff_t y_at) {
                      const Vec<T> scale = broadcast<T>(inverse<T>(rows, cols));
                      for (int lane = 0; lane < kLanes; lane += kWidth<T>) {
                        Vec<T> sum{};
                        for (int r = 0; r < rows.count; ++r) {
                          const T* from = x + x_at + r * row_step + lane;
                          for (int s = 0; s < cols.count; ++s) sum += load(from + s * col_step);
                        }
                        store(y + y_at + lane, sum * scale);
                      }
                    });
  }
}

template <typename T>
void fill_zero(T* to, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; i += kWidth<T>) store(to + i, Vec<T>{});
}

template <typename T>
void avg_pool_grad_2x2(const PoolShape& shape, const T* dy, const T* relu_output, T* dx) {
  const ptrdiff_t x_row = static_cast<ptrdiff_t>(shape.w) * kLanes;
  const ptrdiff_t used = static_cast<ptrdiff_t>(shape.q) * 2 * kLanes;
  const Vec<T> quarter = broadcast<T>(T(0.25));
  for (int c = 0; c < shape.c; ++c) {
    for (int h = 0; h < shape.h; ++h) {
      const bool covered = h < 2 * shape.p;
      const ptrdiff_t row = c * x_plane(shape) + h * x_row;
      if (covered) {
        const T* from = dy + c * y_plane(shape) + h / 2 * (used / 2);
        for (ptrdiff_t at = row; at < row + used; at += 2 * kLanes, from += kLanes) {
          for (int lane = 0; lane < kLanes; lane += kWidth<T>) {
            const Vec<T> v = load(from + lane) * quarter;
            for (ptrdiff_t to = at + lane; to < at + 2 * kLanes; to += kLanes) {
              store(dx + to, relu_output == nullptr ? v : relu_mask<T>(v, relu_output + to));
            }
          }
        }
      }
      const ptrdiff_t rest = covered ? used : 0;
      fill_zero(dx + row + rest, x_row - rest);
    }
  }
}

template <typename T>
void avg_pool_grad(const PoolShape& shape, PoolPadding padding, const T* dy, const T* relu_output,
                   T* dx) {
  if (is_plain_2x2(shape)) return avg_pool_grad_2x2(shape, dy, relu_output, dx);
  const ptrdiff_t row_step = static_cast<ptrdiff_t>(shape.dil_h) * shape.w * kLanes;
  const ptrdiff_t col_step = static_cast<ptrdiff_t>(shape.dil_w) * kLanes;
  for (int c = 0; c < shape.c; ++c, dx += x_plane(shape), dy += y_plane(shape)) {
    fill_zero(dx, x_plane(shape));
    for_each_window(shape, padding,
                    [&](ptrdiff_t x_at, const Span& rows, const Span& cols, ptrdiff_t y_at) {
                      const Vec<T> scale = broadcast<T>(inverse<T>(rows, cols));
                      for (int lane = 0; lane < kLanes; lane += kWidth<T>) {
                        const Vec<T> v = load(dy + y_at + lane) * scale;
                        for (int r = 0; r < rows.count; ++r) {
                          T* to = dx + x_at + r * row_step + lane;
                          for (int s = 0; s < cols.count; ++s)
                            store(to + s * col_step, load(to + s * col_step) + v);
                        }
                      }
                    });
    if (relu_output == nullptr) continue;
    for (ptrdiff_t i = 0; i < x_plane(shape); i += kWidth<T>) {
      store(dx + i, relu_mask<T>(load(dx + i), relu_output + c * x_plane(shape) + i));
    }
  }
}

template <typename T>
constexpr T lowest() {
  return sizeof(T) == 4 ? static_cast<T>(-__FLT_MAX__) : static_cast<T>(-__DBL_MAX__);
}

// The winner of a clipped window: its value, and its place r * cols + s.
template <typename T>
struct Winner {
  Vec<T> value;
  IntVec<T> place;
};

template <typename T>
[[gnu::always_inline]] inline Winner<T> find_winner(const T* from, int rows, int cols,
                                                    ptrdiff_t row_step, ptrdiff_t col_step) {
  Winner<T> best{rows > 0 && cols > 0 ? load(from) : broadcast<T>(lowest<T>()), {}};
  IntVec<T> place{};
  for (int r = 0; r < rows; ++r) {
    for (int s = 0; s < cols; ++s, place += 1) {
      const Vec<T> v = load(from + r * row_step + s * col_step);
      const IntVec<T> better = (v > best.value) | (v != v);
      best.value = better ? v : best.value;
      best.place = better ? place : best.place;
    }
  }
  return best;
}

template <typename T>
void max_pool(const PoolShape& shape, const T* x, T* y) {
  const ptrdiff_t row_step = static_cast<ptrdiff_t>(shape.dil_h) * shape.w * kLanes;
  const ptrdiff_t col_step = static_cast<ptrdiff_t>(shape.dil_w) * kLanes;
  for (int c = 0; c < shape.c; ++c, x += x_plane(shape), y += y_plane(shape)) {
    for_each_window(
        shape, PoolPadding::kNotCounted,
        [&](ptrdiff_t x_at, const Span& rows, const Span& cols, ptrdiff_t y_at) {
          for (int lane = 0; lane < kLanes; lane += kWidth<T>) {
            store(y + y_at + lane,
                  find_winner(x + x_at + lane, rows.count, cols.count, row_step, col_step).value);
          }
        });
  }
}

template <typename T>
void max_pool_grad(const PoolShape& shape, const T* x, const T* dy, T* dx) {
  const ptrdiff_t row_step = static_cast<ptrdiff_t>(shape.dil_h) * shape.w * kLanes;
  const ptrdiff_t col_step = static_cast<ptrdiff_t>(shape.dil_w) * kLanes;
  for (int c = 0; c < shape.c;
       ++c, x += x_plane(shape), dx += x_plane(shape), dy += y_plane(shape)) {
    fill_zero(dx, x_plane(shape));
    for_each_window(
        shape, PoolPadding::kNotCounted,
        [&](ptrdiff_t x_at, const Span& rows, const Span& cols, ptrdiff_t y_at) {
          for (int lane = 0; lane < kLanes; lane += kWidth<T>) {
            const IntVec<T> winner =
                find_winner(x + x_at + lane, rows.count, cols.count, row_step, col_step).place;
            const Vec<T> v = load(dy + y_at + lane);
            IntVec<T> place{};
            for (int r = 0; r < rows.count; ++r) {
              T* to = dx + x_at + r * row_step + lane;
              for (int s = 0; s < cols.count; ++s, place += 1) {
                const Vec<T> sum = load(to + s * col_step);
                store(to + s * col_step, winner == place ? sum + v : sum);
              }
            }
          }
        });
  }
}

}  // namespace

template <typename T>
void add_pool(LaneKernels<T>* kernels) {
  kernels->avg_pool = avg_pool<T>;
  kernels->avg_pool_grad = avg_pool_grad<T>;
  kernels->max_pool = max_pool<T>;
  kernels->max_pool_grad = max_pool_grad<T>;
}

template void add_pool<float>(LaneKernels<float>*);
template void add_pool<double>(LaneKernels<double>*);

}  // namespace sardonyx::ops::lanes::SARDONYX_ISA
