// What elementary.cu launches. Private to the room.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda.h"

namespace sardonyx::ops::elementary {

// The functions as elementary.cc lists them.
enum class Name : uint8_t {
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kFloor,
  kCeil,
  kRound,
  kSign,
  kCount,
};

void launch_function(cuda::Stream stream, graph::DType dtype, Name name, int64_t n, const void* x,
                     void* y);
void launch_slope(cuda::Stream stream, graph::DType dtype, Name name, int64_t n, const void* x,
                  const void* dy, void* dx);

}  // namespace sardonyx::ops::elementary
