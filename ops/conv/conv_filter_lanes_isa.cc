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
  const T* x;      // first row and column, first tap
  const T* dy;     // first row and column, first output
  const T* start;  // what the sums begin with: the sums themselves, or zeros
  T* sums;         // first accumulator
  ptrdiff_t x_row, x_col, x_tap;
  ptrdiff_t dy_row, dy_output;
  ptrdiff_t start_output, sums_output;
  int rows, cols;
};

template <typename T, int MB, int XB>
void add_patch(const Patch<T>& patch) {
  Vec<T> acc[MB][XB];
#pragma GCC unroll 32
  for (int m = 0; m < MB; ++m) {
#pragma GCC unroll 32
    for (int t = 0; t < XB; ++t) {
      acc[m][t] = load(patch.start + m * patch.start_output + t * kWidth<T>);
    }
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
    for (int t = 0; t < XB; ++t) {
      store(patch.sums + m * patch.sums_output + t * kWidth<T>, acc[m][t]);
    }
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
  bool empty() const { return begin >= end; }
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

// The taps [r0, r1) x [s0, s1) that one buffer holds, and which outputs meet them: made once, used
// for all channels. Columns of dy that are inside for all taps of a block go together, the rest of
// each tap (at the borders) alone.
struct TapWindow {
  struct Columns {
    int tap, taps;  // tap counts from s0
    Range q;
    bool opens;  // the first patch of its taps; it may be empty
  };

  TapWindow(const ConvShape& shape, int first_r, int end_r, int first_s, int end_s)
      : r0(first_r), r1(end_r), s0(first_s), s1(end_s) {
    for (int r = r0; r < r1; ++r) {
      rows[r - r0] =
          inside(needed_rows(shape), shape.h, shape.stride_h, r * shape.dil_h - shape.pad_top);
    }
    for (int tap = 0; tap < columns(); tap += kTapBlock) {
      add_columns(shape, tap, columns() - tap < kTapBlock ? columns() - tap : kTapBlock);
    }
  }

  int columns() const { return s1 - s0; }
  int count() const { return (r1 - r0) * columns(); }

  int r0, r1, s0, s1;
  Range rows[kMostTaps];
  Columns parts[3 * kMostTaps];
  int part_count = 0;

 private:
  void add_columns(const ConvShape& shape, int tap, int taps) {
    const auto q_of = [&](int t) {
      const int offset = (s0 + tap + t) * shape.dil_w - shape.pad_left;
      return inside(needed_cols(shape), shape.w, shape.stride_w, offset);
    };
    Range all = q_of(0);
    for (int t = 1; t < taps; ++t) all = common(all, q_of(t));
    if (all.empty()) all = {0, 0};
    parts[part_count++] = {tap, taps, all, true};
    for (int t = 0; t < taps; ++t) {
      const Range mine = q_of(t);
      const Range before{mine.begin, all.begin > mine.begin ? all.begin : mine.begin};
      const Range after{all.end > mine.begin ? all.end : mine.begin, mine.end};
      if (!before.empty()) parts[part_count++] = {tap + t, 1, before, false};
      if (!after.empty()) parts[part_count++] = {tap + t, 1, after, false};
    }
  }
};

// What one buffer of sums is about: one input channel, a block of output channels.
template <typename T>
struct Channels {
  const ConvShape& shape;
  const TapWindow& window;
  const T* x;
  const T* dy;
  int outputs;
};

enum class Sums { kBegin, kGoOn };

// sums [outputs][taps of the window][lanes of a vector] += rows of dy, for the lanes from `lane`
// on.
template <typename T>
void add_rows(const Channels<T>& on, Range rows, int lane, Sums state, T* sums) {
  static constexpr T kZeros[kTapBlock * kWidth<T>] = {};
  const ConvShape& shape = on.shape;
  const TapWindow& window = on.window;
  const ptrdiff_t x_width = static_cast<ptrdiff_t>(shape.w) * kLanes;
  Patch<T> patch;
  patch.x_row = shape.stride_h * x_width;
  patch.x_col = static_cast<ptrdiff_t>(shape.stride_w) * kLanes;
  patch.x_tap = static_cast<ptrdiff_t>(shape.dil_w) * kLanes;
  patch.dy_row = static_cast<ptrdiff_t>(shape.q) * kLanes;
  patch.dy_output = shape.p * patch.dy_row;
  patch.sums_output = static_cast<ptrdiff_t>(window.count()) * kWidth<T>;
  for (int i = 0; i < window.part_count; ++i) {
    const TapWindow::Columns& part = window.parts[i];
    const PatchFunction<T> function = patch_function<T>(on.outputs, part.taps);
    const bool begins = part.opens && state == Sums::kBegin;
    const int x_offset =
        part.q.begin * shape.stride_w + (window.s0 + part.tap) * shape.dil_w - shape.pad_left;
    patch.start_output = begins ? 0 : patch.sums_output;
    patch.cols = part.q.end - part.q.begin;
    for (int r = window.r0; r < window.r1; ++r) {
      const Range p = common(rows, window.rows[r - window.r0]);
      if (p.empty() && !begins) continue;
      const int x_row = p.begin * shape.stride_h + r * shape.dil_h - shape.pad_top;
      patch.rows = p.end - p.begin;
      patch.x = on.x + lane + x_row * x_width + x_offset * kLanes;
      patch.dy = on.dy + lane + p.begin * patch.dy_row + part.q.begin * kLanes;
      patch.sums = sums + ((r - window.r0) * window.columns() + part.tap) * kWidth<T>;
      patch.start = begins ? kZeros : patch.sums;
      function(patch);
    }
  }
}

template <typename T>
void add_bias_rows(const ConvShape& shape, const T* dy, int outputs, Range rows, Sums state,
                   T* sums) {
  for (int m = 0; m < outputs; ++m, dy += static_cast<ptrdiff_t>(shape.p) * shape.q * kLanes) {
    Vec<T> acc[2] = {state == Sums::kBegin ? Vec<T>{} : load(sums + m * kWidth<T>), Vec<T>{}};
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

// Calls add(lane, rows, state) for the pieces with valid lanes and row chunk by row chunk. The
// piece that is only partly valid goes first, and clean() drops its other lanes before the full
// pieces add to the same sums.
template <typename T, typename Add, typename Clean>
void for_pieces_and_chunks(const ConvShape& shape, int outputs, int valid, Add add, Clean clean) {
  constexpr int kW = kWidth<T>;
  const int row_bytes = outputs * needed_cols(shape) * kW * static_cast<int>(sizeof(T));
  const int chunk = row_bytes < kChunkBytes ? kChunkBytes / row_bytes : 1;
  const int rows = needed_rows(shape);
  Sums state = Sums::kBegin;
  const auto add_piece = [&](int lane) {
    for (int p = 0; p < rows; p += chunk) {
      add(lane, Range{p, p + chunk < rows ? p + chunk : rows}, state);
      state = Sums::kGoOn;
    }
  };
  const int full = valid / kW;
  if (valid % kW > 0) {
    add_piece(full * kW);
    clean(valid % kW);
  }
  for (int piece = 0; piece < full; ++piece) add_piece(piece * kW);
}

template <typename T>
void add_to(T* __restrict to, const T* __restrict from, int count) {
  for (int i = 0; i < count; ++i) to[i] += from[i];
}

// dw = first filter of the block of outputs, db = its first bias or null.
template <typename T>
void add_channels(const Channels<T>& on, int inputs, int channel, int valid, T* dw, T* db) {
  constexpr int kW = kWidth<T>;
  const ConvShape& shape = on.shape;
  const TapWindow& window = on.window;
  alignas(64) T sums[(kOutputBlock * kMostTaps + kLanes) * kW];
  alignas(64) T bias_sums[kLanes * kW];
  const int vectors = on.outputs * window.count();
  for_pieces_and_chunks<T>(
      shape, on.outputs, valid,
      [&](int lane, Range rows, Sums state) {
        add_rows(on, rows, lane, state, sums);
        if (db != nullptr) add_bias_rows(shape, on.dy + lane, on.outputs, rows, state, bias_sums);
      },
      [&](int lanes) {
        keep_valid(sums, vectors, lanes);
        if (db != nullptr) keep_valid(bias_sums, on.outputs, lanes);
      });

  alignas(64) T each[kOutputBlock * kMostTaps + kLanes];
  for (int i = 0; i < vectors; i += kW) store(each + i, sum_of_each(sums + i * kW));
  const int runs =
      window.columns() == shape.s ? 1 : window.r1 - window.r0;  // pieces of dw that are contiguous
  const int length = window.count() / runs;
  for (int m = 0; m < on.outputs; ++m) {
    const T* from = each + m * window.count();
    T* to = dw + ((static_cast<ptrdiff_t>(m) * inputs + channel) * shape.r + window.r0) * shape.s +
            window.s0;
    for (int run = 0; run < runs; ++run) add_to(to + run * shape.s, from + run * length, length);
  }
  if (db == nullptr) return;
  for (int i = 0; i < on.outputs; i += kW) store(each + i, sum_of_each(bias_sums + i * kW));
  add_to(db, each, on.outputs);
}

template <typename T>
void add_window(const ConvShape& shape, const TapWindow& window, const T* x, const T* dy, int valid,
                T* dw, T* db) {
  const int inputs = shape.c / shape.groups;
  const int outputs = shape.m / shape.groups;
  const ptrdiff_t x_plane = static_cast<ptrdiff_t>(shape.h) * shape.w * kLanes;
  const ptrdiff_t dy_plane = static_cast<ptrdiff_t>(shape.p) * shape.q * kLanes;
  const bool with_bias = db != nullptr && window.r0 == 0 && window.s0 == 0;
  for (int g = 0; g < shape.groups; ++g) {
    for (int m = 0; m < outputs; m += kOutputBlock) {
      const int block = outputs - m < kOutputBlock ? outputs - m : kOutputBlock;
      const int output = g * outputs + m;
      T* filters = dw + static_cast<ptrdiff_t>(output) * inputs * shape.r * shape.s;
      for (int c = 0; c < inputs; ++c) {
        const Channels<T> on{shape, window, x + (g * inputs + c) * x_plane, dy + output * dy_plane,
                             block};
        add_channels(on, inputs, c, valid, filters, with_bias && c == 0 ? db + output : nullptr);
      }
    }
  }
}

template <typename T>
void grad_filter(const ConvShape& shape, const T* x, const T* dy, int valid, T* dw, T* db) {
  if (valid <= 0) return;
  const int window_cols = shape.s < kMostTaps ? shape.s : kMostTaps;
  const int window_rows = kMostTaps / window_cols;
  for (int r = 0; r < shape.r; r += window_rows) {
    for (int s = 0; s < shape.s; s += window_cols) {
      const TapWindow window(shape, r, r + window_rows < shape.r ? r + window_rows : shape.r, s,
                             s + window_cols < shape.s ? s + window_cols : shape.s);
      add_window(shape, window, x, dy, valid, dw, db);
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
