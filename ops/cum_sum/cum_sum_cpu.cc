// A line along the axis is one thread's: floats are summed and multiplied in double, integers wrap.
#include "ops/core/axes.h"
#include "ops/core/dispatch.h"
#include "ops/core/elementwise.h"
#include "ops/core/kernel.h"
#include "ops/core/lines.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

enum class Own : uint8_t { kCounted, kLeftOut };

// The lines that a node runs along, and in which direction.
struct Run {
  Lines lines;
  int64_t to_begin, stride;  // from the first element of a line in memory
  Own own;

  explicit Run(const KernelRequest& request)
      : lines(Lines::along(request.in_shape(0),
                           front_axis(request.ints(1).at(0), request.in[0].rank()))),
        to_begin(0),
        stride(lines.inner),
        own(request.node->get_int("exclusive", 0) != 0 ? Own::kLeftOut : Own::kCounted) {
    if (request.node->get_int("reverse", 0) == 0) return;
    to_begin = (lines.length - 1) * lines.inner;
    stride = -lines.inner;
  }
};

struct Sum {
  static constexpr int kNothing = 0;
  template <class N>
  static N of(N a, N b) {
    return a + b;
  }
};
struct Product {
  static constexpr int kNothing = 1;
  template <class N>
  static N of(N a, N b) {
    return a * b;
  }
};

// y may be x.
template <class F, class T>
void run_line(const Run& run, const T* x, T* y) {
  using Number = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  Number number = F::kNothing;
  for (int64_t i = 0; i < run.lines.length; ++i) {
    const Number before = number;
    number = F::of(number, static_cast<Number>(x[i * run.stride]));
    y[i * run.stride] = static_cast<T>(run.own == Own::kCounted ? number : before);
  }
}

template <class F>
void run_forward(const KernelRequest& request, CpuContext& context) {
  const Run run(request);
  dispatch_number(request.in[0].dtype, [&]<class T>() {
    each_line(*context.pool, run.lines, kCheapGrain, [&](int64_t first) {
      const int64_t at = first + run.to_begin;
      run_line<F>(run, context.in<T>(0) + at, context.out<T>(0) + at);
    });
  });
}

// dx[k] is a product of two: of all x before k, and of `behind`, the sum of dy[i] x[k + 1] ...
// x[i].
template <class T>
void product_gradient_line(const Run& run, const T* x, const T* dy, T* dx) {
  double behind = 0;
  for (int64_t i = run.lines.length; i-- > 0;) {
    const int64_t at = i * run.stride;
    if (run.own == Own::kCounted) behind += dy[at];
    dx[at] = static_cast<T>(behind);
    behind *= x[at];
    if (run.own == Own::kLeftOut) behind += dy[at];
  }
  double before = 1;
  for (int64_t i = 0; i < run.lines.length; ++i) {
    const int64_t at = i * run.stride;
    dx[at] = static_cast<T>(before * dx[at]);
    before *= x[at];
  }
}

void run_product_gradient(const KernelRequest& request, CpuContext& context) {
  const Run run(request);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    each_line(*context.pool, run.lines, kCheapGrain, [&](int64_t first) {
      const int64_t at = first + run.to_begin;
      product_gradient_line(run, context.in<T>(0) + at, context.in<T>(2) + at,
                            context.out<T>(0) + at);
    });
  });
}

KernelDef kernel(const char* op, KernelFunction run) {
  KernelDef def;
  def.op = op;
  def.name = "cum_sum.ref";
  def.in_place = {{0, 0}};
  def.declines = {unless_numbers()};
  def.create = simple_kernel(std::move(run));
  return def;
}

}  // namespace

void register_cum_sum_cpu(KernelRegistry& kernels) {
  kernels.add(kernel("CumSum", run_forward<Sum>));
  kernels.add(kernel("CumProd", run_forward<Product>));
  KernelDef back = kernel("CumProdGrad", run_product_gradient);
  back.domain = kDomain;
  back.in_place.clear();
  kernels.add(std::move(back));
}

}  // namespace sardonyx::ops
