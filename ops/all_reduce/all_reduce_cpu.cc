// Kernels: everything that happens between replicas is in the communicator. Without one, a replica
// is alone and the sum is what it has.
#include <cstring>

#include "graph/support/bytes.h"
#include "ops/core/communicator.h"
#include "ops/core/kernel.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

void bucket(const KernelRequest& request, CpuContext& context) {
  const std::vector<int64_t> offsets = request.node->get_ints("offsets", {});
  const size_t size = graph::dtype_size(request.out[0].dtype);
  auto* flat = context.out<std::byte>(0);
  size_t end = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto* from = context.in<std::byte>(static_cast<int>(i));
    const size_t begin = static_cast<size_t>(offsets[i]) * size, bytes = request.in[i].bytes();
    if (begin > end) std::memset(flat + end, 0, begin - end);
    if (from != flat + begin && bytes > 0) std::memcpy(flat + begin, from, bytes);
    end = begin + bytes;
  }
}

void take(const KernelRequest& request, CpuContext& context) {
  if (context.in<void>(0) == context.out<void>(0)) return;
  copy_bytes(context.out<void>(0), context.in<void>(0), request.out[0].bytes());
}

void all_reduce(const KernelRequest& request, CpuContext& context) {
  take(request, context);
  if (context.communicator == nullptr) return;
  const DType dtype = request.out[0].dtype;
  const bool half = request.node->get_string("wire", "") == "bfloat16";
  context.communicator->start_sum(context.out<void>(0), static_cast<size_t>(request.out[0].numel()),
                                  dtype, half ? DType::kBFloat16 : dtype, *context.pool);
}

void await(const KernelRequest& request, CpuContext& context) {
  if (context.communicator != nullptr) {
    context.communicator->wait(context.in<void>(0), *context.pool);
  }
  take(request, context);
}

KernelDef kernel(const char* op, const char* name, KernelFunction function) {
  KernelDef def;
  def.domain = kDomain;
  def.op = op;
  def.name = name;
  def.create = simple_kernel(std::move(function));
  return def;
}

}  // namespace

void register_all_reduce_cpu(KernelRegistry& kernels) {
  kernels.add(kernel("Bucket", "all_reduce.ref", bucket));
  kernels.add(kernel("AllReduce", "all_reduce.ref", all_reduce));
  kernels.add(kernel("Await", "all_reduce.ref", await));
}

}  // namespace sardonyx::ops
