// Kernels of Expand and Tile. Both are boxes that walk the source with stride 0 along repetitions,
// so sizes come from the types alone and a block of rows needs nothing special.
#include "ops/core/refusals.h"
#include "ops/expand/expand.h"

namespace sardonyx::ops {

// --- Boxes

namespace {

// Dims of x under those of y, matched from the last axis.
std::vector<int64_t> padded(const std::vector<int64_t>& x, size_t rank) {
  std::vector<int64_t> result(rank - x.size(), 1);
  result.insert(result.end(), x.begin(), x.end());
  return result;
}

}  // namespace

StridedBox expand_box(const KernelRequest& request) {
  const std::vector<int64_t> to = stored_dims(request.out[0]);
  const std::vector<int64_t> from = padded(stored_dims(request.in[0]), to.size());
  StridedBox box{to, row_major(from), row_major(to)};
  for (size_t i = 0; i < to.size(); ++i) {
    if (from[i] != to[i]) box.src[i] = 0;
  }
  return box;
}

// Every axis as two: its repetitions and itself.
StridedBox tile_box(const KernelRequest& request) {
  const std::vector<int64_t> from = stored_dims(request.in[0]), to = stored_dims(request.out[0]);
  const std::vector<int64_t> src = row_major(from), dst = row_major(to);
  StridedBox box;
  for (size_t i = 0; i < to.size(); ++i) {
    const int64_t times = from[i] == 0 ? 0 : to[i] / from[i];
    box.dims.insert(box.dims.end(), {times, from[i]});
    box.src.insert(box.src.end(), {0, src[i]});
    box.dst.insert(box.dst.end(), {from[i] * dst[i], dst[i]});
  }
  return box;
}

namespace {

// --- Reference

// y[i] = x[i mod size of x], axis by axis from the last: covers both operators.
template <class T>
void repeat_loops(const KernelRequest& request, CpuContext& context) {
  const std::vector<int64_t> to = request.out_shape(0);
  const std::vector<int64_t> from = padded(request.in_shape(0), to.size());
  const std::vector<int64_t> strides = row_major(from);
  T* y = context.out<T>(0);
  for_each_index(to, [&](const std::vector<int64_t>& index) {
    int64_t at = 0;
    for (size_t axis = 0; axis < to.size(); ++axis) {
      at += index[axis] % from[axis] * strides[axis];
    }
    *y++ = context.in<T>(0)[at];
  });
}

void repeat_ref(const KernelRequest& request, CpuContext& context) {
  dispatch_size(request.out[0].dtype, [&]<class T>() { repeat_loops<T>(request, context); });
}

// --- Registration

void add(KernelRegistry& kernels, const char* op, std::string name, Speed speed, Layouts layouts,
         std::function<std::unique_ptr<Kernel>(const KernelRequest&)> create) {
  KernelDef def;
  def.op = op;
  def.name = std::move(name);
  def.speed = speed;
  def.layouts = layouts;
  def.declines = {unless_sized()};
  if (layouts == Layouts::kLanes) {
    def.declines.push_back({"takes operands of equal rank only", [](const KernelRequest& request) {
                              return request.in[0].rank() != request.out[0].rank();
                            }});
    def.declines.push_back(unless_in_lanes(1));
  }
  def.create = std::move(create);
  kernels.add(std::move(def));
}

}  // namespace

void register_expand_cpu(KernelRegistry& kernels) {
  add(kernels, "Expand", "expand.ref", Speed::kReference, Layouts::kPlain,
      simple_kernel(repeat_ref));
  add(kernels, "Expand", "expand.strided", Speed::kPlain, Layouts::kPlain,
      strided_kernel(expand_box));
  add(kernels, "Expand", "expand.lanes", Speed::kOptimised, Layouts::kLanes,
      strided_kernel(expand_box));
  add(kernels, "Tile", "tile.ref", Speed::kReference, Layouts::kPlain, simple_kernel(repeat_ref));
  add(kernels, "Tile", "tile.strided", Speed::kPlain, Layouts::kPlain, strided_kernel(tile_box));
  add(kernels, "Tile", "tile.lanes", Speed::kOptimised, Layouts::kLanes, strided_kernel(tile_box));
}

}  // namespace sardonyx::ops
