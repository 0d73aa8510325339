// One kernel for all: the C library in double, whatever the element type. It doesn't mind the
// layout.
#include "ops/core/dispatch.h"
#include "ops/core/elementwise.h"
#include "ops/core/kernel.h"
#include "ops/core/refusals.h"
#include "ops/elementary/elementary.h"

namespace sardonyx::ops {

namespace {

using elementary::Function;

void run_function(const Function& function, const KernelRequest& request, CpuContext& context) {
  dispatch_number(request.in[0].dtype, [&]<class T>() {
    const T* x = context.in<T>(0);
    T* y = context.out<T>(0);
    parallel_for(*context.pool, request.out[0].physical_numel(), kMathGrain,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     y[i] = static_cast<T>(function.value(static_cast<double>(x[i])));
                   }
                 });
  });
}

void run_slope(const Function& function, const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const T *x = context.in<T>(0), *dy = context.in<T>(1);
    T* dx = context.out<T>(0);
    parallel_for(*context.pool, request.out[0].physical_numel(), kMathGrain,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     dx[i] = static_cast<T>(dy[i] * function.slope(x[i]));
                   }
                 });
  });
}

void add(KernelRegistry& kernels, const char* domain, std::string op, const Function& function,
         void (*run)(const Function&, const KernelRequest&, CpuContext&)) {
  KernelDef def;
  def.domain = domain;
  def.op = std::move(op);
  def.name = "elementary.ref";
  def.layouts = Layouts::kSameAll;
  def.in_place = {{0, 0}};
  def.declines = {unless_numbers()};
  def.create = simple_kernel([&function, run](const KernelRequest& request, CpuContext& context) {
    run(function, request, context);
  });
  kernels.add(std::move(def));
}

}  // namespace

void register_elementary_cpu(KernelRegistry& kernels) {
  for (const Function& function : elementary::functions()) {
    add(kernels, "", function.name, function, run_function);
    if (function.slope == nullptr) continue;
    add(kernels, kDomain, std::string(function.name) + "Grad", function, run_slope);
  }
}

}  // namespace sardonyx::ops
