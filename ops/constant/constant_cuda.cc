// The CUDA kernel of ConstantOfShape. Its neighbours (Constant, Range, EyeLike) are folded before
// there is a plan.
#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"
#include "ops/core/strided_launch.h"

namespace sardonyx::ops {

namespace {

void fill(const KernelRequest& request, CudaContext& context) {
  const TensorType& type = request.out[0];
  if (type.bytes() == 0) return;
  const Tensor* value = request.node->get_tensor("value");
  if (value == nullptr) {
    return cuda::fill_zero(context.stream, context.outputs[0], type.bytes());
  }
  cuda::launch_fill(context.stream, static_cast<int>(graph::dtype_size(type.dtype)), type.numel(),
                    value->bytes().data(), context.outputs[0]);
}

}  // namespace

void register_constant_cuda(KernelRegistry& kernels) {
  KernelDef def;
  def.op = "ConstantOfShape";
  def.name = "constant_of_shape.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kPlain;
  def.declines = {unless_sized()};
  def.create = simple_launch(fill);
  kernels.add(std::move(def));
}

}  // namespace sardonyx::ops
