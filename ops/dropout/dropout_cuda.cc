// Kernels dropout.cuda: the masks of the CPU, drawn on the device.
#include "ops/dropout/dropout_cuda.h"

#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"
#include "ops/dropout/drop.h"

namespace sardonyx::ops {

namespace {

using dropout::Drop;
using dropout::scale_of;

// The file's form.
void identity(const KernelRequest& request, CudaContext& context) {
  const size_t bytes = request.in[0].bytes();
  if (context.outputs[0] != nullptr && context.outputs[0] != context.inputs[0] && bytes > 0) {
    cuda::copy_on_device(context.stream, context.outputs[0], context.inputs[0], bytes);
  }
  if (!request.has_out(1)) return;
  dropout::launch_ones(context.stream, request.out[1].dtype, request.out[1].physical_numel(),
                       context.outputs[1]);
}

class DropKernel final : public Kernel {
 public:
  explicit DropKernel(const KernelRequest& request) : drop_(request), dtype_(request.in[0].dtype) {}

  void launch(CudaContext& context) const override {
    dropout::launch_drop(context.stream, dtype_,
                         {stream_key(context.seed, context.step, drop_.key), context.first_sample,
                          drop_.rows, drop_.elements, drop_.threshold()},
                         scale_of(drop_.ratio), context.in<void>(0), context.out<void>(0),
                         context.out<uint8_t>(1));
  }

 private:
  Drop drop_;
  DType dtype_;
};

void run_gradient(const KernelRequest& request, CudaContext& context) {
  dropout::launch_gradient(context.stream, request.in[0].dtype, request.in[0].physical_numel(),
                           scale_of(request.node->get_float("ratio", 0.5)), context.in<void>(0),
                           context.in<uint8_t>(1), context.out<void>(0));
}

KernelDef define(const char* domain, const char* op, Layouts layouts) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "dropout.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kOptimised;
  def.layouts = layouts;
  def.in_place = {{0, 0}};
  def.declines = {unless_stored_float()};
  return def;
}

// The mask has x's layout and shape, but its own type.
Refusal unless_mask_is_known() {
  return {"writes masks of bool, float, double and bfloat16 only",
          [](const KernelRequest& request) {
            if (!request.has_out(1)) return false;
            const DType dtype = request.out[1].dtype;
            return dtype != DType::kBool && dtype != DType::kFloat32 && dtype != DType::kFloat64 &&
                   dtype != DType::kBFloat16;
          }};
}

}  // namespace

void register_dropout_cuda(KernelRegistry& kernels) {
  KernelDef def = define("", "Dropout", Layouts::kPlain);
  def.declines = {unless_mask_is_known()};
  def.create = simple_launch(identity);
  kernels.add(def);

  def = define(kDomain, "Dropout", Layouts::kPlain);
  def.create = [](const KernelRequest& request) { return std::make_unique<DropKernel>(request); };
  kernels.add(def);

  def = define(kDomain, "DropoutGrad", Layouts::kSameAll);
  def.create = simple_launch(run_gradient);
  kernels.add(def);
}

}  // namespace sardonyx::ops
