// Elements that only move: whatever they mean, they are unsigned numbers of their size.
#include <cstring>

#include "ops/core/cuda_bytes.cuh"
#include "ops/core/strided_launch.h"
#include "ops/core/walk.cuh"

namespace sardonyx::ops::cuda {

namespace {

template <class F>
void with_bytes(int bytes, const F& f) {
  if (bytes > 8) return f.template operator()<Pack<uint64_t, 2>>();
  dispatch_bytes(bytes, f);
}

template <class T>
__global__ void copy_steps(Walk<2> walk, const T* src, T* dst) {
  for_elements(walk.count, [&](int64_t i) {
    int64_t places[2];
    locate(walk, i, places);
    dst[places[1]] = src[places[0]];
  });
}

__host__ __device__ inline int64_t tiles_over(int64_t size, int side) {
  return (size + side - 1) / side;
}

template <class T>
__global__ void copy_tiles(Tiles tiles, const T* src, T* dst) {
  __shared__ T tile[Tiles::kMost];
  const int64_t down = tiles_over(tiles.height, tiles.tile_height),
                across = tiles_over(tiles.width, tiles.tile_width);
  const int pitch = tiles.tile_height | 1;  // no two columns begin in the same bank
  for (int64_t at = blockIdx.x; at < tiles.planes.count * down * across; at += gridDim.x) {
    const int64_t i = at / across % down * tiles.tile_height, j = at % across * tiles.tile_width;
    int64_t places[2];
    locate(tiles.planes, at / across / down, places);
    const T* from = src + places[0] + i + j * tiles.src_step;
    T* to = dst + places[1] + i * tiles.dst_step + j;
    const int64_t left = tiles.height - i, right = tiles.width - j;
    const int rows = static_cast<int>(left < tiles.tile_height ? left : tiles.tile_height);
    const int columns = static_cast<int>(right < tiles.tile_width ? right : tiles.tile_width);
    __syncthreads();  // the tile before may still be read
    for (int k = static_cast<int>(threadIdx.x); k < rows * columns; k += kBlock) {
      const int row = k % rows, column = k / rows;
      tile[column * pitch + row] = from[row + column * tiles.src_step];
    }
    __syncthreads();
    for (int k = static_cast<int>(threadIdx.x); k < rows * columns; k += kBlock) {
      const int row = k / columns, column = k % columns;
      to[row * tiles.dst_step + column] = tile[column * pitch + row];
    }
  }
}

template <class T>
__global__ void fill_elements(int64_t n, T value, T* dst) {
  for_elements(n, [&](int64_t i) { dst[i] = value; });
}

}  // namespace

void launch_steps(Stream stream, int bytes, const Walk<2>& walk, const void* src, void* dst) {
  if (walk.count == 0) return;
  with_bytes(bytes, [&]<class T>() {
    LAUNCH((copy_steps<T>), grid_over(walk.count), stream, walk, static_cast<const T*>(src),
           static_cast<T*>(dst));
  });
}

void launch_tiles(Stream stream, int bytes, const Tiles& tiles, const void* src, void* dst) {
  if (tiles.height * tiles.width == 0) return;
  const int64_t count = tiles.planes.count * tiles_over(tiles.height, tiles.tile_height) *
                        tiles_over(tiles.width, tiles.tile_width);
  if (count == 0) return;
  with_bytes(bytes, [&]<class T>() {
    LAUNCH((copy_tiles<T>), grid_over(count * kBlock), stream, tiles, static_cast<const T*>(src),
           static_cast<T*>(dst));
  });
}

void launch_fill(Stream stream, int bytes, int64_t n, const void* value, void* dst) {
  if (n == 0) return;
  with_bytes(bytes, [&]<class T>() {
    T element;
    std::memcpy(&element, value, sizeof element);
    LAUNCH((fill_elements<T>), grid_over(n), stream, n, element, static_cast<T*>(dst));
  });
}

}  // namespace sardonyx::ops::cuda
