// Elements that only move: whatever they mean, they are unsigned numbers of their size.
#include <cstring>

#include "ops/core/cuda_bytes.cuh"
#include "ops/core/strided_launch.h"
#include "ops/core/walk.cuh"

namespace sardonyx::ops::cuda {

namespace {

constexpr int kTile = 32;  // also the warp, so that a row of a tile is one access
constexpr int kRows = kBlock / kTile;

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

template <class T>
__global__ void copy_tiles(Tiles tiles, const T* src, T* dst) {
  __shared__ T tile[kTile][kTile + 1];  // one more: no two rows begin in the same bank
  const int64_t down = (tiles.height + kTile - 1) / kTile,
                across = (tiles.width + kTile - 1) / kTile;
  const int column = static_cast<int>(threadIdx.x) % kTile;
  const int first_row = static_cast<int>(threadIdx.x) / kTile;
  for (int64_t at = blockIdx.x; at < tiles.planes.count * down * across; at += gridDim.x) {
    const int64_t i = at / across % down * kTile, j = at % across * kTile;
    int64_t places[2];
    locate(tiles.planes, at / across / down, places);
    const T* from = src + places[0] + i + j * tiles.src_step;
    T* to = dst + places[1] + i * tiles.dst_step + j;
    __syncthreads();  // the tile before may still be read
    for (int row = first_row; row < kTile; row += kRows) {
      if (i + column < tiles.height && j + row < tiles.width) {
        tile[row][column] = from[column + row * tiles.src_step];
      }
    }
    __syncthreads();
    for (int row = first_row; row < kTile; row += kRows) {
      if (i + row < tiles.height && j + column < tiles.width) {
        to[row * tiles.dst_step + column] = tile[column][row];
      }
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
  const int64_t down = (tiles.height + kTile - 1) / kTile,
                across = (tiles.width + kTile - 1) / kTile;
  const int64_t count = tiles.planes.count * down * across;
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
