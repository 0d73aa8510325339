// One kernel: a line along the axis is summed by one thread, floats in double, integers wrapping.
#include "ops/core/axes.h"
#include "ops/core/dispatch.h"
#include "ops/core/elementwise.h"
#include "ops/core/kernel.h"
#include "ops/core/refusals.h"
#include "ops/core/strided.h"

namespace sardonyx::ops {

namespace {

enum class Own : uint8_t { kCounted, kLeftOut };

// y may be x.
template <class T>
void sum_line(const T* x, T* y, int64_t length, int64_t stride, Own own) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  Sum sum = 0;
  for (int64_t i = 0; i < length; ++i) {
    const Sum before = sum;
    sum += static_cast<Sum>(x[i * stride]);
    y[i * stride] = static_cast<T>(own == Own::kCounted ? sum : before);
  }
}

void run_cum_sum(const KernelRequest& request, CpuContext& context) {
  const std::vector<int64_t> shape = request.in_shape(0);
  const int axis = front_axis(request.ints(1).at(0), request.in[0].rank());
  const int64_t length = shape[axis], inner = row_major(shape)[axis];
  const Own own = request.node->get_int("exclusive", 0) != 0 ? Own::kLeftOut : Own::kCounted;
  const bool back = request.node->get_int("reverse", 0) != 0;
  const int64_t numel = request.in[0].numel();
  if (numel == 0) return;
  dispatch_number(request.in[0].dtype, [&]<class T>() {
    parallel_for(*context.pool, numel / length, std::max<int64_t>(1, kCheapGrain / length),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t line = begin; line < end; ++line) {
                     const int64_t first = line / inner * length * inner + line % inner;
                     const int64_t at = back ? first + (length - 1) * inner : first;
                     sum_line(context.in<T>(0) + at, context.out<T>(0) + at, length,
                              back ? -inner : inner, own);
                   }
                 });
  });
}

}  // namespace

void register_cum_sum_cpu(KernelRegistry& kernels) {
  KernelDef def;
  def.op = "CumSum";
  def.name = "cum_sum.ref";
  def.in_place = {{0, 0}};
  def.declines = {unless_numbers()};
  def.create = simple_kernel(run_cum_sum);
  kernels.add(std::move(def));
}

}  // namespace sardonyx::ops
