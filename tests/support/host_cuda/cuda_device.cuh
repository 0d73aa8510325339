// CUDA's keywords and built-ins on the host, as ops/core/cuda.cuh wants them: a .cu file is
// compiled as C++ and each CUDA thread of a block is a fiber (block.cc), so barriers and shuffles
// work.
//
// Kernels get the device pointers among their arguments, also those inside structs passed by value,
// translated to where the bytes really lie (memory.h). A pointer that reaches a kernel any other
// way, from a table in device memory, is not translated and ends in a fault.
#pragma once

#include <math.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
// One copy for all fibers of a host thread; what a block finds in it is what the last one left.
#define __shared__ static thread_local

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;

namespace sardonyx::ops::cuda {
struct Grid;
struct StreamHandle;
}  // namespace sardonyx::ops::cuda

namespace sardonyx::host_cuda {

// What the threads of a warp do together. All 32 must do the same.
enum class Together : uint8_t { kShuffle, kShuffleXor, kShuffleDown };

// Returns when every thread of the block is here.
void barrier();
// Returns when every thread of the warp is here: what each of them gave, by lane.
const uint64_t* exchange(Together what, unsigned mask, int width, uint64_t bits);

template <class T>
uint64_t to_bits(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline int lane() { return static_cast<int>(threadIdx.x % 32); }

// The arguments of one launch: checks them and turns device addresses into where the bytes lie.
class Arguments {
 public:
  Arguments(const char* name, ops::cuda::StreamHandle* stream);
  ~Arguments();
  template <class T>
  void add(T& value) {
    static_assert(std::is_trivially_copyable_v<T>, "kernels take plain data");
    if constexpr (std::is_pointer_v<T>) {
      value = static_cast<T>(const_cast<void*>(pointer(value, alignment<T>())));
    } else if constexpr (std::is_class_v<T> && !std::is_empty_v<T>) {
      // (An empty one shares its byte with another value of the tuple.)
      __builtin_clear_padding(&value);
      words(&value, sizeof value);
    }
  }
  // `thread` is run once for each CUDA thread.
  void enqueue(const ops::cuda::Grid& grid, std::function<void()> thread);

 private:
  struct Impl;
  template <class T>
  static constexpr size_t alignment() {
    using Target = std::remove_pointer_t<T>;
    if constexpr (std::is_void_v<Target>)
      return 1;
    else
      return alignof(Target);
  }
  const void* pointer(const void* address, size_t alignment);
  void words(void* bytes, size_t size);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sardonyx::host_cuda

inline void __syncthreads() { sardonyx::host_cuda::barrier(); }

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  namespace host = sardonyx::host_cuda;
  const auto* all = host::exchange(host::Together::kShuffle, mask, width, host::to_bits(value));
  return host::from_bits<T>(all[from % 32]);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  namespace host = sardonyx::host_cuda;
  const auto* all = host::exchange(host::Together::kShuffleXor, mask, width, host::to_bits(value));
  return host::from_bits<T>(all[(host::lane() ^ lanes) % 32]);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  namespace host = sardonyx::host_cuda;
  const auto* all = host::exchange(host::Together::kShuffleDown, mask, width, host::to_bits(value));
  const unsigned from = static_cast<unsigned>(host::lane()) + distance;
  return from < 32 ? host::from_bits<T>(all[from]) : value;
}

namespace sardonyx::ops::cuda {

// The bits of the nearest bfloat16, of two the even one; NaN stays NaN.
inline uint16_t bfloat16_bits(float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  if (number != number) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class... Parameters, class... Values>
void launch(const char* name, void (*kernel)(Parameters...), const Grid& grid, StreamHandle* stream,
            const Values&... given) {
  static_assert(sizeof...(Parameters) == sizeof...(Values));
  std::tuple<Parameters...> values(static_cast<Parameters>(given)...);
  host_cuda::Arguments arguments(name, stream);
  std::apply([&](auto&... value) { (arguments.add(value), ...); }, values);
  arguments.enqueue(grid, [kernel, values] { std::apply(kernel, values); });
}

}  // namespace sardonyx::ops::cuda
