// CUDA kernels: plain operands that broadcast.
#include "ops/compare_select/compare_select_cuda.h"

#include "ops/core/cuda_context.h"
#include "ops/core/cuda_walk.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

using compare_select::Test;

KernelDef kernel(const char* op, std::vector<Refusal> refusals) {
  KernelDef def;
  def.op = op;
  def.name = "compare_select.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kOptimised;
  def.declines = std::move(refusals);
  return def;
}

Refusal unless_compared() {
  return {"takes float, double, int32, int64, uint8 and bool only",
          [](const KernelRequest& request) {
            const DType dtype = request.in[0].dtype;
            return unless_float().applies(request) && unless_int32_or_int64().applies(request) &&
                   dtype != DType::kUint8 && dtype != DType::kBool;
          }};
}

void add_test(KernelRegistry& kernels, const char* op, Test test) {
  KernelDef def = kernel(op, {unless_compared(), cuda::beyond_broadcast_walk()});
  def.create = prepared_launch([test](const KernelRequest& request) {
    return [test, dtype = request.in[0].dtype,
            walk = cuda::broadcast_walk<2>(request)](CudaContext& context) {
      compare_select::launch_test(context.stream, dtype, test, walk, context.inputs[0],
                                  context.inputs[1], context.outputs[0]);
    };
  });
  kernels.add(std::move(def));
}

void add_where(KernelRegistry& kernels) {
  KernelDef def = kernel("Where", {unless_sized(), cuda::beyond_broadcast_walk()});
  def.in_place = {{0, 1}, {0, 2}};
  def.create = prepared_launch([](const KernelRequest& request) {
    return [bytes = static_cast<int>(graph::dtype_size(request.out[0].dtype)),
            walk = cuda::broadcast_walk<3>(request)](CudaContext& context) {
      compare_select::launch_where(context.stream, bytes, walk, context.inputs[0],
                                   context.inputs[1], context.inputs[2], context.outputs[0]);
    };
  });
  kernels.add(std::move(def));
}

}  // namespace

void register_compare_select_cuda(KernelRegistry& kernels) {
  add_test(kernels, "Equal", Test::kEqual);
  add_test(kernels, "Less", Test::kLess);
  add_test(kernels, "Greater", Test::kGreater);
  add_test(kernels, "LessOrEqual", Test::kLessOrEqual);
  add_test(kernels, "GreaterOrEqual", Test::kGreaterOrEqual);
  add_test(kernels, "And", Test::kAnd);
  add_test(kernels, "Or", Test::kOr);
  add_test(kernels, "Xor", Test::kXor);
  KernelDef negation = kernel("Not", {});
  negation.layouts = Layouts::kSameAll;
  negation.in_place = {{0, 0}};
  negation.create = simple_launch([](const KernelRequest& request, CudaContext& context) {
    compare_select::launch_not(context.stream, request.out[0].physical_numel(), context.inputs[0],
                               context.outputs[0]);
  });
  kernels.add(std::move(negation));
  add_where(kernels);
}

}  // namespace sardonyx::ops
