// Kernels of CrossEntropyGrad, NllGrad and CountCorrect.
#include <cmath>

#include "ops/core/refusals.h"
#include "ops/cross_entropy/targets.h"
#include "ops/cross_entropy/units.h"

namespace sardonyx::ops::cross_entropy {

namespace {

// dy of a position; for a mean already divided by the total weight.
template <class T>
class Incoming {
 public:
  Incoming(const KernelRequest& request, const CpuContext& context, const Targets<T>& targets)
      : dy_(context.in<T>(0)) {
    const Reduction reduction = reduction_of(*request.node, "sum");
    each_ = reduction == Reduction::kNone;
    if (reduction == Reduction::kMean) {
      const double total = targets.total();
      factor_ = total == 0 ? 0 : 1 / total;
    }
  }
  double of(int64_t position) const {
    return static_cast<double>(dy_[each_ ? position : 0]) * factor_;
  }

 private:
  const T* dy_;
  bool each_ = false;
  double factor_ = 1;
};

// With p = exp(log_prob), W = sum of all class weights, s = label_smoothing:
//   dx[c] = dy (((1-s) w[y] + s/C W) p[c] - (1-s) w[y] [c = y] - s/C w[c])
template <class T, bool kVector>
void cross_entropy_grad(const KernelRequest& request, CpuContext& context) {
  const Geometry g = Geometry::of_scores(request.in_shape(1));
  const Targets<T> targets(request, context, g, 2, 3);
  const Incoming<T> incoming(request, context, targets);
  const double smoothing = request.node->get_float("label_smoothing", 0);
  const double spread = smoothing / static_cast<double>(std::max<int64_t>(g.classes, 1));
  const double spread_total = spread * targets.class_total();
  const auto one_position = [&](T* dx, int64_t y, double dy) {
    const double own = dy * (1 - smoothing) * targets.weight(y);
    dx[y * g.inner] = static_cast<T>(static_cast<double>(dx[y * g.inner]) - own);
    if (spread == 0) return;
    for (int64_t c = 0; c < g.classes; ++c) {
      T& out = dx[c * g.inner];
      out = static_cast<T>(static_cast<double>(out) - dy * spread * targets.weight(c));
    }
  };
  Units(g).run(*context.pool, [&](int, const Unit& unit) {
    const T* log_prob = context.in<T>(1) + unit.offset;
    T* dx = context.out<T>(0) + unit.offset;
    T shift[kSoftmaxColumns] = {}, scale[kSoftmaxColumns];
    for (int64_t j = 0; j < unit.columns; ++j) {
      const int64_t y = targets.label(unit.position + j);
      scale[j] = targets.ignored(y)
                     ? T{0}
                     : static_cast<T>(incoming.of(unit.position + j) *
                                      ((1 - smoothing) * targets.weight(y) + spread_total));
    }
    if constexpr (kVector) {
      softmax_loops<T>().exponentials({g.classes, g.inner, unit.columns}, log_prob, shift, scale,
                                      dx);
    }
    for (int64_t j = 0; j < unit.columns; ++j) {
      const int64_t y = targets.label(unit.position + j);
      for (int64_t c = 0; c < g.classes && (!kVector || targets.ignored(y)); ++c) {
        const int64_t i = c * g.inner + j;
        dx[i] = targets.ignored(y)
                    ? T{0}
                    : static_cast<T>(std::exp(static_cast<double>(log_prob[i])) * scale[j]);
      }
      if (!targets.ignored(y)) one_position(dx + j, y, incoming.of(unit.position + j));
    }
  });
}

template <class T>
void nll_grad(const KernelRequest& request, CpuContext& context) {
  const Geometry g = Geometry::of_scores(request.out_shape(0));
  const Targets<T> targets(request, context, g, 1, 2);
  const Incoming<T> incoming(request, context, targets);
  Units(g).run(*context.pool, [&](int, const Unit& unit) {
    T* dx = context.out<T>(0) + unit.offset;
    for (int64_t c = 0; c < g.classes; ++c) std::fill_n(dx + c * g.inner, unit.columns, T{0});
    for (int64_t j = 0; j < unit.columns; ++j) {
      const int64_t y = targets.label(unit.position + j);
      if (targets.ignored(y)) continue;
      dx[y * g.inner + j] = static_cast<T>(-incoming.of(unit.position + j) * targets.weight(y));
    }
  });
}

// Class c is better than y with the larger score (NaN counts as larger) or, at equal scores, the
// lower number.
template <class T>
bool among_best(const T* x, int64_t classes, int64_t stride, int64_t y, int64_t k) {
  const T own = x[y * stride];
  int64_t better = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const T other = x[c * stride];
    const bool ahead = !(other <= own) || (other == own && c < y);
    better += c != y && ahead ? 1 : 0;
  }
  return better < k;
}

template <class T>
void count_correct(const KernelRequest& request, CpuContext& context) {
  const Geometry g = Geometry::of_scores(request.in_shape(0));
  const Targets<T> targets(request, context, g, 1, 2);
  const int64_t k = request.node->get_int("k", 1);
  std::vector<int64_t> parts(context.pool->size());
  Units(g).run(*context.pool, [&](int part, const Unit& unit) {
    int64_t count = 0;
    for (int64_t j = 0; j < unit.columns; ++j) {
      const int64_t y = targets.label(unit.position + j);
      if (targets.ignored(y)) continue;
      const T* x = context.in<T>(0) + unit.offset + j;
      count += among_best(x, g.classes, g.inner, y, k) ? 1 : 0;
    }
    parts[part] += count;
  });
  int64_t total = 0;
  for (int64_t part : parts) total += part;
  *context.out<T>(0) = static_cast<T>(total);
}

KernelDef define(const char* op, const char* name, Speed speed, KernelFunction run) {
  KernelDef def;
  def.domain = kDomain;
  def.op = op;
  def.name = name;
  def.speed = speed;
  def.declines = {unless_float()};
  def.create = simple_kernel(std::move(run));
  return def;
}

}  // namespace

void add_gradient_kernels(KernelRegistry& kernels) {
  kernels.add(define("CrossEntropyGrad", "cross_entropy.ref", Speed::kReference,
                     [](const KernelRequest& request, CpuContext& context) {
                       dispatch_float(request.in[0].dtype, [&]<class T>() {
                         cross_entropy_grad<T, false>(request, context);
                       });
                     }));
  kernels.add(define("CrossEntropyGrad", "cross_entropy.vector", Speed::kOptimised,
                     [](const KernelRequest& request, CpuContext& context) {
                       dispatch_float(request.in[0].dtype, [&]<class T>() {
                         cross_entropy_grad<T, true>(request, context);
                       });
                     }));
  kernels.add(define("NllGrad", "cross_entropy.ref", Speed::kReference,
                     [](const KernelRequest& request, CpuContext& context) {
                       dispatch_float(request.in[0].dtype,
                                      [&]<class T>() { nll_grad<T>(request, context); });
                     }));
}

void add_count_kernel(KernelRegistry& kernels) {
  kernels.add(define("CountCorrect", "cross_entropy.ref", Speed::kReference,
                     [](const KernelRequest& request, CpuContext& context) {
                       dispatch_float(request.in[0].dtype,
                                      [&]<class T>() { count_correct<T>(request, context); });
                     }));
}

}  // namespace sardonyx::ops::cross_entropy
