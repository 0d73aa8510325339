// Kernels: lp_norm.ref, element by element with sums in double; lp_norm.lanes is the same loop
// where 16 images lie side by side. The operator closes a network once, so nothing here is faster.
#include <cmath>

#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/lines.h"
#include "ops/core/refusals.h"
#include "ops/core/strided.h"

namespace sardonyx::ops {

namespace {

Lines lines_of(const KernelRequest& request) {
  const int axis = front_axis(request.node->get_int("axis", -1), request.in[0].rank());
  return Lines::along(stored_dims(request.in[0]), axis);
}

template <class T>
double at(const T* x, int64_t i) {
  return static_cast<double>(x[i]);
}

// 1 / norm of x[0], x[stride], ...; 0 where there is none.
template <class T>
double inverse_norm(int64_t p, const T* x, int64_t length, int64_t stride) {
  double sum = 0;
  for (int64_t i = 0; i < length; ++i) {
    const double v = at(x, i * stride);
    sum += p == 1 ? std::abs(v) : v * v;
  }
  const double norm = p == 1 ? sum : std::sqrt(sum);
  return norm == 0 ? 0 : 1 / norm;
}

double sign(double v) { return v > 0 ? 1 : v < 0 ? -1 : 0; }

template <class T>
void gradient(int64_t p, const T* x, const T* dy, int64_t length, int64_t stride, T* dx) {
  const double inverse = inverse_norm(p, x, length, stride);
  double sum = 0;
  for (int64_t i = 0; i < length * stride; i += stride) sum += at(dy, i) * at(x, i) * inverse;
  for (int64_t i = 0; i < length * stride; i += stride) {
    const double d = p == 1 ? sign(at(x, i)) : at(x, i) * inverse;
    dx[i] = static_cast<T>((at(dy, i) - d * sum) * inverse);
  }
}

void run_forward(const KernelRequest& request, CpuContext& context) {
  const Lines lines = lines_of(request);
  const int64_t p = request.node->get_int("p", 2);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    each_line(*context.pool, lines, kMathGrain, [&](int64_t first) {
      const T* x = context.in<T>(0) + first;
      T* y = context.out<T>(0) + first;
      const double inverse = inverse_norm(p, x, lines.length, lines.inner);
      for (int64_t i = 0; i < lines.length * lines.inner; i += lines.inner) {
        y[i] = static_cast<T>(at(x, i) * inverse);
      }
    });
  });
}

void run_gradient(const KernelRequest& request, CpuContext& context) {
  const Lines lines = lines_of(request);
  const int64_t p = request.node->get_int("p", 2);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    each_line(*context.pool, lines, kMathGrain, [&](int64_t first) {
      gradient(p, context.in<T>(0) + first, context.in<T>(1) + first, lines.length, lines.inner,
               context.out<T>(0) + first);
    });
  });
}

void add_kernels(KernelRegistry& kernels, const char* domain, const char* op,
                 const KernelFunction& run) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "lp_norm.ref";
  def.in_place = {{0, 0}};
  def.declines = {unless_float()};
  def.create = simple_kernel(run);
  kernels.add(def);
  def.name = "lp_norm.lanes";
  def.speed = Speed::kPlain;
  def.layouts = Layouts::kLanes;
  def.declines = {unless_float(),
                  unless_equal_layouts(),
                  {"leaves the batch axis alone", [](const KernelRequest& request) {
                     const int rank = request.in[0].rank();
                     return front_axis(request.node->get_int("axis", -1), rank) == 0;
                   }}};
  kernels.add(std::move(def));
}

}  // namespace

void register_lp_norm_cpu(KernelRegistry& kernels) {
  add_kernels(kernels, "", "LpNormalization", run_forward);
  add_kernels(kernels, kDomain, "LpNormGrad", run_gradient);
}

}  // namespace sardonyx::ops
