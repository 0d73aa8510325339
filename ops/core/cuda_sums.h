// Sums on a CUDA device that several rooms need. Kernels in ops/core/cuda_sums.cu.
//
// A sum is cut into pieces whose number depends on the shape alone; each is added up in double,
// then a second kernel adds the pieces in their order. So the same shape gives the same bits
// everywhere.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda.h"

namespace sardonyx::ops::cuda {

enum class Write : uint8_t { kOverwrite, kAdd };

// to[i] += from[i]. Elements of float, double or bfloat16, here and below.
void add(Stream stream, graph::DType dtype, int64_t count, const void* from, void* to);

// y[.., c, ..] += b[c]: element i of y is of channel i / inner % channels.
void add_per_channel(Stream stream, graph::DType dtype, int64_t count, int64_t channels,
                     int64_t inner, const void* b, void* y);

// What is added up for channel c: x[row * row_stride + c * channel_stride + i * cell_stride], over
// all rows and cells.
struct ChannelCells {
  int64_t rows = 0, channels = 0, cells = 1;
  int64_t row_stride = 0, channel_stride = 0, cell_stride = 1;

  // Of a dense array [rows][channels][cells].
  static ChannelCells dense(int64_t rows, int64_t channels, int64_t cells) {
    return {rows, channels, cells, channels * cells, cells, 1};
  }
  int64_t numel() const { return rows * channels * cells; }
  // Cells or channels in packs of `width`, each where its first element is, where they lie one
  // behind the other.
  bool in_packs_of_cells(int width) const;
  bool in_packs_of_channels(int width) const;
  ChannelCells packs_of_cells(int width) const;
  ChannelCells packs_of_channels(int width) const;
};

// How the threads of a block and the blocks of a grid share the channels: a block takes
// `channel_lanes` neighbouring channels and every piece-th part of their rows.
struct ChannelGrid {
  int channel_lanes = 1, cell_lanes = 1;  // powers of two; rows take the rest of the 256 threads
  int64_t blocks = 1;                     // of channels
  int64_t pieces = 1;                     // of rows
  int64_t rows_per_piece = 1;

  explicit ChannelGrid(const ChannelCells& cells);
};

// Doubles of partial sums for one sum per channel, in whatever packs.
int64_t most_partials(const ChannelCells& cells);

// sums[c] = scale * sum, or added to what sums holds; x and sums of one type. `partials`:
// sum_workspace(cells) bytes.
size_t sum_workspace(const ChannelCells& cells);
void sum_channels(Stream stream, graph::DType dtype, const ChannelCells& cells, const void* x,
                  double scale, Write write, void* sums, void* partials);

}  // namespace sardonyx::ops::cuda
