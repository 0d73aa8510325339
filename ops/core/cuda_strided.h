// Copies between strided arrays on a CUDA device: the StridedBox of ops/core/strided.h, launched.
//
// Runs move in packs of up to 16 bytes where strides, sizes and addresses allow it, axes that
// change places through shared memory, what lies dense on both sides as bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "ops/core/cuda_context.h"
#include "ops/core/cuda_walk.h"
#include "ops/core/strided.h"
#include "ops/core/strided_launch.h"

namespace sardonyx::ops::cuda {

class DeviceCopy {
 public:
  // CHECK: fits(box).
  DeviceCopy(const StridedBox& box, DType dtype);
  // At most kWalkAxes axes are left when neighbours are merged.
  static bool fits(const StridedBox& box);

  void launch(Stream stream, const void* src, void* dst) const;

 private:
  enum class Way : uint8_t { kNothing, kBytes, kTiles, kSteps };

  bool set_tiles(const LoopNest& nest);

  Way way_ = Way::kNothing;
  int bytes_ = 0;                    // of an element
  int64_t src_at_ = 0, dst_at_ = 0;  // bytes
  Tiles tiles_;
  Walk<2> steps_, packed_steps_;  // places in elements, in packs
  int pack_bytes_ = 0;            // 0: there are no packs
};

// KernelDef::create of a kernel that is one such copy, of input 0 to output 0, and its refusal.
std::function<std::unique_ptr<Kernel>(const KernelRequest&)> device_copy_kernel(
    StridedBox (*box_of)(const KernelRequest&));
Refusal beyond_copy_axes(StridedBox (*box_of)(const KernelRequest&));

}  // namespace sardonyx::ops::cuda
