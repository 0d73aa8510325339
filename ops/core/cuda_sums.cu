#include "ops/core/bfloat16.cuh"
#include "ops/core/cuda_sums.cuh"
#include "ops/core/walk.cuh"

namespace sardonyx::ops::cuda {

namespace {

template <class T>
struct Plus {
  __device__ T operator()(T a, T b) const { return a + b; }
};

template <class T>
__global__ void add_channel_kernel(int64_t count, int64_t channels, int64_t inner, const T* b,
                                   T* y) {
  for_elements(count, [&](int64_t i) { y[i] = y[i] + b[i / inner % channels]; });
}

template <class T, int kWidth, int kAcross>
__global__ void partial_kernel(ChannelWalk walk, const T* x, double* partials) {
  double sums[kAcross] = {};
  if (walk.has_channel()) {
    walk.each([&](int64_t at) {
      const Pack<T, kWidth> values = load_pack<kWidth>(x + at);
      for (int j = 0; j < kWidth; ++j) sums[j % kAcross] += static_cast<double>(values.at[j]);
    });
  }
  store_partials<1, kAcross>(walk, sums, partials);
}

template <class T>
__global__ void finish_kernel(const double* partials, int64_t pieces, int64_t channels,
                              double scale, Write write, T* to) {
  finish_sums<1>(partials, pieces, channels, [&](int64_t c, const double* sums) {
    const double start = write == Write::kAdd ? static_cast<double>(to[c]) : 0.0;
    to[c] = static_cast<Computed<T>>(start + scale * sums[0]);
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

bool ChannelCells::in_packs_of_cells(int width) const {
  // Fewer packs than threads of a warp would leave threads without work.
  return cell_stride == 1 && channel_stride % width == 0 && row_stride % width == 0 &&
         cells % width == 0 && cells >= int64_t{width} * kWarp;
}
bool ChannelCells::in_packs_of_channels(int width) const {
  return cells == 1 && channel_stride == 1 && row_stride % width == 0 && channels % width == 0;
}
ChannelCells ChannelCells::packs_of_cells(int width) const {
  return {rows, channels, cells / width, row_stride, channel_stride, width};
}
ChannelCells ChannelCells::packs_of_channels(int width) const {
  return {rows, channels / width, 1, row_stride, width, 1};
}

int64_t most_partials(const ChannelCells& cells) {
  int64_t pieces = ChannelGrid(cells).pieces;
  const auto consider = [&](const ChannelCells& packs) {
    const int64_t others = ChannelGrid(packs).pieces;
    if (others > pieces) pieces = others;
  };
  for (const int width : {2, 4, 8}) {
    if (cells.in_packs_of_cells(width)) consider(cells.packs_of_cells(width));
    if (cells.in_packs_of_channels(width)) consider(cells.packs_of_channels(width));
  }
  return pieces * cells.channels;
}

void add(Stream stream, graph::DType dtype, int64_t count, const void* from, void* to) {
  dispatch_stored(dtype, [&]<class T>() {
    launch_dense(stream, count, Plus<Computed<T>>(), static_cast<T*>(to), static_cast<const T*>(to),
                 static_cast<const T*>(from));
  });
}

void add_per_channel(Stream stream, graph::DType dtype, int64_t count, int64_t channels,
                     int64_t inner, const void* b, void* y) {
  if (count == 0) return;
  dispatch_stored(dtype, [&]<class T>() {
    LAUNCH((add_channel_kernel<T>), grid_over(count), stream, count, channels, inner,
           static_cast<const T*>(b), static_cast<T*>(y));
  });
}

size_t sum_workspace(const ChannelCells& cells) {
  return static_cast<size_t>(most_partials(cells)) * sizeof(double);
}

void sum_channels(Stream stream, graph::DType dtype, const ChannelCells& cells, const void* x,
                  double scale, Write write, void* sums, void* partials) {
  if (cells.channels == 0) return;
  auto* parts = static_cast<double*>(partials);
  dispatch_stored(dtype, [&]<class T>() {
    const auto* from = static_cast<const T*>(x);
    with_packs<T>(cells, aligned_for_packs(x), [&]<int kWidth, int kAcross>(const auto& packs) {
      const ChannelGrid grid(packs);
      LAUNCH((partial_kernel<T, kWidth, kAcross>), grid_of(grid), stream, ChannelWalk(packs, grid),
             from, parts);
      LAUNCH((finish_kernel<T>), finish_grid(cells.channels), stream, parts, grid.pieces,
             cells.channels, scale, write, static_cast<T*>(sums));
    });
  });
}

}  // namespace sardonyx::ops::cuda
