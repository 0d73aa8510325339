#include "ops/core/cuda_sums.cuh"

namespace sardonyx::ops::cuda {

namespace {

template <class T>
__global__ void add_kernel(int64_t count, const T* from, T* to) {
  for_elements(count, [&](int64_t i) { to[i] += from[i]; });
}

template <class T>
__global__ void add_channel_kernel(int64_t count, int64_t channels, int64_t inner, const T* b,
                                   T* y) {
  for_elements(count, [&](int64_t i) { y[i] += b[i / inner % channels]; });
}

template <class T>
__global__ void partial_kernel(ChannelWalk walk, const T* x, double* partials) {
  double sum = 0;
  if (walk.has_channel()) walk.each([&](int64_t at) { sum += static_cast<double>(x[at]); });
  store_partials(walk, {sum, 0.0}, partials, nullptr);
}

template <class T>
__global__ void finish_kernel(const double* partials, int64_t pieces, int64_t channels,
                              double scale, Write write, T* sums) {
  for_elements(channels, [&](int64_t c) {
    const double start = write == Write::kAdd ? static_cast<double>(sums[c]) : 0.0;
    sums[c] = static_cast<T>(start + scale * sum_of_pieces(partials, pieces, channels, c));
  });
}

int64_t over(int64_t n, int64_t by) { return (n + by - 1) / by; }

// The smallest power of two that isn't below n, at most `most`.
int lanes_for(int64_t n, int most) {
  int lanes = 1;
  while (lanes < n && lanes < most) lanes *= 2;
  return lanes;
}

}  // namespace

ChannelGrid::ChannelGrid(const ChannelCells& cells) {
  constexpr int64_t kWantedBlocks = 132 * 8, kWorthABlock = 8 * kBlock;
  constexpr int64_t kMostPieces = 1024;
  // Neighbouring threads read neighbouring elements, whatever these are.
  const bool by_channel = cells.channel_stride < cells.cell_stride || cells.cells == 1;
  channel_lanes = by_channel ? lanes_for(cells.channels, kWarp) : 1;
  cell_lanes = lanes_for(cells.cells, kBlock / channel_lanes);
  blocks = over(cells.channels, channel_lanes);
  const int64_t work = over(cells.rows * cells.cells * channel_lanes, kWorthABlock);
  const int64_t wanted = over(kWantedBlocks, blocks < 1 ? 1 : blocks);
  int64_t most = wanted < work ? wanted : work;
  if (most > cells.rows) most = cells.rows;
  if (most > kMostPieces) most = kMostPieces;
  rows_per_piece = most < 1 ? 1 : over(cells.rows, most);
  pieces = cells.rows == 0 ? 1 : over(cells.rows, rows_per_piece);
}

void add(Stream stream, graph::DType dtype, int64_t count, const void* from, void* to) {
  if (count == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    LAUNCH((add_kernel<T>), grid_over(count), stream, count, static_cast<const T*>(from),
           static_cast<T*>(to));
  });
}

void add_per_channel(Stream stream, graph::DType dtype, int64_t count, int64_t channels,
                     int64_t inner, const void* b, void* y) {
  if (count == 0) return;
  dispatch_float(dtype, [&]<class T>() {
    LAUNCH((add_channel_kernel<T>), grid_over(count), stream, count, channels, inner,
           static_cast<const T*>(b), static_cast<T*>(y));
  });
}

size_t sum_workspace(const ChannelCells& cells) {
  return static_cast<size_t>(ChannelGrid(cells).partials(cells.channels)) * sizeof(double);
}

void sum_channels(Stream stream, graph::DType dtype, const ChannelCells& cells, const void* x,
                  double scale, Write write, void* sums, void* partials) {
  if (cells.channels == 0) return;
  const ChannelGrid grid(cells);
  auto* parts = static_cast<double*>(partials);
  dispatch_float(dtype, [&]<class T>() {
    LAUNCH((partial_kernel<T>), grid_of(grid), stream, ChannelWalk(cells, grid),
           static_cast<const T*>(x), parts);
    LAUNCH((finish_kernel<T>), grid_over(cells.channels), stream, parts, grid.pieces,
           cells.channels, scale, write, static_cast<T*>(sums));
  });
}

}  // namespace sardonyx::ops::cuda
