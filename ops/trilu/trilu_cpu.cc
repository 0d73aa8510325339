// One kernel: a row of a matrix is a piece that is copied between two that are zero.
#include <algorithm>

#include "ops/core/elementwise.h"
#include "ops/core/kernel.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

void run_trilu(const KernelRequest& request, CpuContext& context) {
  const std::vector<int64_t> shape = request.in_shape(0);
  const int64_t m = shape.back(), n = shape[shape.size() - 2];
  const bool upper = request.node->get_int("upper", 1) != 0;
  // A diagonal outside of the matrix is like the next one: k may be any number.
  const int64_t k = request.has_in(1) ? std::clamp(*context.in<int64_t>(1), -n - 1, m + 1) : 0;
  if (m == 0) return;
  dispatch_size(request.in[0].dtype, [&]<class T>() {
    parallel_for(*context.pool, request.in[0].numel() / m, std::max<int64_t>(1, kCheapGrain / m),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) {
                     const int64_t first = std::clamp<int64_t>(row % n + k + (upper ? 0 : 1), 0, m);
                     const T* x = context.in<T>(0) + row * m;
                     T* y = context.out<T>(0) + row * m;
                     std::fill(y, upper ? y + first : y, T(0));
                     std::copy(upper ? x + first : x, upper ? x + m : x + first,
                               upper ? y + first : y);
                     std::fill(upper ? y + m : y + first, y + m, T(0));
                   }
                 });
  });
}

}  // namespace

void register_trilu_cpu(KernelRegistry& kernels) {
  KernelDef def;
  def.op = "Trilu";
  def.name = "trilu.ref";
  def.declines = {unless_sized()};
  def.create = simple_kernel(run_trilu);
  kernels.add(std::move(def));
}

}  // namespace sardonyx::ops
