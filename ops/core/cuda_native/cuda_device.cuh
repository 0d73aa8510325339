// CUDA itself, as ops/core/cuda.cuh wants it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <tuple>

namespace sardonyx::ops::cuda {

struct Grid;
struct StreamHandle;

// The bits of the nearest bfloat16, of two the even one.
__device__ inline uint16_t bfloat16_bits(float number) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(number));
  return bits;
}

// Throws Error naming the kernel when the launch is refused.
void launch_native(const char* name, const void* kernel, const Grid& grid, StreamHandle* stream,
                   void** arguments);

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const Grid& grid, StreamHandle* stream,
            const Arguments&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  std::tuple<Parameters...> values(static_cast<Parameters>(arguments)...);
  std::apply(
      [&](auto&... value) {
        void* pointers[] = {static_cast<void*>(&value)...};
        launch_native(name, reinterpret_cast<const void*>(kernel), grid, stream, pointers);
      },
      values);
}

}  // namespace sardonyx::ops::cuda
