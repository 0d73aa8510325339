// Kernels: mean_variance.ref alone, sums in double, the deviation from centred values. Elements are
// walked in memory order, whatever the axes; the sums of all groups are kept side by side.
#include <cmath>
#include <utility>

#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/refusals.h"
#include "ops/core/strided.h"
#include "ops/mean_variance/mean_variance.h"

namespace sardonyx::ops {

namespace {

constexpr double kEpsilon = 1e-9;

// The elements of x and the groups that they belong to, in rows along the last axis.
class Groups {
 public:
  Groups(const Node& node, const std::vector<int64_t>& shape) : dims_(shape) {
    std::vector<bool> inside(shape.size(), false);  // a group
    for (const int64_t axis : mean_variance::axes_of(node)) {
      inside[static_cast<size_t>(front_axis(axis, static_cast<int>(shape.size())))] = true;
    }
    strides_.assign(shape.size(), 0);
    for (size_t i = shape.size(); i-- > 0;) {
      if (!inside[i]) strides_[i] = std::exchange(count_, count_ * shape[i]);
      if (inside[i]) size_ *= shape[i];
    }
    row_ = std::exchange(dims_.back(), 1);
  }

  int64_t count() const { return count_; }
  double size() const { return static_cast<double>(size_); }

  // f(element, group) for all.
  template <class F>
  void each(F&& f) const {
    int64_t at = 0;
    if (row_ == 0) return;
    for_each_index(dims_, [&](const std::vector<int64_t>& index) {
      int64_t group = offset_of(index, strides_);
      for (int64_t i = 0; i < row_; ++i, ++at, group += strides_.back()) f(at, group);
    });
  }

 private:
  std::vector<int64_t> dims_, strides_;  // without the last axis; of groups
  int64_t row_ = 1, count_ = 1, size_ = 1;
};

// Of each group.
struct Statistics {
  std::vector<double> mean, deviation;

  template <class T>
  Statistics(const Groups& groups, const T* x)
      : mean(static_cast<size_t>(groups.count()), 0), deviation(mean) {
    groups.each([&](int64_t i, int64_t g) { mean[g] += static_cast<double>(x[i]); });
    for (double& m : mean) m /= groups.size();
    groups.each([&](int64_t i, int64_t g) {
      const double c = static_cast<double>(x[i]) - mean[g];
      deviation[g] += c * c;
    });
    for (double& d : deviation) d = std::sqrt(d / groups.size());
  }
};

void run_forward(const KernelRequest& request, CpuContext& context) {
  const Groups groups(*request.node, request.in_shape(0));
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const T* x = context.in<T>(0);
    T* y = context.out<T>(0);
    const Statistics s(groups, x);
    groups.each([&](int64_t i, int64_t g) {
      y[i] = static_cast<T>((static_cast<double>(x[i]) - s.mean[g]) / (s.deviation[g] + kEpsilon));
    });
  });
}

void run_gradient(const KernelRequest& request, CpuContext& context) {
  const Groups groups(*request.node, request.in_shape(0));
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const T *x = context.in<T>(0), *dy = context.in<T>(1);
    T* dx = context.out<T>(0);
    const Statistics s(groups, x);
    std::vector<double> mean_dy(s.mean.size(), 0), slope(s.mean.size(), 0);
    groups.each([&](int64_t i, int64_t g) {
      mean_dy[g] += static_cast<double>(dy[i]) / groups.size();
      slope[g] += static_cast<double>(dy[i]) * (static_cast<double>(x[i]) - s.mean[g]);
    });
    for (size_t g = 0; g < slope.size(); ++g) {
      const double d = s.deviation[g];
      slope[g] = d > 0 ? slope[g] / (groups.size() * d * (d + kEpsilon)) : 0;
    }
    groups.each([&](int64_t i, int64_t g) {
      const double c = static_cast<double>(x[i]) - s.mean[g];
      dx[i] = static_cast<T>((static_cast<double>(dy[i]) - mean_dy[g] - c * slope[g]) /
                             (s.deviation[g] + kEpsilon));
    });
  });
}

void add_kernel(KernelRegistry& kernels, const char* domain, const char* op,
                const KernelFunction& run) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "mean_variance.ref";
  def.in_place = {{0, 0}};
  def.declines = {unless_float()};
  def.create = simple_kernel(run);
  kernels.add(std::move(def));
}

}  // namespace

void register_mean_variance_cpu(KernelRegistry& kernels) {
  add_kernel(kernels, "", "MeanVarianceNormalization", run_forward);
  add_kernel(kernels, kDomain, "MeanVarianceNormGrad", run_gradient);
}

}  // namespace sardonyx::ops
