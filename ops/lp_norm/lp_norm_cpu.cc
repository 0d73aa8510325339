// Kernels: lp_norm.ref, element by element with sums in double; lp_norm.lanes is the same loop
// where 16 images lie side by side. The operator closes a network once, so nothing here is faster.
#include <cmath>

#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

// x is [outer][length][inner], the images of a lane block innermost.
struct Groups {
  int64_t outer = 1, length = 1, inner = 1;

  explicit Groups(const KernelRequest& request) {
    std::vector<int64_t> shape = request.in_shape(0);
    const auto rank = static_cast<int>(shape.size());
    const int axis = front_axis(request.node->get_int("axis", -1), rank);
    if (const int lanes = request.in[0].layout.lane_count(); lanes != 0) {
      shape[0] = (shape[0] + lanes - 1) / lanes;
      inner = lanes;
    }
    for (int i = 0; i < rank; ++i) (i < axis ? outer : i == axis ? length : inner) *= shape[i];
  }
};

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

// f(first element) of every group.
template <class F>
void each_group(const Groups& g, ThreadPool& pool, F&& f) {
  const int64_t grain = 1 + kMathGrain / (g.length + 1);
  parallel_for(pool, g.outer * g.inner, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i / g.inner * g.length * g.inner + i % g.inner);
  });
}

void run_forward(const KernelRequest& request, CpuContext& context) {
  const Groups g(request);
  const int64_t p = request.node->get_int("p", 2);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    each_group(g, *context.pool, [&](int64_t first) {
      const T* x = context.in<T>(0) + first;
      T* y = context.out<T>(0) + first;
      const double inverse = inverse_norm(p, x, g.length, g.inner);
      for (int64_t i = 0; i < g.length * g.inner; i += g.inner) {
        y[i] = static_cast<T>(at(x, i) * inverse);
      }
    });
  });
}

void run_gradient(const KernelRequest& request, CpuContext& context) {
  const Groups g(request);
  const int64_t p = request.node->get_int("p", 2);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    each_group(g, *context.pool, [&](int64_t first) {
      gradient(p, context.in<T>(0) + first, context.in<T>(1) + first, g.length, g.inner,
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
