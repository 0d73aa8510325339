// Kernels of DepthToSpace and SpaceToDepth: one strided copy of [N, C', H, b, W, b], the lane of a
// block of images as one more axis.
#include "ops/core/refusals.h"
#include "ops/core/strided.h"

namespace sardonyx::ops {

namespace {

// The walk in the order of the wide side (few channels), and there and back.
StridedBox box_of(const KernelRequest& request) {
  const Node& node = *request.node;
  const bool spreads = node.op == "DepthToSpace";
  const std::vector<int64_t> deep = stored_dims(spreads ? request.in[0] : request.out[0]);
  const std::vector<int64_t> step = row_major(deep);
  const int64_t b = node.get_int("blocksize", 0), channels = deep[1] / (b * b);
  const bool blocks_first = node.get_string("mode", "DCR") == "DCR";
  const int64_t channel = blocks_first ? 1 : b * b;
  const int64_t column = blocks_first ? channels : 1;
  StridedBox box;
  box.dims = {deep[0], channels, deep[2], b, deep[3], b};
  std::vector<int64_t> at = {step[0], channel * step[1], step[2], b * column * step[1],
                             step[3], column * step[1]};
  if (deep.size() > 4) {
    box.dims.push_back(deep[4]);
    at.push_back(1);
  }
  const std::vector<int64_t> wide = row_major(box.dims);
  box.src = spreads ? at : wide;
  box.dst = spreads ? wide : at;
  return box;
}

void run_ref(const KernelRequest& request, CpuContext& context) {
  const StridedBox box = box_of(request);
  dispatch_size(request.out[0].dtype, [&]<class T>() {
    for_each_index(box.dims, [&](const std::vector<int64_t>& index) {
      context.out<T>(0)[offset_of(index, box.dst)] = context.in<T>(0)[offset_of(index, box.src)];
    });
  });
}

}  // namespace

void register_depth_to_space_cpu(KernelRegistry& kernels) {
  for (const char* op : {"DepthToSpace", "SpaceToDepth"}) {
    KernelDef ref;
    ref.op = op;
    ref.name = "depth_to_space.ref";
    ref.declines = {unless_sized()};
    ref.create = simple_kernel(run_ref);
    kernels.add(ref);

    KernelDef strided = ref;
    strided.name = "depth_to_space.strided";
    strided.speed = Speed::kOptimised;
    strided.create = strided_kernel(box_of);
    kernels.add(strided);

    KernelDef lanes = strided;
    lanes.name = "depth_to_space.lanes";
    lanes.layouts = Layouts::kLanes;
    lanes.declines = {unless_sized(), unless_in_lanes(1)};
    kernels.add(lanes);
  }
}

}  // namespace sardonyx::ops
