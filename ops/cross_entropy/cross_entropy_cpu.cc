// Kernels of the losses: cross_entropy.ref (plain loops in double) and cross_entropy.vector (loops
// of ops/core/softmax_loops). Gradients and CountCorrect stand in cross_entropy_grad_cpu.cc.
//
// Work is cut into units: up to 64 neighbouring positions of one row. Sums are kept in double per
// thread and added in thread order.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/core/refusals.h"
#include "ops/core/softmax_loops.h"
#include "ops/cross_entropy/targets.h"
#include "ops/cross_entropy/units.h"

namespace sardonyx::ops {

namespace cross_entropy {

namespace {

// Which operator, and where its outputs are.
struct Form {
  const char* domain;
  const char* op;
  bool softmax;  // else x holds log-probabilities
  int log_prob = -1;
};

constexpr Form kForms[] = {{"", "SoftmaxCrossEntropyLoss", true, 1},
                           {"", "NegativeLogLikelihoodLoss", false},
                           {kDomain, "CrossEntropyLoss", true, 2},
                           {kDomain, "NllLoss", false}};

struct Sums {
  double loss = 0, weight = 0;
};

// log of the sum of exp(x), in two parts: x - max - log_sum keeps all digits.
struct LogSum {
  double max = 0, log_sum = 0;
  double of(double x) const { return x - max - log_sum; }
};

template <class T>
LogSum plain_log_sum(const T* x, int64_t classes, int64_t stride) {
  LogSum result{-std::numeric_limits<double>::infinity(), 0};
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) {
    result.max = std::max(result.max, static_cast<double>(x[c * stride]));
  }
  for (int64_t c = 0; c < classes; ++c) {
    sum += std::exp(static_cast<double>(x[c * stride]) - result.max);
  }
  result.log_sum = std::log(sum);
  return result;
}

template <class T, bool kVector>
class Loss {
 public:
  Loss(const Form& form, const KernelRequest& request, const Geometry& geometry,
       CpuContext& context)
      : form_(form),
        g_(geometry),
        targets_(request, context, geometry, 1, 2),
        x_(context.in<T>(0)),
        log_prob_(form.log_prob < 0 ? nullptr : context.out<T>(form.log_prob)),
        smoothing_(request.node->get_float("label_smoothing", 0)) {
    own_ = std::string_view(form.domain) == kDomain;
    reduction_ = own_ ? Reduction::kSum : reduction_of(*request.node, "mean");
    each_ = reduction_ == Reduction::kNone ? context.out<T>(0) : nullptr;
  }

  void run(CpuContext& context) {
    const Sums sums = all_units(*context.pool);
    if (each_ != nullptr) return;
    const double loss = reduction_ != Reduction::kMean ? sums.loss
                        : sums.weight == 0             ? 0.0
                                                       : sums.loss / sums.weight;
    if (T* out = context.out<T>(0)) *out = static_cast<T>(loss);
    if (T* out = own_ ? context.out<T>(1) : nullptr) *out = static_cast<T>(sums.weight);
  }

 private:
  Sums all_units(ThreadPool& pool) {
    std::vector<Sums> parts(pool.size());
    Units(g_).run(pool, [&](int part, const Unit& unit) { one_unit(unit, parts[part]); });
    Sums total;
    for (const Sums& part : parts) {
      total.loss += part.loss;
      total.weight += part.weight;
    }
    return total;
  }

  void one_unit(const Unit& unit, Sums& sums) {
    const T* x = x_ + unit.offset;
    LogSum log_sums[kSoftmaxColumns];
    if (form_.softmax) find_log_sums(unit, x, log_sums);
    for (int64_t j = 0; j < unit.columns; ++j) {
      const int64_t position = unit.position + j, y = targets_.label(position);
      double loss = 0;
      if (!targets_.ignored(y)) {
        loss = loss_of(x + j, y, log_sums[j]);
        sums.weight += targets_.weight(y);
        sums.loss += loss;
      }
      if (each_ != nullptr) each_[position] = static_cast<T>(loss);
    }
  }

  void find_log_sums(const Unit& unit, const T* x, LogSum* result) {
    if constexpr (kVector) {
      const SoftmaxGroups groups{g_.classes, g_.inner, unit.columns};
      T max[kSoftmaxColumns], log_sum[kSoftmaxColumns];
      double sum[kSoftmaxColumns];
      softmax_loops<T>().max_and_sum(groups, x, max, sum);
      for (int64_t j = 0; j < unit.columns; ++j) {
        result[j] = {static_cast<double>(max[j]), std::log(sum[j])};
        log_sum[j] = static_cast<T>(result[j].log_sum);
      }
      if (log_prob_ == nullptr) return;
      softmax_loops<T>().log_probabilities(groups, x, max, log_sum, log_prob_ + unit.offset);
    } else {
      for (int64_t j = 0; j < unit.columns; ++j) {
        result[j] = plain_log_sum(x + j, g_.classes, g_.inner);
        if (log_prob_ == nullptr) continue;
        for (int64_t c = 0; c < g_.classes * g_.inner; c += g_.inner) {
          log_prob_[unit.offset + c + j] = static_cast<T>(result[j].of(x[c + j]));
        }
      }
    }
  }

  // A weight of zero takes no part, even where the probability is zero too.
  double loss_of(const T* x, int64_t y, const LogSum& log_sum) const {
    const auto term = [&](int64_t c) {
      const double weight = targets_.weight(c), value = static_cast<double>(x[c * g_.inner]);
      return weight == 0 ? 0.0 : -weight * (form_.softmax ? log_sum.of(value) : value);
    };
    if (smoothing_ == 0) return term(y);
    double all = 0;
    for (int64_t c = 0; c < g_.classes; ++c) all += term(c);
    const double own = smoothing_ == 1 ? 0.0 : (1 - smoothing_) * term(y);
    return own + smoothing_ / static_cast<double>(g_.classes) * all;
  }

  const Form& form_;
  Geometry g_;
  Targets<T> targets_;
  const T* x_;
  T* log_prob_;
  double smoothing_;
  bool own_ = false;  // of this domain: outputs are a sum and a weight
  Reduction reduction_ = Reduction::kSum;
  T* each_ = nullptr;
};

template <bool kVector>
KernelFunction run_form(const Form& form) {
  return [&form](const KernelRequest& request, CpuContext& context) {
    const Geometry geometry = Geometry::of_scores(request.in_shape(0));
    dispatch_float(request.in[0].dtype, [&]<class T>() {
      Loss<T, kVector>(form, request, geometry, context).run(context);
    });
  };
}

}  // namespace

void add_loss_kernels(KernelRegistry& kernels) {
  for (const Form& form : kForms) {
    KernelDef def;
    def.domain = form.domain;
    def.op = form.op;
    def.name = "cross_entropy.ref";
    def.declines = {unless_float()};
    def.create = simple_kernel(run_form<false>(form));
    kernels.add(def);
    if (!form.softmax) continue;
    def.name = "cross_entropy.vector";
    def.speed = Speed::kOptimised;
    def.create = simple_kernel(run_form<true>(form));
    kernels.add(def);
  }
}

}  // namespace cross_entropy

void register_cross_entropy_cpu(KernelRegistry& kernels) {
  cross_entropy::add_loss_kernels(kernels);
  cross_entropy::add_gradient_kernels(kernels);
  cross_entropy::add_count_kernel(kernels);
}

}  // namespace sardonyx::ops
