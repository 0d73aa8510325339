// One kernel: a line along the axis is summed by one thread, floats in double, integers wrapping.
#include "ops/core/axes.h"
#include "ops/core/dispatch.h"
#include "ops/core/elementwise.h"
#include "ops/core/kernel.h"
#include "ops/core/lines.h"
#include "ops/core/refusals.h"

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
  const int axis = front_axis(request.ints(1).at(0), request.in[0].rank());
  const Lines lines = Lines::along(request.in_shape(0), axis);
  const Own own = request.node->get_int("exclusive", 0) != 0 ? Own::kLeftOut : Own::kCounted;
  const bool back = request.node->get_int("reverse", 0) != 0;
  const int64_t to_last = (lines.length - 1) * lines.inner;
  dispatch_number(request.in[0].dtype, [&]<class T>() {
    each_line(*context.pool, lines, kCheapGrain, [&](int64_t first) {
      const int64_t at = back ? first + to_last : first;
      sum_line(context.in<T>(0) + at, context.out<T>(0) + at, lines.length,
               back ? -lines.inner : lines.inner, own);
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
