// CUDA kernels in the element type itself. They don't mind the layout.
#include "ops/elementary/elementary_cuda.h"

#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"
#include "ops/elementary/elementary.h"

namespace sardonyx::ops {

namespace {

using elementary::Name;

KernelDef kernel(const char* domain, std::string op) {
  KernelDef def;
  def.domain = domain;
  def.op = std::move(op);
  def.name = "elementary.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kPlain;
  def.layouts = Layouts::kSameAll;
  def.in_place = {{0, 0}};
  def.declines = {unless_float()};
  return def;
}

void add_function(KernelRegistry& kernels, const std::string& op, Name name) {
  KernelDef def = kernel("", op);
  def.create = simple_launch([name](const KernelRequest& request, CudaContext& context) {
    elementary::launch_function(context.stream, request.in[0].dtype, name,
                                request.out[0].physical_numel(), context.inputs[0],
                                context.outputs[0]);
  });
  kernels.add(std::move(def));
}

void add_slope(KernelRegistry& kernels, const std::string& op, Name name) {
  KernelDef def = kernel(kDomain, op + "Grad");
  def.in_place.emplace_back(0, 1);
  def.create = simple_launch([name](const KernelRequest& request, CudaContext& context) {
    elementary::launch_slope(context.stream, request.in[0].dtype, name,
                             request.out[0].physical_numel(), context.inputs[0], context.inputs[1],
                             context.outputs[0]);
  });
  kernels.add(std::move(def));
}

}  // namespace

void register_elementary_cuda(KernelRegistry& kernels) {
  const auto& functions = elementary::functions();
  CHECK(functions.size() == static_cast<size_t>(Name::kCount));
  for (size_t i = 0; i < functions.size(); ++i) {
    add_function(kernels, functions[i].name, static_cast<Name>(i));
    if (functions[i].slope != nullptr) add_slope(kernels, functions[i].name, static_cast<Name>(i));
  }
}

}  // namespace sardonyx::ops
