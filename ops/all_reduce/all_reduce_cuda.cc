// Kernels for CUDA devices: copies and what the communicator does. Without one, a replica is alone
// and the sum is what it has.
#include "ops/core/cuda_context.h"
#include "ops/core/kernel.h"

namespace sardonyx::ops {

namespace {

void bucket(const KernelRequest& request, CudaContext& context) {
  const std::vector<int64_t> offsets = request.node->get_ints("offsets", {});
  const size_t size = graph::dtype_size(request.out[0].dtype);
  auto* flat = context.out<std::byte>(0);
  size_t end = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto* from = context.in<std::byte>(static_cast<int>(i));
    const size_t begin = static_cast<size_t>(offsets[i]) * size, bytes = request.in[i].bytes();
    if (begin > end) cuda::fill_zero(context.stream, flat + end, begin - end);
    if (from != flat + begin && bytes > 0) {
      cuda::copy_on_device(context.stream, flat + begin, from, bytes);
    }
    end = begin + bytes;
  }
}

void take(const KernelRequest& request, CudaContext& context) {
  const size_t bytes = request.out[0].bytes();
  if (context.in<void>(0) == context.out<void>(0) || bytes == 0) return;
  cuda::copy_on_device(context.stream, context.out<void>(0), context.in<void>(0), bytes);
}

void all_reduce(const KernelRequest& request, CudaContext& context) {
  take(request, context);
  if (context.communicator == nullptr) return;
  const DType dtype = request.out[0].dtype;
  const bool half = request.node->get_string("wire", "") == "bfloat16";
  context.communicator->start_sum(context.out<void>(0), static_cast<size_t>(request.out[0].numel()),
                                  dtype, half ? DType::kBFloat16 : dtype, context.stream);
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
