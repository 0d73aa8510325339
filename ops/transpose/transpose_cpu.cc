// Kernels of Transpose. In lanes of 16 images axis 0 must stay; the lane is then one more axis, the
// innermost of both sides, so whole vectors move.
#include "ops/core/refusals.h"
#include "ops/transpose/transpose.h"

namespace sardonyx::ops {

StridedBox transpose_box(const KernelRequest& request) {
  const std::vector<int64_t> to = stored_dims(request.out[0]);
  const std::vector<int64_t> strides = row_major(stored_dims(request.in[0]));
  std::vector<int64_t> perm = permutation(*request.node, request.in[0].rank());
  if (perm.size() < to.size()) perm.push_back(std::ssize(perm));  // the lane stays innermost
  StridedBox box{to, {}, row_major(to)};
  for (int64_t axis : perm) box.src.push_back(strides[axis]);
  return box;
}

namespace {

void transpose_ref(const KernelRequest& request, CpuContext& context) {
  const std::vector<int64_t> perm = permutation(*request.node, request.in[0].rank());
  const std::vector<int64_t> strides = row_major(request.in_shape(0));
  dispatch_size(request.out[0].dtype, [&]<class T>() {
    T* y = context.out<T>(0);
    for_each_index(request.out_shape(0), [&](const std::vector<int64_t>& index) {
      int64_t at = 0;
      for (size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * strides[perm[axis]];
      *y++ = context.in<T>(0)[at];
    });
  });
}

}  // namespace

void register_transpose_cpu(KernelRegistry& kernels) {
  KernelDef ref;
  ref.op = "Transpose";
  ref.name = "transpose.ref";
  ref.declines = {unless_sized()};
  ref.create = simple_kernel(transpose_ref);
  kernels.add(ref);

  KernelDef tiled = ref;
  tiled.name = "transpose.tiled";
  tiled.speed = Speed::kOptimised;
  tiled.create = strided_kernel(transpose_box);
  kernels.add(tiled);

  KernelDef lanes = tiled;
  lanes.name = "transpose.lanes";
  lanes.layouts = Layouts::kLanes;
  lanes.declines = {unless_sized(),
                    unless_in_lanes(1),
                    {"axis 0 must stay in place", [](const KernelRequest& request) {
                       return permutation(*request.node, request.in[0].rank())[0] != 0;
                     }}};
  kernels.add(lanes);
}

}  // namespace sardonyx::ops
