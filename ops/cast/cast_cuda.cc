// The CUDA kernel, for all pairs of types but those of float16. Between equal types it is a
// copy of bytes, whatever they mean.
#include "ops/cast/cast_cuda.h"

#include "ops/core/cuda_context.h"
#include "ops/core/dispatch.h"
#include "ops/core/kernel.h"

namespace sardonyx::ops {

namespace {

void cast_elements(const KernelRequest& request, CudaContext& context) {
  const DType from = request.in[0].dtype, to = request.out[0].dtype;
  const size_t bytes = request.out[0].bytes();
  if (from != to) {
    return cast::launch(context.stream, from, to, request.out[0].physical_numel(),
                        context.inputs[0], context.outputs[0]);
  }
  if (bytes > 0) {
    cuda::copy_on_device(context.stream, context.outputs[0], context.inputs[0], bytes);
  }
}

Refusal unless_numbers_or_bool() {
  return {
      "takes float, double, bfloat16, integers and bool only", [](const KernelRequest& request) {
        const DType from = request.in[0].dtype, to = request.out[0].dtype;
        const auto taken = [](DType dtype) {
          return dtype == DType::kBool || dtype == DType::kBFloat16 || is_dispatched_number(dtype);
        };
        return from != to && !(taken(from) && taken(to));
      }};
}

}  // namespace

void register_cast_cuda(KernelRegistry& kernels) {
  for (const char* op : {"Cast", "CastLike"}) {
    KernelDef def;
    def.op = op;
    def.name = "cast.cuda";
    def.device = Device::kCuda;
    def.speed = Speed::kOptimised;
    def.layouts = op == std::string_view("Cast") ? Layouts::kSameAll : Layouts::kPlain;
    def.declines = {unless_numbers_or_bool()};
    def.create = simple_launch(cast_elements);
    kernels.add(std::move(def));
  }
}

}  // namespace sardonyx::ops
