// Kernels of DepthToSpace and SpaceToDepth: one strided copy of [N, C', H, b, W, b], the lane of a
// block of images as one more axis.
#include "ops/core/refusals.h"
#include "ops/core/strided.h"
#include "ops/depth_to_space/depth_to_space.h"

namespace sardonyx::ops {

namespace {

using depth_to_space::Order;

// The walk in the order of the wide side (few channels), and there and back.
StridedBox box_of(const KernelRequest& request) {
  const Node& node = *request.node;
  const bool spreads = node.op == "DepthToSpace";
  const std::vector<int64_t> deep = stored_dims(spreads ? request.in[0] : request.out[0]);
  const std::vector<int64_t> step = row_major(deep);
  const int64_t b = node.get_int("blocksize", 0), channels = deep[1] / (b * b);
  const bool blocks_first = depth_to_space::order_of(node) == Order::kDcr;
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

class BlocksKernel final : public Kernel {
 public:
  explicit BlocksKernel(const KernelRequest& request)
      : copy_(box_of(request), request.out[0].dtype) {}
  void run(CpuContext& context) const override {
    copy_.run(*context.pool, context.inputs[0], context.outputs[0]);
  }

 private:
  StridedCopy copy_;
};

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
    strided.create = [](const KernelRequest& request) {
      return std::make_unique<BlocksKernel>(request);
    };
    kernels.add(strided);

    KernelDef lanes = strided;
    lanes.name = "depth_to_space.lanes";
    lanes.layouts = Layouts::kLanes;
    lanes.declines = {unless_sized(), unless_in_lanes(1)};
    kernels.add(lanes);
  }
}

}  // namespace sardonyx::ops
