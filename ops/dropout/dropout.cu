// Masks bit by bit those of ops/core/random.cc: one thread runs one Philox block, whose four words
// belong to elements 16 apart, so that neighbouring threads write neighbouring elements.
#include "ops/core/bfloat16.cuh"
#include "ops/dropout/dropout_cuda.h"

namespace sardonyx::ops::dropout {

namespace {

using cuda::Computed;
using cuda::for_elements;
using cuda::grid_over;

// As in ops/core/random.h.
constexpr int64_t kChunk = 64, kLanes = 16;
constexpr int kWords = 4;

struct Block {
  uint32_t word[kWords];
};

__device__ inline Block philox(uint64_t stream, uint64_t sample, uint64_t counter) {
  Block block{{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
               static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)}};
  uint32_t key0 = static_cast<uint32_t>(stream), key1 = static_cast<uint32_t>(stream >> 32);
  for (int round = 0; round < 10; ++round, key0 += 0x9e3779b9u, key1 += 0xbb67ae85u) {
    const uint64_t a = uint64_t{0xd2511f53u} * block.word[0];
    const uint64_t b = uint64_t{0xcd9e8d57u} * block.word[2];
    block = {{static_cast<uint32_t>(b >> 32) ^ block.word[1] ^ key0, static_cast<uint32_t>(b),
              static_cast<uint32_t>(a >> 32) ^ block.word[3] ^ key1, static_cast<uint32_t>(a)}};
  }
  return block;
}

template <class T>
__global__ void drop_kernel(Drawn d, int64_t blocks_per_row, Computed<T> scale, const T* x, T* y,
                            uint8_t* mask) {
  for_elements(d.rows * blocks_per_row, [&](int64_t i) {
    const int64_t row = i / blocks_per_row, counter = i % blocks_per_row;
    const int64_t first = counter / kLanes * kChunk + counter % kLanes;
    if (first >= d.elements) return;
    const Block bits = philox(d.stream, static_cast<uint64_t>(d.first_sample + row),
                              static_cast<uint64_t>(counter));
    for (int word = 0; word < kWords; ++word) {
      const int64_t element = first + word * kLanes;
      if (element >= d.elements) return;
      const int64_t at = row * d.elements + element;
      const bool keep = bits.word[word] >= d.threshold;
      y[at] = keep ? x[at] * scale : 0;
      if (mask != nullptr) mask[at] = keep ? 1 : 0;
    }
  });
}

template <class T>
__global__ void gradient_kernel(int64_t n, Computed<T> scale, const T* dy, const uint8_t* mask,
                                T* dx) {
  for_elements(n, [&](int64_t i) { dx[i] = mask[i] != 0 ? dy[i] * scale : 0; });
}

template <class T>
__global__ void ones_kernel(int64_t n, T* to) {
  for_elements(n, [&](int64_t i) { to[i] = 1; });
}

}  // namespace

void launch_drop(cuda::Stream stream, graph::DType dtype, const Drawn& d, double scale,
                 const void* x, void* y, uint8_t* mask) {
  const int64_t blocks_per_row = (d.elements + kChunk - 1) / kChunk * kLanes;
  const int64_t count = d.rows * blocks_per_row;
  if (count == 0) return;
  cuda::dispatch_stored(dtype, [&]<class T>() {
    LAUNCH((drop_kernel<T>), grid_over(count), stream, d, blocks_per_row, scale,
           static_cast<const T*>(x), static_cast<T*>(y), mask);
  });
}

void launch_gradient(cuda::Stream stream, graph::DType dtype, int64_t n, double scale,
                     const void* dy, const uint8_t* mask, void* dx) {
  if (n == 0) return;
  cuda::dispatch_stored(dtype, [&]<class T>() {
    LAUNCH((gradient_kernel<T>), grid_over(n), stream, n, scale, static_cast<const T*>(dy), mask,
           static_cast<T*>(dx));
  });
}

void launch_ones(cuda::Stream stream, graph::DType dtype, int64_t n, void* mask) {
  if (n == 0) return;
  if (dtype == graph::DType::kBool) {
    LAUNCH((ones_kernel<uint8_t>), grid_over(n), stream, n, static_cast<uint8_t*>(mask));
    return;
  }
  cuda::dispatch_stored(dtype, [&]<class T>() {
    LAUNCH((ones_kernel<T>), grid_over(n), stream, n, static_cast<T*>(mask));
  });
}

}  // namespace sardonyx::ops::dropout
