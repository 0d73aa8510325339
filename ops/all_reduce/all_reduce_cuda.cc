// Kernels for CUDA devices: copies and what the communicator does. Without one, a replica is alone
// and the sum is what it has.
#include "ops/all_reduce/bucket.h"
#include "ops/core/cuda_context.h"
#include "ops/core/kernel.h"

namespace sardonyx::ops {

namespace {

void bucket(const KernelRequest& request, CudaContext& context) {
  fill_bucket(
      request, context, [&](void* to, size_t bytes) { cuda::fill_zero(context.stream, to, bytes); },
      [&](void* to, const void* from, size_t bytes) {
        cuda::copy_on_device(context.stream, to, from, bytes);
      });
}

void take(const KernelRequest& request, CudaContext& context) {
  const size_t bytes = request.out[0].bytes();
  if (context.in<void>(0) == context.out<void>(0) || bytes == 0) return;
  cuda::copy_on_device(context.stream, context.out<void>(0), context.in<void>(0), bytes);
}

void all_reduce(const KernelRequest& request, CudaContext& context) {
  take(request, context);
  if (context.communicator == nullptr) return;
  context.communicator->start_sum(context.out<void>(0), static_cast<size_t>(request.out[0].numel()),
                                  request.out[0].dtype, wire_of(request), context.stream);
}

void await(const KernelRequest& request, CudaContext& context) {
  if (context.communicator != nullptr) {
    context.communicator->wait(context.in<void>(0), context.stream);
  }
  take(request, context);
}

KernelDef kernel(const char* op, LaunchFunction function) {
  KernelDef def;
  def.domain = kDomain;
  def.op = op;
  def.name = "all_reduce.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kPlain;
  def.create = simple_launch(std::move(function));
  return def;
}

}  // namespace

void register_all_reduce_cuda(KernelRegistry& kernels) {
  kernels.add(kernel("Bucket", bucket));
  kernels.add(kernel("AllReduce", all_reduce));
  kernels.add(kernel("Await", await));
}

}  // namespace sardonyx::ops
