// Gradient of the filter and bias for a block of 16 images.
//
// A register block is MB output channels x XB neighbouring column taps; each accumulator keeps its
// 16 lanes apart, in a small buffer between row chunks, and the lanes are added only at the end. So
// poisoned lanes are dropped once, there. The output rows are walked in chunks whose dy stays in
// the first-level cache while all taps pass over it.
#include "ops/conv/conv_lanes_runs.h"
#include "ops/core/lanes_vector.h"

namespace sardonyx::ops::lanes::SARDONYX_ISA {
namespace {

constexpr int kOutputBlock = kRegisters == 32 ? 5 : 3;
constexpr int kTapBlock = kRegisters == 32 ? 5 : 4;
constexpr int kMostTaps = 64;           // of one buffer
constexpr int kChunkBytes = 20 * 1024;  // dy of one row chunk

template <typename T>
struct Patch {
  const T* x;   // first row and column, first tap
  const T* dy;  // first row and column, first output
  T* sums;      // first accumulator
  ptrdiff_t x_row, x_col, x_tap;
  ptrdiff_t dy_row, dy_output;
  ptrdiff_t sums_output;
  int rows, cols;
};

template <typename T, int MB, int XB>
void add_patch(const Patch<T>& patch) {
  Vec<T> acc[MB][XB];
#pragma GCC unroll 32
  for (int m = 0; m < MB; ++m) {
#pragma GCC unroll 32
    for (int t = 0; t < XB; ++t)
      acc[m][t] = load(patch.sums + m * patch.sums_output + t * kWidth<T>);
  }
  for (int p = 0; p < patch.rows; ++p) {
    const T* x = patch.x + p * patch.x_row;
    const T* dy = patch.dy + p * patch.dy_row;
    for (int q = 0; q < patch.cols; ++q, x += patch.x_col, dy += kLanes) {
      Vec<T> taps[XB];
#pragma GCC unroll 32
      for (int t = 0; t < XB; ++t) taps[t] = load(x + t * patch.x_tap);
#pragma GCC unroll 32
      for (int m = 0; m < MB; ++m) {
        const Vec<T> d = load(dy + m * patch.dy_output);
#pragma GCC unroll 32
        for (int t = 0; t < XB; ++t) acc[m][t] += d * taps[t];
      }
    }
  }
#pragma GCC unroll 32
  for (int m = 0; m < MB; ++m) {
#pragma GCC unroll 32
    for (int t = 0; t < XB; ++t)
      store(patch.sums + m * patch.sums_output + t * kWidth<T>, acc[m][t]);
  }
}

template <typename T>
using PatchFunction = void (*)(const Patch<T>&);

template <typename T, int MB = kOutputBlock, int XB = kTapBlock>
PatchFunction<T> patch_function(int outputs, int taps) {
  if constexpr (XB > 1) {
    if (taps < XB) return patch_function<T, MB, XB - 1>(outputs, taps);
  }
  if constexpr (MB > 1) {
    if (outputs < MB) return patch_function<T, MB - 1, XB>(outputs, taps);
  }
  return add_patch<T, MB, XB>;
}

struct Range {
  int begin, end;
};

Range common(Range a, Range b) {
  return {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

// Outputs o in [0, outputs) with 0 <= o * stride + offset < inputs.
Range inside(int outputs, int inputs, int stride, int offset) {
  Range range{offset < 0 ? (-offset + stride - 1) / stride : 0,
              inputs > offset ? (inputs - offset + stride - 1) / stride : 0};
  if (range.end > outputs) range.end = outputs;
  if (range.begin > range.end) range.begin = range.end;
  return range;
}

// The taps [r0, r1) x [s0, s1) that one buffer holds.
struct TapWindow {
  int r0, r1, s0, s1;
  int columns() const { return s1 - s0; }
  int count() const { return (r1 - r0) * columns(); }
};

template <typename T>
struct FilterGradient {
  const ConvShape& shape;
  const T* x;   // one input channel
  const T* dy;  // first output of a block
  int outputs;  // of the block
  T* sums;      // [outputs][taps rounded up to a vector][lanes of a vector]
  ptrdiff_t sums_output;

  ptrdiff_t dy_output() const { return static_cast<ptrdiff_t>(shape.p) * shape.q * kLanes; }

  // Adds rows [rows.begin, rows.end) of dy for all taps of the window.
  void add_rows(const TapWindow& window, Range rows, int lane) const {
    for (int r = window.r0; r < window.r1; ++r) {
      const int row_offset = r * shape.dil_h - shape.pad_top;
      const Range p = common(rows, inside(needed_rows(shape), shape.h, shape.stride_h, row_offset));
      if (p.begin >= p.end) continue;
      T* row_sums = sums + (r - window.r0) * window.columns() * kWidth<T>;
      for (int s = window.s0; s < window.s1; s += kTapBlock) {
        const int taps = window.s1 - s < kTapBlock ? window.s1 - s : kTapBlock;
        add_taps(p, row_offset, s, taps, lane, row_sums + (s - window.s0) * kWidth<T>);
      }
    }
  }

  // Columns that are inside for all the taps go together, the rest of each tap (at the borders)
  // alone.
  void add_taps(Range p, int row_offset, int s, int taps, int lane, T* to) const {
    Range all{0, needed_cols(shape)};
    for (int t = 0; t < taps; ++t) all = common(all, inside_columns(s + t));
    if (all.begin >= all.end) all = {0, 0};
    add(p, all, row_offset, s, taps, lane, to);
    if (all.begin == 0 && all.end == needed_cols(shape)) return;
    for (int t = 0; t < taps; ++t) {
      const Range mine = inside_columns(s + t);
      const Range before{mine.begin, all.begin > mine.begin ? all.begin : mine.begin};
      const Range after{all.end > mine.begin ? all.end : mine.begin, mine.end};
      add(p, before, row_offset, s + t, 1, lane, to + t * kWidth<T>);
      add(p, after, row_offset, s + t, 1, lane, to + t * kWidth<T>);
    }
  }

  Range inside_columns(int s) const {
    return inside(needed_cols(shape), shape.w, shape.stride_w, s * shape.dil_w - shape.pad_left);
  }

  void add(Range p, Range q, int row_offset, int s, int taps, int lane, T* to) const {
    if (q.begin >= q.end) return;
    const ptrdiff_t x_width = static_cast<ptrdiff_t>(shape.w) * kLanes;
    Patch<T> patch;
    patch.x_row = shape.stride_h * x_width;
    patch.x_col = static_cast<ptrdiff_t>(shape.stride_w) * kLanes;
    patch.x_tap = static_cast<ptrdiff_t>(shape.dil_w) * kLanes;
    patch.dy_row = static_cast<ptrdiff_t>(shape.q) * kLanes;
    patch.dy_output = dy_output();
    patch.sums_output = sums_output;
    patch.rows = p.end - p.begin;
    patch.cols = q.end - q.begin;
    patch.x = x + lane + (p.begin * shape.stride_h + row_offset) * x_width +
              (q.begin * shape.stride_w + s * shape.dil_w - shape.pad_left) * kLanes;
    patch.dy = dy + lane + p.begin * patch.dy_row + q.begin * kLanes;
    patch.sums = to;
    patch_function<T>(outputs, taps)(patch);
  }
};

template <typename T>
void add_bias_rows(const ConvShape& shape, const T* dy, int outputs, Range rows, T* sums) {
  for (int m = 0; m < outputs; ++m, dy += static_cast<ptrdiff_t>(shape.p) * shape.q * kLanes) {
    Vec<T> acc[2] = {load(sums + m * kWidth<T>), Vec<T>{}};
    for (int p = rows.begin; p < rows.end; ++p) {
      const T* row = dy + static_cast<ptrdiff_t>(p) * shape.q * kLanes;
      int q = 0;
      for (; q + 2 <= needed_cols(shape); q += 2) {
        acc[0] += load(row + q * kLanes);
        acc[1] += load(row + (q + 1) * kLanes);
      }
      if (q < needed_cols(shape)) acc[0] += load(row + q * kLanes);
    }
    store(sums + m * kWidth<T>, acc[0] + acc[1]);
  }
}

template <typename T>
void keep_valid(T* sums, int vectors, int valid) {
  const IntVec<T> keep = valid_lanes<T>(valid);
  for (int i = 0; i < vectors; ++i) {
    const Vec<T> v = load(sums + i * kWidth<T>);
    store(sums + i * kWidth<T>, keep ? v : Vec<T>{});
  }
}

// Lanes are dropped where they are first kept apart: the vector that is only partly valid goes
// first and is cleaned before the full ones add to the same sums.
template <typename T>
void add_window(const ConvShape& shape, const TapWindow& window, int inputs, int channel,
                const T* x, const T* dy, int outputs, int valid, T* dw, T* db) {
  constexpr int kW = kWidth<T>;
  alignas(64) T sums[kOutputBlock * (kMostTaps + kLanes) * kW];
  alignas(64) T bias_sums[kLanes * kW];
  const int padded = round_up(window.count(), kW);
  const int vectors = outputs * padded;
  for (int i = 0; i < vectors; ++i) store(sums + i * kW, Vec<T>{});
  for (int i = 0; i < kLanes; ++i) store(bias_sums + i * kW, Vec<T>{});
  const FilterGradient<T> gradient{shape,   x,    dy,
                                   outputs, sums, static_cast<ptrdiff_t>(padded) * kW};
  const int row_bytes = outputs * needed_cols(shape) * kW * static_cast<int>(sizeof(T));
  const int chunk = row_bytes < kChunkBytes ? kChunkBytes / row_bytes : 1;
  const bool with_bias = db != nullptr && channel == 0 && window.r0 == 0 && window.s0 == 0;
  const int rows = needed_rows(shape);
  const auto add = [&](int lane) {
    for (int p = 0; p < rows; p += chunk) {
      const Range part{p, p + chunk < rows ? p + chunk : rows};
      gradient.add_rows(window, part, lane);
      if (with_bias) add_bias_rows(shape, dy + lane, outputs, part, bias_sums);
    }
  };
  const int full = valid / kW;
  if (const int partial = valid % kW; partial > 0) {
    add(full * kW);
    keep_valid(sums, vectors, partial);
    keep_valid(bias_sums, kLanes, partial);
  }
  for (int piece = 0; piece < full; ++piece) add(piece * kW);

  for (int m = 0; m < outputs; ++m) {
    T each[kMostTaps + kLanes];
    for (int i = 0; i < window.count(); i += kW) {
      store(each + i, sum_of_each(sums + (static_cast<ptrdiff_t>(m) * padded + i) * kW));
    }
    const T* from = each;
    for (int r = window.r0; r < window.r1; ++r, from += window.columns()) {
      T* to =
          dw + ((static_cast<ptrdiff_t>(m) * inputs + channel) * shape.r + r) * shape.s + window.s0;
      for (int s = 0; s < window.columns(); ++s) to[s] += from[s];
    }
  }
  if (with_bias) {
    T each[kLanes];
    for (int i = 0; i < outputs; i += kW) store(each + i, sum_of_each(bias_sums + i * kW));
    for (int m = 0; m < outputs; ++m) db[m] += each[m];
  }
}

template <typename T>
void grad_filter(const ConvShape& shape, const T* x, const T* dy, int valid, T* dw, T* db) {
  const int inputs = shape.c / shape.groups;
  const int outputs = shape.m / shape.groups;
  const ptrdiff_t x_plane = static_cast<ptrdiff_t>(shape.h) * shape.w * kLanes;
  const ptrdiff_t dy_plane = static_cast<ptrdiff_t>(shape.p) * shape.q * kLanes;
  const int window_cols = shape.s < kMostTaps ? shape.s : kMostTaps;
  const int window_rows = kMostTaps / window_cols;
  for (int g = 0; g < shape.groups; ++g) {
    for (int m = 0; m < outputs; m += kOutputBlock) {
      const int block = outputs - m < kOutputBlock ? outputs - m : kOutputBlock;
      const int output = g * outputs + m;
      for (int c = 0; c < inputs; ++c) {
        for (int r = 0; r < shape.r; r += window_rows) {
          for (int s = 0; s < shape.s; s += window_cols) {
            const TapWindow window{r, r + window_rows < shape.r ? r + window_rows : shape.r, s,
                                   s + window_cols < shape.s ? s + window_cols : shape.s};
            add_window(shape, window, inputs, c, x + (g * inputs + c) * x_plane,
                       dy + output * dy_plane, block, valid,
                       dw + static_cast<ptrdiff_t>(output) * inputs * shape.r * shape.s,
                       db == nullptr ? nullptr : db + output);
          }
        }
      }
    }
  }
}

}  // namespace

template <typename T>
void add_filter_gradient(LaneKernels<T>* kernels) {
  kernels->conv_grad_filter = grad_filter<T>;
}

template void add_filter_gradient<float>(LaneKernels<float>*);
template void add_filter_gradient<double>(LaneKernels<double>*);

}  // namespace sardonyx::ops::lanes::SARDONYX_ISA
