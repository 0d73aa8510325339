// What pool.cu launches. Private to the room.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda.h"
#include "ops/core/host_device.h"

namespace sardonyx::ops::pool {

// Where an element of x or y stands: images, channels, and depth, height, width, in elements.
struct Places {
  int64_t image = 0, channel = 0;
  int64_t cell[3] = {};
};

// The order of the elements of x and y: [N, C, ...] or [N, ..., C].
enum class Channels : uint8_t { kFirst, kLast };

// PoolGeometry of pool.h as plain data: depth, height, width; missing axes stand in front and have
// size 1. Positions along an axis fit into 32 bits.
struct Planes {
  struct Axis {
    int in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
    int low = 0, high = 1;  // cells in [low, high) count in the divisor of an average
  };
  Axis axis[3];
  int64_t images = 0, channels = 0;
  Places x, y;

  HOST_DEVICE int64_t in_cells() const {
    return static_cast<int64_t>(axis[0].in) * axis[1].in * axis[2].in;
  }
  HOST_DEVICE int64_t out_cells() const {
    return static_cast<int64_t>(axis[0].out) * axis[1].out * axis[2].out;
  }
  HOST_DEVICE int64_t taps() const {
    return static_cast<int64_t>(axis[0].kernel) * axis[1].kernel * axis[2].kernel;
  }
  HOST_DEVICE int64_t x_count() const { return images * channels * in_cells(); }
  HOST_DEVICE int64_t y_count() const { return images * channels * out_cells(); }
  // With one channel it makes no difference.
  HOST_DEVICE bool channels_last() const { return x.cell[2] != 1; }
  // Sets x and y by the sizes.
  void lay_out(Channels order);
};

// How the second output of MaxPool counts the cells of a map.
enum class Order : uint8_t { kRows, kColumns };

// y and indices: null when not wanted.
void launch_max(cuda::Stream stream, graph::DType dtype, const Planes& planes, Order order,
                const void* x, void* y, int64_t* indices);
// `winners`: room for a number per element of dy.
void launch_max_grad(cuda::Stream stream, graph::DType dtype, const Planes& planes, const void* x,
                     const void* dy, int32_t* winners, void* dx);
void launch_average(cuda::Stream stream, graph::DType dtype, const Planes& planes, const void* x,
                    void* y);
void launch_average_grad(cuda::Stream stream, graph::DType dtype, const Planes& planes,
                         const void* dy, void* dx);

}  // namespace sardonyx::ops::pool
