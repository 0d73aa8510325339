// CUDA kernels: one launch per operator, the formulas of activation_formulas.h. An element is
// computed from the elements at the same place, so the layout doesn't matter (but that Clip's
// bounds have another shape).
#include "ops/activation/activation_cuda.h"

#include <limits>

#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

using activation::Entry;

void launch_entry(const Entry& entry, const KernelRequest& request, CudaContext& context) {
  activation::Launch launch = {};
  launch.loop = entry.loop;
  launch.dtype = request.in[0].dtype;
  launch.n = request.out[0].physical_numel();
  launch.a = context.inputs[0];
  launch.y = context.outputs[0];
  if (activation::is_binary(entry.loop)) launch.b = context.inputs[1];
  if (activation::is_clip(entry.loop)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const int min = activation::is_binary(entry.loop) ? 2 : 1;
    launch.numbers = {-kInfinity, kInfinity};
    launch.p_at = context.in<void>(min);
    launch.q_at = context.in<void>(min + 1);
  } else {
    launch.numbers = activation::numbers_of(entry, *request.node);
  }
  activation::launch(context.stream, launch);
}

void launch_integer_clip(const KernelRequest& request, CudaContext& context) {
  activation::launch_integer_clip(context.stream, request.in[0].dtype, request.out[0].numel(),
                                  context.in<void>(1), context.in<void>(2), context.inputs[0],
                                  context.outputs[0]);
}

}  // namespace

void register_activation_cuda(KernelRegistry& kernels) {
  for (const Entry& entry : activation::entries()) {
    KernelDef def;
    def.domain = entry.domain;
    def.op = entry.op;
    def.name = "activation.cuda";
    def.device = Device::kCuda;
    def.speed = Speed::kOptimised;
    def.layouts = activation::is_clip(entry.loop) ? Layouts::kPlain : Layouts::kSameAll;
    def.in_place = {{0, 0}};
    if (activation::is_binary(entry.loop)) def.in_place.emplace_back(0, 1);
    def.declines = {unless_stored_float(), unless_one_dtype()};
    def.create = simple_launch([&entry](const KernelRequest& request, CudaContext& context) {
      launch_entry(entry, request, context);
    });
    kernels.add(def);
    if (!activation::is_clip(entry.loop)) continue;
    def.name = "activation.cuda_nhwc";
    def.layouts = Layouts::kChannelsFollow;
    kernels.add(std::move(def));
  }
  KernelDef integers;
  integers.op = "Clip";
  integers.name = "activation.integers_cuda";
  integers.device = Device::kCuda;
  integers.in_place = {{0, 0}};
  integers.declines = {unless_int32_or_int64(), unless_one_dtype()};
  integers.create = simple_launch(launch_integer_clip);
  kernels.add(std::move(integers));
}

}  // namespace sardonyx::ops
