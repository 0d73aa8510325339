// Gradient of the filter and bias for a block of 16 images.
//
// A register block is some output channels x some streams of x: neighbouring column taps of one
// input channel, or one tap of several input channels. Each accumulator keeps its lanes apart, in a
// small buffer between row chunks, and they are added only at the end; so poisoned lanes are
// dropped once, there. Output rows are walked in chunks that stay in the first-level cache while
// all taps pass over them.
#include "ops/conv/conv_lanes_runs.h"
#include "ops/core/lanes_vector.h"

namespace sardonyx::ops::lanes::SARDONYX_ISA {
namespace {

constexpr int kMostStreams = kRegisters == 32 ? 5 : 4;
constexpr int kMostOutputs = 8;
constexpr int kMostSums = 64;           // per output, in one buffer
constexpr int kChunkBytes = 32 * 1024;  // dy (and x, of several channels) of one row chunk

constexpr int max_outputs(int streams) {
  return kAccumulators / streams < kMostOutputs ? kAccumulators / streams : kMostOutputs;
}

template <typename T>
struct Patch {
  const T* x;      // first row and column, first stream
  const T* dy;     // first row and column, first output
  const T* start;  // what the sums begin with: the sums themselves, or zeros
  T* sums;         // first accumulator
  ptrdiff_t x_row, x_col, x_stream;
  ptrdiff_t dy_row, dy_output;
  ptrdiff_t start_stream, start_output;
  ptrdiff_t sums_stream, sums_output;
  int rows, cols;
};

template <typename T, int MB, int XB>
void add_patch(const Patch<T>& patch) {
  Vec<T> acc[MB][XB];
#pragma GCC unroll 32
  for (int m = 0; m < MB; ++m) {
#pragma GCC unroll 32
    for (int t = 0; t < XB; ++t) {
      acc[m][t] = load(patch.start + m * patch.start_output + t * patch.start_stream);
    }
  }
  for (int p = 0; p < patch.rows; ++p) {
    const T* x = patch.x + p * patch.x_row;
    const T* dy = patch.dy + p * patch.dy_row;
    for (int q = 0; q < patch.cols; ++q, x += patch.x_col, dy += kLanes) {
      Vec<T> streams[XB];
#pragma GCC unroll 32
      for (int t = 0; t < XB; ++t) streams[t] = load(x + t * patch.x_stream);
#pragma GCC unroll 32
      for (int m = 0; m < MB; ++m) {
        const Vec<T> d = load(dy + m * patch.dy_output);
#pragma GCC unroll 32
        for (int t = 0; t < XB; ++t) acc[m][t] += d * streams[t];
      }
    }
  }
#pragma GCC unroll 32
  for (int m = 0; m < MB; ++m) {
#pragma GCC unroll 32
    for (int t = 0; t < XB; ++t) {
      store(patch.sums + m * patch.sums_output + t * patch.sums_stream, acc[m][t]);
    }
  }
}

template <typename T>
using PatchFunction = void (*)(const Patch<T>&);

template <typename T, int XB = kMostStreams, int MB = max_outputs(XB)>
PatchFunction<T> patch_function(int outputs, int streams) {
  if constexpr (XB > 1) {
    if (streams < XB) return patch_function<T, XB - 1>(outputs, streams);
  }
  if constexpr (MB > 1) {
    if (outputs < MB) return patch_function<T, XB, MB - 1>(outputs, streams);
  }
  return add_patch<T, MB, XB>;
}

struct Range {
  int begin, end;
  bool empty() const { return begin >= end; }
  int size() const { return end - begin; }
};

Range common(Range a, Range b) {
  return {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
}

// Part `i` of [0, size) cut into the fewest parts of at most `most`, as equal as can be.
Range share(int size, int most, int i) {
  const int parts = (size + most - 1) / most;
  return {size * i / parts, size * (i + 1) / parts};
}

// Outputs o in [0, outputs) with 0 <= o * stride + offset < inputs.
Range inside(int outputs, int inputs, int stride, int offset) {
  Range range{offset < 0 ? (-offset + stride - 1) / stride : 0,
              inputs > offset ? (inputs - offset + stride - 1) / stride : 0};
  if (range.end > outputs) range.end = outputs;
  if (range.begin > range.end) range.begin = range.end;
  return range;
}

Range inside_columns(const ConvShape& shape, int s) {
  return inside(needed_cols(shape), shape.w, shape.stride_w, s * shape.dil_w - shape.pad_left);
}

enum class Streams { kTaps, kChannels };

// Several channels need no care at the borders, but read more; taps of one channel share what they
// read.
Streams choose_streams(const ConvShape& shape) {
  if (shape.c / shape.groups < 3) return Streams::kTaps;
  if (shape.s < 4) return Streams::kChannels;
  const Range all = common(inside_columns(shape, 0), inside_columns(shape, shape.s - 1));
  return 4 * all.size() >= 3 * needed_cols(shape) ? Streams::kTaps : Streams::kChannels;
}

// The taps [r0, r1) x [s0, s1) that one buffer holds, and which outputs meet them: made once, used
// for all channels. As streams, the columns of dy that are inside for several taps go together, the
// rest of each tap (at the borders) alone.
struct TapWindow {
  struct Columns {
    int tap, taps;  // tap counts from s0
    Range q;
    bool opens;  // the first patch of its taps; it may be empty
  };

  TapWindow(const ConvShape& shape, Streams streams, int first_r, int end_r, int first_s, int end_s)
      : r0(first_r), r1(end_r), s0(first_s), s1(end_s) {
    for (int r = r0; r < r1; ++r) {
      rows[r - r0] =
          inside(needed_rows(shape), shape.h, shape.stride_h, r * shape.dil_h - shape.pad_top);
    }
    const int most = streams == Streams::kTaps ? kMostStreams : 1;
    for (int i = 0; share(columns(), most, i).begin < columns(); ++i)
      add_columns(shape, share(columns(), most, i));
  }

  int columns() const { return s1 - s0; }
  int count() const { return (r1 - r0) * columns(); }

  int r0, r1, s0, s1;
  Range rows[kMostSums];
  Columns parts[3 * kMostSums];
  int part_count = 0;
  int most_taps = 1;  // of one part

 private:
  void add_columns(const ConvShape& shape, Range taps) {
    Range all = inside_columns(shape, s0 + taps.begin);
    for (int t = taps.begin; t < taps.end; ++t) all = common(all, inside_columns(shape, s0 + t));
    if (all.empty()) all = {0, 0};
    parts[part_count++] = {taps.begin, taps.size(), all, true};
    most_taps = taps.size() > most_taps ? taps.size() : most_taps;
    for (int t = taps.begin; t < taps.end; ++t) {
      const Range mine = inside_columns(shape, s0 + t);
      const Range before{mine.begin, all.begin > mine.begin ? all.begin : mine.begin};
      const Range after{all.end > mine.begin ? all.end : mine.begin, mine.end};
      if (!before.empty()) parts[part_count++] = {t, 1, before, false};
      if (!after.empty()) parts[part_count++] = {t, 1, after, false};
    }
  }
};

// What one buffer of sums is about: some input channels (one, if taps are the streams) and some
// output channels of a group.
template <typename T>
struct Channels {
  const ConvShape& shape;
  const TapWindow& window;
  const T* x;
  const T* dy;
  Range inputs, outputs;

  int sums() const { return inputs.size() * window.count(); }  // per output
  ptrdiff_t x_plane() const { return static_cast<ptrdiff_t>(shape.h) * shape.w * kLanes; }
};

enum class Sums { kBegin, kGoOn };

// sums [outputs][inputs][taps of the window][lanes of a vector] += rows of dy, for the lanes from
// `lane` on.
template <typename T>
void add_rows(const Channels<T>& on, Range rows, int lane, Sums state, T* sums) {
  static constexpr T kZeros[kWidth<T>] = {};
  const ConvShape& shape = on.shape;
  const TapWindow& window = on.window;
  const ptrdiff_t x_width = static_cast<ptrdiff_t>(shape.w) * kLanes;
  const bool of_channels = on.inputs.size() > 1;
  Patch<T> patch;
  patch.x_row = shape.stride_h * x_width;
  patch.x_col = static_cast<ptrdiff_t>(shape.stride_w) * kLanes;
  patch.x_stream = of_channels ? on.x_plane() : static_cast<ptrdiff_t>(shape.dil_w) * kLanes;
  patch.dy_row = static_cast<ptrdiff_t>(shape.q) * kLanes;
  patch.dy_output = shape.p * patch.dy_row;
  patch.sums_stream = of_channels ? static_cast<ptrdiff_t>(window.count()) * kWidth<T> : kWidth<T>;
  patch.sums_output = static_cast<ptrdiff_t>(on.sums()) * kWidth<T>;
  for (int i = 0; i < window.part_count; ++i) {
    const TapWindow::Columns& part = window.parts[i];
    const PatchFunction<T> function =
        patch_function<T>(on.outputs.size(), of_channels ? on.inputs.size() : part.taps);
    const bool begins = part.opens && state == Sums::kBegin;
    const int x_offset =
        part.q.begin * shape.stride_w + (window.s0 + part.tap) * shape.dil_w - shape.pad_left;
    patch.start_stream = begins ? 0 : patch.sums_stream;
    patch.start_output = begins ? 0 : patch.sums_output;
    patch.cols = part.q.size();
    for (int r = window.r0; r < window.r1; ++r) {
      const Range p = common(rows, window.rows[r - window.r0]);
      if (p.empty() && !begins) continue;
      const int x_row = p.begin * shape.stride_h + r * shape.dil_h - shape.pad_top;
      patch.rows = p.size();
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
void for_pieces_and_chunks(const Channels<T>& on, int valid, Add add, Clean clean) {
  constexpr int kW = kWidth<T>;
  const ConvShape& shape = on.shape;
  const int x_cells = on.inputs.size() > 1 ? on.inputs.size() * shape.w * shape.stride_h : 0;
  const int row_bytes =
      (on.outputs.size() * needed_cols(shape) + x_cells) * kW * static_cast<int>(sizeof(T));
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

// dw [m][inputs][r][s] and db [m] of the group; db may be null.
template <typename T>
void add_channels(const Channels<T>& on, int inputs, int valid, T* dw, T* db) {
  constexpr int kW = kWidth<T>;
  const ConvShape& shape = on.shape;
  const TapWindow& window = on.window;
  alignas(64) T sums[(kMostOutputs * kMostSums + kLanes) * kW];
  alignas(64) T bias_sums[kLanes * kW];
  const int outputs = on.outputs.size();
  const int vectors = outputs * on.sums();
  for_pieces_and_chunks<T>(
      on, valid,
      [&](int lane, Range rows, Sums state) {
        add_rows(on, rows, lane, state, sums);
        if (db != nullptr) add_bias_rows(shape, on.dy + lane, outputs, rows, state, bias_sums);
      },
      [&](int lanes) {
        keep_valid(sums, vectors, lanes);
        if (db != nullptr) keep_valid(bias_sums, outputs, lanes);
      });

  alignas(64) T each[kMostOutputs * kMostSums + kLanes];
  for (int i = 0; i < vectors; i += kW) store(each + i, sum_of_each(sums + i * kW));
  // The window covers whole filters, or rows of each filter that lie apart.
  const bool whole = window.count() == shape.r * shape.s;
  const int length = whole ? on.sums() : window.columns();
  const T* from = each;
  for (int m = on.outputs.begin; m < on.outputs.end; ++m) {
    for (int k = on.inputs.begin; k < on.inputs.end; k += whole ? on.inputs.size() : 1) {
      for (int r = window.r0; r < window.r1; r += whole ? shape.r : 1, from += length) {
        add_to(dw + ((static_cast<ptrdiff_t>(m) * inputs + k) * shape.r + r) * shape.s + window.s0,
               from, length);
      }
    }
  }
  if (db == nullptr) return;
  for (int i = 0; i < outputs; i += kW) store(each + i, sum_of_each(bias_sums + i * kW));
  add_to(db + on.outputs.begin, each, outputs);
}

template <typename T>
void add_window(const ConvShape& shape, const TapWindow& window, int most_inputs, const T* x,
                const T* dy, int valid, T* dw, T* db) {
  const int inputs = shape.c / shape.groups;
  const int outputs = shape.m / shape.groups;
  const ptrdiff_t x_plane = static_cast<ptrdiff_t>(shape.h) * shape.w * kLanes;
  const ptrdiff_t dy_plane = static_cast<ptrdiff_t>(shape.p) * shape.q * kLanes;
  const int most_outputs = max_outputs(most_inputs > 1 ? most_inputs : window.most_taps);
  const bool with_bias = db != nullptr && window.r0 == 0 && window.s0 == 0;
  for (int g = 0; g < shape.groups; ++g) {
    T* filters = dw + static_cast<ptrdiff_t>(g) * outputs * inputs * shape.r * shape.s;
    Range m{0, 0};
    for (int i = 0; m.end < outputs; ++i) {
      m = share(outputs, most_outputs, i);
      Range k{0, 0};
      for (int j = 0; k.end < inputs; ++j) {
        k = share(inputs, most_inputs, j);
        const Channels<T> on{shape,
                             window,
                             x + (g * inputs + k.begin) * x_plane,
                             dy + (g * outputs + m.begin) * dy_plane,
                             k,
                             m};
        add_channels(on, inputs, valid, filters, with_bias && j == 0 ? db + g * outputs : nullptr);
      }
    }
  }
}

template <typename T>
void grad_filter(const ConvShape& shape, const T* x, const T* dy, int valid, T* dw, T* db) {
  if (valid <= 0) return;
  const Streams streams = choose_streams(shape);
  const int most_inputs = streams == Streams::kChannels ? kMostStreams : 1;
  const int most_sums = kMostSums / most_inputs;
  const int window_cols = shape.s < most_sums ? shape.s : most_sums;
  const int window_rows = most_sums / window_cols;
  for (int r = 0; r < shape.r; r += window_rows) {
    for (int s = 0; s < shape.s; s += window_cols) {
      const TapWindow window(shape, streams, r,
                             r + window_rows < shape.r ? r + window_rows : shape.r, s,
                             s + window_cols < shape.s ? s + window_cols : shape.s);
      add_window(shape, window, most_inputs, x, dy, valid, dw, db);
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
