// Kernels: everything that happens between replicas is in the communicator. Without one, a replica
// is alone and the sum is what it has.
#include <cstring>

#include "graph/support/bytes.h"
#include "ops/all_reduce/bucket.h"
#include "ops/core/communicator.h"
#include "ops/core/kernel.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

void bucket(const KernelRequest& request, CpuContext& context) {
  fill_bucket(
      request, context, [](void* to, size_t bytes) { std::memset(to, 0, bytes); },
      [](void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); });
}

void take(const KernelRequest& request, CpuContext& context) {
  if (context.in<void>(0) == context.out<void>(0)) return;
  copy_bytes(context.out<void>(0), context.in<void>(0), request.out[0].bytes());
}

void all_reduce(const KernelRequest& request, CpuContext& context) {
  take(request, context);
  if (context.communicator == nullptr) return;
  context.communicator->start_sum(context.out<void>(0), static_cast<size_t>(request.out[0].numel()),
                                  request.out[0].dtype, wire_of(request), *context.pool);
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
