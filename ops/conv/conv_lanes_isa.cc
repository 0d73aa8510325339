// Convolution of a block of 16 images, forward and gradient of the data.
//
// Both are one loop: an output cell is a sum over input channels and the taps that fall inside the
// input, and the taps of a row or column are an arithmetic progression (AxisRun). Outputs with the
// same taps form runs, so borders cost no multiplication by zero and need no padded copy. A
// register block is CB*NB output channels x PB cells of one row.
#include "ops/conv/conv_lanes_runs.h"
#include "ops/core/lanes_vector.h"

namespace sardonyx::ops::lanes::SARDONYX_ISA {
namespace {

struct Loop {
  int count;
  ptrdiff_t in, w;  // steps
};

// Packed weights: [block of CB outputs][input channel][row tap][column tap][CB], outputs past the
// last are zero.
template <typename T>
struct Tile {
  const T* in;    // first cell, first channel, first tap
  const T* w;     // first block of outputs, first channel, first tap
  const T* bias;  // null or first output
  T* out;
  const T* mask;  // null or beside out
  ptrdiff_t in_cell, in_tile;
  ptrdiff_t out_channel, out_cell, out_tile;
  ptrdiff_t w_block;
  Loop outer, middle, inner;  // over input channels and taps, in any order
  int live;                   // outputs of these blocks that exist
  int tiles;                  // one below the other
  Activation activation;
};

// The compiler would hold every field of the tile in a register of its own, and every broadcast
// bias, and spill the accumulators for it: this makes it read them again.
[[gnu::always_inline]] inline void forget(const void* what) {
  asm volatile("" : : "r"(what) : "memory");
}

template <typename T, int CB, int NB, int PB>
void run_tiles(const Tile<T>& tile) {
  constexpr int kOutputs = CB * NB;
  T start[kOutputs];
  for (int c = 0; c < kOutputs; ++c) {
    start[c] = tile.bias != nullptr && c < tile.live ? tile.bias[c] : T(0);
  }
  for (int t = 0; t < tile.tiles; ++t) {
    forget(start);
    Vec<T> acc[kOutputs][PB];
#pragma GCC unroll 32
    for (int c = 0; c < kOutputs; ++c) {
#pragma GCC unroll 32
      for (int b = 0; b < PB; ++b) acc[c][b] = broadcast<T>(start[c]);
    }
    const T* in_k = tile.in + t * tile.in_tile;
    const T* w_k = tile.w;
    for (int k = 0; k < tile.outer.count; ++k, in_k += tile.outer.in, w_k += tile.outer.w) {
      const T* in_i = in_k;
      const T* w_i = w_k;
      for (int i = 0; i < tile.middle.count; ++i, in_i += tile.middle.in, w_i += tile.middle.w) {
        const T* in = in_i;
        const T* w = w_i;
        forget(&tile);
        for (int j = 0; j < tile.inner.count; ++j, in += tile.inner.in, w += tile.inner.w) {
          Vec<T> x[PB];
#pragma GCC unroll 32
          for (int b = 0; b < PB; ++b) x[b] = load(in + b * tile.in_cell);
#pragma GCC unroll 32
          for (int c = 0; c < kOutputs; ++c) {
            const Vec<T> weight = broadcast<T>(w[c / CB * tile.w_block + c % CB]);
#pragma GCC unroll 32
            for (int b = 0; b < PB; ++b) acc[c][b] += x[b] * weight;
          }
        }
      }
    }
    T* out = tile.out + t * tile.out_tile;
    const T* mask = tile.mask == nullptr ? nullptr : tile.mask + t * tile.out_tile;
#pragma GCC unroll 32
    for (int c = 0; c < kOutputs; ++c) {
      if (c < tile.live) {
        const ptrdiff_t at = c * tile.out_channel;
#pragma GCC unroll 32
        for (int b = 0; b < PB; ++b) {
          Vec<T> v = acc[c][b];
          if (tile.activation == Activation::kRelu) v = relu<T>(v);
          if (mask != nullptr) v = relu_mask<T>(v, mask + at + b * tile.out_cell);
          store(out + at + b * tile.out_cell, v);
        }
      }
    }
  }
}

template <typename T>
using TileFunction = void (*)(const Tile<T>&);

constexpr int max_cells(int cb) { return kAccumulators / cb < 6 ? kAccumulators / cb : 6; }
// Blocks of outputs whose weights pass together over all cells, so that they stay in the
// first-level cache.
constexpr int kBlocksAtOnce = 2;
// Input rows that all outputs pass over before the next rows are touched: a share of the
// second-level cache.
constexpr ptrdiff_t kBandBytes = 320 * 1024;
constexpr int max_blocks(int cb, int cells) {
  const int n = kAccumulators / (cb * cells);
  return n < 1 ? 1 : n < kBlocksAtOnce ? n : kBlocksAtOnce;
}

template <typename T, int CB, int PB, int NB = max_blocks(CB, PB)>
TileFunction<T> tile_function(int cells, int blocks) {
  if constexpr (NB > 1) {
    if (blocks < NB) return tile_function<T, CB, PB, NB - 1>(cells, blocks);
  }
  if constexpr (PB > 1) {
    if (cells < PB) return tile_function<T, CB, PB - 1>(cells, blocks);
  }
  return run_tiles<T, CB, NB, PB>;
}

// Outputs per block: the width that wastes least on `outputs` channels; a wider one wins a tie.
constexpr int kBlockSizes[] = {kRegisters == 32 ? 6 : 4, kRegisters == 32 ? 5 : 3,
                               kRegisters == 32 ? 4 : 3};

int outputs_per_block(int outputs) {
  if (outputs == 1) return 1;
  int best = kBlockSizes[0];
  for (int size : kBlockSizes) {
    if (round_up(outputs, size) < round_up(outputs, best)) best = size;
  }
  return best;
}

template <typename T>
TileFunction<T> tile_function(int block_size, int cells, int blocks) {
  if (block_size == kBlockSizes[0])
    return tile_function<T, kBlockSizes[0], max_cells(kBlockSizes[0])>(cells, blocks);
  if (block_size == kBlockSizes[1])
    return tile_function<T, kBlockSizes[1], max_cells(kBlockSizes[1])>(cells, blocks);
  if (block_size == kBlockSizes[2])
    return tile_function<T, kBlockSizes[2], max_cells(kBlockSizes[2])>(cells, blocks);
  return tile_function<T, 1, max_cells(1)>(cells, blocks);
}

// One direction: outputs = sum over inputs, whichever of x and y they are.
template <typename T>
struct Pass {
  AxisMap rows, cols;   // output coordinate -> taps and input coordinates
  int inputs, outputs;  // channels per group
  ptrdiff_t in_channel, in_width, out_channel, out_width;
  Activation activation;
};

// The pointers of one group and one piece of the lanes; bias and mask may be null.
template <typename T>
struct Operands {
  const T* in;
  const T* packed;
  const T* bias;
  const T* mask;
  T* out;
};

// Neighbours along one axis of a rectangle of outputs.
struct Line {
  int count;
  ptrdiff_t in, out;  // steps
};

// Blocks [first, end) of outputs, of `size` channels each.
struct Blocks {
  int size, first, end;
};

// Some blocks of outputs at the cells x others of a rectangle whose corner is at `in` and `out`
// (offsets).
template <typename T>
void run_blocks(const Operands<T>& on, int outputs, const Blocks& blocks, int width, ptrdiff_t in,
                ptrdiff_t out, Tile<T>* tile) {
  const int most = max_blocks(blocks.size, width);
  for (int block = blocks.first; block < blocks.end; block += most) {
    const int first = block * blocks.size;
    const int used = blocks.end - block < most ? blocks.end - block : most;
    const ptrdiff_t at = out + first * tile->out_channel;
    tile->live = outputs - first < used * blocks.size ? outputs - first : used * blocks.size;
    tile->in = on.in + in;
    tile->w = on.packed + block * tile->w_block;
    tile->bias = on.bias == nullptr ? nullptr : on.bias + first;
    tile->out = on.out + at;
    tile->mask = on.mask == nullptr ? nullptr : on.mask + at;
    tile_function<T>(blocks.size, width, used)(*tile);
  }
}

// The cells of a register block lie along one side of the rectangle. Its tiles go along the other,
// or along the same where there is only one. What is left over at the end of a side is a rectangle
// that may better be turned.
template <typename T>
void cover(const Operands<T>& on, int outputs, const Blocks& blocks, Line cells, Line others,
           ptrdiff_t in, ptrdiff_t out, Tile<T>* tile) {
  const int most = max_cells(blocks.size);
  if (cells.count < most && cells.count < others.count) {
    const Line line = cells;
    cells = others;
    others = line;
  }
  const int width = cells.count < most ? cells.count : most;
  const int full = cells.count / width;
  const Line tiles = others.count == 1 ? Line{full, width * cells.in, width * cells.out} : others;
  tile->in_cell = cells.in;
  tile->out_cell = cells.out;
  tile->tiles = tiles.count;
  tile->in_tile = tiles.in;
  tile->out_tile = tiles.out;
  const int calls = others.count == 1 ? 1 : full;
  for (int call = 0; call < calls; ++call) {
    run_blocks(on, outputs, blocks, width, in + call * width * cells.in,
               out + call * width * cells.out, tile);
  }
  const int left = cells.count - full * width;
  if (left == 0) return;
  cover(on, outputs, blocks, Line{left, cells.in, cells.out}, others, in + full * width * cells.in,
        out + full * width * cells.out, tile);
}

// Outputs (row run) x (column run) of some blocks.
template <typename T>
void run_rectangle(const Pass<T>& pass, const Operands<T>& on, const Blocks& blocks,
                   const AxisRun& row, const AxisRun& col) {
  const ptrdiff_t row_taps = static_cast<ptrdiff_t>(pass.cols.taps) * blocks.size;
  const ptrdiff_t channel_taps = pass.rows.taps * row_taps;
  const Loop channels{pass.inputs, pass.in_channel, channel_taps};
  const Loop rows{row.taps, row.in_step * pass.in_width, row.tap_step * row_taps};
  const Loop cols{col.taps, col.in_step * ptrdiff_t{kLanes}, col.tap_step * ptrdiff_t{blocks.size}};
  Tile<T> tile;
  tile.activation = pass.activation;
  tile.out_channel = pass.out_channel;
  tile.w_block = channel_taps * pass.inputs;
  // A short innermost loop costs more than jumps from channel to channel, unless all channels fall
  // into the same few sets of the first-level cache.
  const bool collide = pass.in_channel * static_cast<ptrdiff_t>(sizeof(T)) % 2048 == 0;
  const bool short_taps = cols.count < (collide ? 3 : 6) && channels.count > cols.count;
  tile.outer = short_taps ? rows : channels;
  tile.middle = short_taps ? cols : rows;
  tile.inner = short_taps ? channels : cols;
  const Operands<T> at{on.in, on.packed + row.tap * row_taps + col.tap * blocks.size, on.bias,
                       on.mask, on.out};
  cover(at, pass.outputs, blocks,
        Line{col.count, col.in_next * ptrdiff_t{kLanes}, col.step * ptrdiff_t{kLanes}},
        Line{row.count, row.in_next * pass.in_width, row.step * pass.out_width},
        row.in * pass.in_width + col.in * ptrdiff_t{kLanes},
        row.first * pass.out_width + col.first * ptrdiff_t{kLanes}, &tile);
}

size_t packed_size(int inputs, int outputs, const ConvShape& shape) {
  return static_cast<size_t>(shape.groups) * inputs * shape.r * shape.s *
         round_up(outputs, outputs_per_block(outputs));
}

// w(output, input) starts at w + output * w_output + input * w_input, group after group.
template <typename T>
void pack(int groups, int inputs, int outputs, int taps, ptrdiff_t w_input, ptrdiff_t w_output,
          const T* w, T* packed) {
  const int size = outputs_per_block(outputs);
  for (int g = 0; g < groups; ++g, w += static_cast<ptrdiff_t>(inputs) * outputs * taps) {
    for (int first = 0; first < outputs; first += size) {
      for (int k = 0; k < inputs; ++k) {
        for (int tap = 0; tap < taps; ++tap) {
          for (int c = 0; c < size; ++c) {
            const bool exists = first + c < outputs;
            *packed++ = exists ? w[(first + c) * w_output + k * w_input + tap] : T(0);
          }
        }
      }
    }
  }
}

size_t forward_packed_size(const ConvShape& shape) {
  return packed_size(shape.c / shape.groups, shape.m / shape.groups, shape);
}

size_t grad_data_packed_size(const ConvShape& shape) {
  return packed_size(shape.m / shape.groups, shape.c / shape.groups, shape);
}

template <typename T>
void pack_forward(const ConvShape& shape, const T* w, T* packed) {
  const int inputs = shape.c / shape.groups;
  const int taps = shape.r * shape.s;
  pack<T>(shape.groups, inputs, shape.m / shape.groups, taps, taps,
          static_cast<ptrdiff_t>(inputs) * taps, w, packed);
}

template <typename T>
void pack_grad_data(const ConvShape& shape, const T* w, T* packed) {
  const int outputs = shape.c / shape.groups;
  const int taps = shape.r * shape.s;
  pack<T>(shape.groups, shape.m / shape.groups, outputs, taps,
          static_cast<ptrdiff_t>(outputs) * taps, taps, w, packed);
}

// The two innermost of the loops; a few blocks of outputs pass over all cells before the next ones
// do.
template <typename T>
void run_rectangles(const Pass<T>& pass, const Operands<T>& on, const AxisRuns& rows,
                    const AxisRuns& cols) {
  const int size = outputs_per_block(pass.outputs);
  const int blocks = round_up(pass.outputs, size) / size;
  for (int block = 0; block < blocks; block += kBlocksAtOnce) {
    const int end = block + kBlocksAtOnce < blocks ? block + kBlocksAtOnce : blocks;
    for (int c = 0; c < cols.count; ++c) {
      for (int r = 0; r < rows.count; ++r) {
        run_rectangle(pass, on, Blocks{size, block, end}, rows.runs[r], cols.runs[c]);
      }
    }
  }
}

template <typename T>
void run(const ConvShape& shape, const Pass<T>& pass, const Operands<T>& on) {
  const ptrdiff_t packed_group = packed_size(pass.inputs, pass.outputs, shape) / shape.groups;
  const ptrdiff_t row_bytes =
      pass.inputs * pass.in_width * static_cast<ptrdiff_t>(sizeof(T)) / kPieces<T>;
  const int band = row_bytes < kBandBytes ? static_cast<int>(kBandBytes / row_bytes) : 1;
  AxisRuns rows(pass.rows, band);
  while (rows.next()) {
    AxisRuns cols(pass.cols, pass.cols.outputs);
    while (cols.next()) {
      for (int g = 0; g < shape.groups; ++g) {
        for (int lane = 0; lane < kLanes; lane += kWidth<T>) {
          const ptrdiff_t out_at = g * pass.outputs * pass.out_channel + lane;
          const Operands<T> part{on.in + g * pass.inputs * pass.in_channel + lane,
                                 on.packed + g * packed_group,
                                 on.bias == nullptr ? nullptr : on.bias + g * pass.outputs,
                                 on.mask == nullptr ? nullptr : on.mask + out_at, on.out + out_at};
          run_rectangles(pass, part, rows, cols);
        }
      }
    }
  }
}

template <typename T>
void forward(const ConvShape& shape, const T* x, const T* packed, const T* bias,
             Activation activation, T* y) {
  Pass<T> pass;
  pass.rows = forward_axis(needed_rows(shape), shape.h, shape.r, shape.stride_h, shape.dil_h,
                           shape.pad_top);
  pass.cols = forward_axis(needed_cols(shape), shape.w, shape.s, shape.stride_w, shape.dil_w,
                           shape.pad_left);
  pass.inputs = shape.c / shape.groups;
  pass.outputs = shape.m / shape.groups;
  pass.in_width = static_cast<ptrdiff_t>(shape.w) * kLanes;
  pass.in_channel = shape.h * pass.in_width;
  pass.out_width = static_cast<ptrdiff_t>(shape.q) * kLanes;
  pass.out_channel = shape.p * pass.out_width;
  pass.activation = activation;
  run(shape, pass, Operands<T>{x, packed, bias, nullptr, y});
}

template <typename T>
void grad_data(const ConvShape& shape, const T* dy, const T* packed, const T* relu_output, T* dx) {
  Pass<T> pass;
  pass.rows = gradient_axis(needed_rows(shape), shape.h, shape.r, shape.stride_h, shape.dil_h,
                            shape.pad_top);
  pass.cols = gradient_axis(needed_cols(shape), shape.w, shape.s, shape.stride_w, shape.dil_w,
                            shape.pad_left);
  pass.inputs = shape.m / shape.groups;
  pass.outputs = shape.c / shape.groups;
  pass.in_width = static_cast<ptrdiff_t>(shape.q) * kLanes;
  pass.in_channel = shape.p * pass.in_width;
  pass.out_width = static_cast<ptrdiff_t>(shape.w) * kLanes;
  pass.out_channel = shape.h * pass.out_width;
  pass.activation = Activation::kNone;
  run(shape, pass, Operands<T>{dy, packed, nullptr, relu_output, dx});
}

}  // namespace

template <typename T>
void add_filter_gradient(LaneKernels<T>* kernels);

template <typename T>
void add_conv(LaneKernels<T>* kernels) {
  kernels->conv_forward_packed_size = forward_packed_size;
  kernels->conv_grad_data_packed_size = grad_data_packed_size;
  kernels->conv_pack_forward = pack_forward<T>;
  kernels->conv_pack_grad_data = pack_grad_data<T>;
  kernels->conv_forward = forward<T>;
  kernels->conv_grad_data = grad_data<T>;
  add_filter_gradient(kernels);
}

template void add_conv<float>(LaneKernels<float>*);
template void add_conv<double>(LaneKernels<double>*);

}  // namespace sardonyx::ops::lanes::SARDONYX_ISA
