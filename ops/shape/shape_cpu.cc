// Kernels of Shape and Size: they write what the types of the request say and read no bytes.
#include "ops/core/kernel.h"
#include "ops/shape/shape.h"

namespace sardonyx::ops {

namespace {

void shape_ref(const KernelRequest& request, CpuContext& context) {
  const std::vector<int64_t> dims = request.in_shape(0);
  const auto [start, end] = shape_range(*request.node, request.in[0].rank());
  std::copy(dims.begin() + start, dims.begin() + end, context.out<int64_t>(0));
}

void size_ref(const KernelRequest& request, CpuContext& context) {
  *context.out<int64_t>(0) = request.in[0].numel();
}

void add(KernelRegistry& kernels, const char* op, const char* name, KernelFunction function) {
  KernelDef def;
  def.op = op;
  def.name = name;
  def.layouts = Layouts::kAny;
  def.create = simple_kernel(std::move(function));
  kernels.add(std::move(def));
}

}  // namespace

void register_shape_cpu(KernelRegistry& kernels) {
  add(kernels, "Shape", "shape.ref", shape_ref);
  add(kernels, "Size", "size.ref", size_ref);
}

}  // namespace sardonyx::ops
