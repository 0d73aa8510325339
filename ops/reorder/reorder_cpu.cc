// Reorder between rows of images and lanes of 16 images, threads over blocks of images. Float and
// double turn at vector width (ops/core/lanes.h); other types are moved element by element. Between
// plain and channels last it is a strided copy.
#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/core/kernel.h"
#include "ops/core/lane_shapes.h"
#include "ops/core/refusals.h"
#include "ops/registry.h"
#include "ops/reorder/reorder.h"

namespace sardonyx::ops {

bool is_order_change(const KernelRequest& request) {
  const auto ordered = [](const TensorType& type) {
    return type.layout.plain() || type.layout.channels_last();
  };
  return ordered(request.in[0]) && ordered(request.out[0]);
}

StridedBox order_box(const KernelRequest& request) {
  const std::vector<int64_t> shape = request.in_shape(0);
  const int64_t channels = shape.size() > 1 ? shape[1] : 1;
  int64_t cells = 1;
  for (size_t axis = 2; axis < shape.size(); ++axis) cells *= shape[axis];
  // Steps from image to image, cell to cell, channel to channel.
  const auto steps = [&](const TensorType& type) {
    const bool last = type.layout.channels_last();
    return std::vector<int64_t>{channels * cells, last ? channels : 1, last ? 1 : cells};
  };
  StridedBox box{{shape.at(0), cells, channels}, steps(request.in[0]), steps(request.out[0])};
  // What is dense in y is the innermost axis.
  if (box.dst[1] == 1) {
    for (auto* values : {&box.dims, &box.src, &box.dst}) std::swap((*values)[1], (*values)[2]);
  }
  return box;
}

namespace {

using lanes::kLanes;

// [batch][length] against [blocks][length][16].
struct Shape {
  explicit Shape(const TensorType& type) {
    const std::vector<int64_t> shape = type.shape();
    batch = shape.at(0);
    for (size_t i = 1; i < shape.size(); ++i) length *= shape[i];
    blocks = lanes::blocks_of(batch);
  }
  int64_t valid(int64_t block) const { return std::min<int64_t>(kLanes, batch - block * kLanes); }
  int64_t batch = 0, length = 1, blocks = 0;
};

enum class Direction : uint8_t { kToLanes, kToPlain };

template <class T>
void move_block(Direction direction, const T* from, T* to, int64_t valid, int64_t length) {
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t n = 0; n < valid; ++n) {
      if (direction == Direction::kToLanes) {
        to[i * kLanes + n] = from[n * length + i];
      } else {
        to[n * length + i] = from[i * kLanes + n];
      }
    }
  }
}

template <class T>
void clear_padding(T* block, int64_t valid, int64_t length) {
  for (int64_t i = 0; i < length; ++i) {
    std::fill(block + i * kLanes + valid, block + (i + 1) * kLanes, T(0));
  }
}

template <class T>
void turn_any(Direction direction, const Shape& shape, bool clear, CpuContext& context) {
  const T* from = context.in<T>(0);
  T* to = context.out<T>(0);
  parallel_for(*context.pool, shape.blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t at = block * kLanes * shape.length, valid = shape.valid(block);
      move_block(direction, from + at, to + at, valid, shape.length);
      if (clear) clear_padding(to + at, valid, shape.length);
    }
  });
}

// to_lanes writes zeros into the padding, so there is nothing to clear.
template <class T>
void turn_float(Direction direction, const Shape& shape, CpuContext& context) {
  const lanes::LaneKernels<T>& k = lanes::lane_kernels<T>();
  const T* from = context.in<T>(0);
  T* to = context.out<T>(0);
  const auto length = static_cast<int>(shape.length);
  parallel_for(*context.pool, shape.blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t at = block * kLanes * shape.length;
      const auto valid = static_cast<int>(shape.valid(block));
      if (direction == Direction::kToLanes) {
        k.to_lanes(from + at, shape.length, valid, length, to + at);
      } else {
        k.from_lanes(from + at, valid, length, to + at, shape.length);
      }
    }
  });
}

void copy(const TensorType& type, CpuContext& context) {
  if (type.bytes() > 0) std::memcpy(context.out<void>(0), context.in<void>(0), type.bytes());
}

void reorder(const KernelRequest& request, CpuContext& context) {
  const TensorType& x = request.in[0];
  const TensorType& y = request.out[0];
  if (is_order_change(request)) {
    const StridedCopy turn(order_box(request), x.dtype);
    return turn.run(*context.pool, context.inputs[0], context.outputs[0]);
  }
  if (x.layout.lane_count() == y.layout.lane_count()) return copy(y, context);
  const Shape shape(x);
  const Direction direction =
      y.layout.lane_count() == kLanes ? Direction::kToLanes : Direction::kToPlain;
  switch (x.dtype) {
    case DType::kFloat32:
      return turn_float<float>(direction, shape, context);
    case DType::kFloat64:
      return turn_float<double>(direction, shape, context);
    default:
      break;
  }
  const bool clear =
      direction == Direction::kToLanes && y.layout.padding == graph::Layout::Padding::kZero;
  dispatch_size(x.dtype, [&]<class T>() { turn_any<T>(direction, shape, clear, context); });
}

bool has_lanes_or_none(const TensorType& type) {
  return type.layout.plain() || type.layout.lane_count() == kLanes;
}

}  // namespace

void register_reorder_cpu(KernelRegistry& kernels) {
  KernelDef kernel;
  kernel.domain = kDomain;
  kernel.op = "Reorder";
  kernel.name = "reorder.ref";
  kernel.layouts = Layouts::kAny;
  kernel.declines = {{"knows plain against lanes of 16 images or channels last only",
                      [](const KernelRequest& request) {
                        return !is_order_change(request) && !(has_lanes_or_none(request.in[0]) &&
                                                              has_lanes_or_none(request.out[0]));
                      }},
                     unless_sized()};
  kernel.create = simple_kernel(reorder);
  kernels.add(std::move(kernel));
}

}  // namespace sardonyx::ops
