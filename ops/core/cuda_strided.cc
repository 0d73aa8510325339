#include "ops/core/cuda_strided.h"

#include <algorithm>

namespace sardonyx::ops::cuda {

namespace {

constexpr int kMostPackBytes = 16;
// An axis shorter than this is not worth a tile.
constexpr int64_t kTileSide = 8;

LoopNest nest_of(const StridedBox& box) { return LoopNest{box.dims, {box.src, box.dst}}.merged(); }

// The nest in pairs of its elements, where the innermost axis is dense on both sides and everything
// is even; else the nest itself.
bool halve(LoopNest& nest, int64_t& src_at, int64_t& dst_at) {
  const auto even = [](int64_t n) { return n % 2 == 0; };
  if (nest.sizes.empty() || nest.strides[0].back() != 1 || nest.strides[1].back() != 1)
    return false;
  if (!even(nest.sizes.back()) || !even(src_at) || !even(dst_at)) return false;
  for (const auto& strides : nest.strides) {
    if (!std::all_of(strides.begin(), strides.end() - 1, even)) return false;
  }
  nest.sizes.back() /= 2;
  for (auto& strides : nest.strides) {
    for (size_t axis = 0; axis + 1 < strides.size(); ++axis) strides[axis] /= 2;
  }
  src_at /= 2;
  dst_at /= 2;
  return true;
}

template <class T>
void erase_at(std::vector<T>& values, size_t at) {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(at));
}

// 32 by 32, longer where the planes are narrow: a filter of nine taps fills a block, too.
void cut_tiles(Tiles& tiles) {
  constexpr int64_t kSide = 32;
  if (tiles.width < kSide) {
    tiles.tile_width = static_cast<int>(tiles.width);
    tiles.tile_height =
        static_cast<int>(std::min<int64_t>(tiles.height, Tiles::kMost / tiles.width - 1));
    return;
  }
  tiles.tile_height = static_cast<int>(std::min(tiles.height, kSide));
  const int64_t fits = Tiles::kMost / (tiles.tile_height | 1) / kSide * kSide;
  tiles.tile_width = static_cast<int>(std::min(tiles.width, fits));
}

class CopyKernel final : public Kernel {
 public:
  CopyKernel(const StridedBox& box, DType dtype) : copy_(box, dtype) {}
  void launch(CudaContext& context) const override {
    copy_.launch(context.stream, context.inputs[0], context.outputs[0]);
  }

 private:
  DeviceCopy copy_;
};

}  // namespace

bool DeviceCopy::fits(const StridedBox& box) { return nest_of(box).sizes.size() <= kWalkAxes; }

DeviceCopy::DeviceCopy(const StridedBox& box, DType dtype)
    : bytes_(static_cast<int>(graph::dtype_size(dtype))),
      src_at_(box.src_at * bytes_),
      dst_at_(box.dst_at * bytes_) {
  LoopNest nest = nest_of(box);
  steps_ = walk_of<2>(nest);
  if (steps_.count == 0) return;
  if (steps_.dense) {
    way_ = Way::kBytes;
    return;
  }
  if (set_tiles(nest)) {
    way_ = Way::kTiles;
    return;
  }
  way_ = Way::kSteps;
  int64_t src_at = box.src_at, dst_at = box.dst_at;
  int pack = bytes_;
  while (pack < kMostPackBytes && halve(nest, src_at, dst_at)) pack *= 2;
  if (pack == bytes_) return;
  pack_bytes_ = pack;
  packed_steps_ = walk_of<2>(nest);
}

// The last axis is dense in dst, another one in src.
bool DeviceCopy::set_tiles(const LoopNest& nest) {
  const size_t last = nest.sizes.size() - 1;
  const auto &src = nest.strides[0], &dst = nest.strides[1];
  if (dst[last] != 1 || src[last] == 1 || nest.sizes[last] < kTileSide) return false;
  for (size_t axis = 0; axis < last; ++axis) {
    if (src[axis] != 1 || nest.sizes[axis] < kTileSide) continue;
    tiles_.height = nest.sizes[axis];
    tiles_.width = nest.sizes[last];
    tiles_.src_step = src[last];
    tiles_.dst_step = dst[axis];
    LoopNest planes = nest;
    for (const size_t gone : {last, axis}) {
      erase_at(planes.sizes, gone);
      for (auto& strides : planes.strides) erase_at(strides, gone);
    }
    tiles_.planes = walk_of<2>(planes);
    cut_tiles(tiles_);
    return true;
  }
  return false;
}

void DeviceCopy::launch(Stream stream, const void* src, void* dst) const {
  const auto* from = static_cast<const std::byte*>(src) + src_at_;
  auto* to = static_cast<std::byte*>(dst) + dst_at_;
  const auto aligned = [this](const void* data) {
    return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(pack_bytes_) == 0;
  };
  switch (way_) {
    case Way::kNothing:
      return;
    case Way::kBytes:
      return copy_on_device(stream, to, from, static_cast<size_t>(steps_.count * bytes_));
    case Way::kTiles:
      return launch_tiles(stream, bytes_, tiles_, from, to);
    case Way::kSteps:
      break;
  }
  if (pack_bytes_ != 0 && aligned(from) && aligned(to)) {
    return launch_steps(stream, pack_bytes_, packed_steps_, from, to);
  }
  launch_steps(stream, bytes_, steps_, from, to);
}

std::function<std::unique_ptr<Kernel>(const KernelRequest&)> device_copy_kernel(
    StridedBox (*box_of)(const KernelRequest&)) {
  return [box_of](const KernelRequest& request) {
    return std::make_unique<CopyKernel>(box_of(request), request.out[0].dtype);
  };
}

Refusal beyond_copy_axes(StridedBox (*box_of)(const KernelRequest&)) {
  return {"knows up to 8 axes after neighbours were merged",
          [box_of](const KernelRequest& request) { return !DeviceCopy::fits(box_of(request)); }};
}

}  // namespace sardonyx::ops::cuda
