// The reference kernels: for each element of y a loop over what it reduces, in double. Integers are
// added and multiplied in 64 bits that wrap around; their roots and logarithms are cut off.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/core/dispatch.h"
#include "ops/core/integers.h"
#include "ops/core/kernel.h"
#include "ops/core/refusals.h"
#include "ops/reduce/axes.h"

namespace sardonyx::ops {

namespace {

enum class Fold : uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kL1,
  kL2,
  kSumSquare,
  kLogSum,
  kLogSumExp,
};

// Offsets of x: kept[i] + removed[j] is the j-th element that y[i] reduces.
struct Offsets {
  std::vector<int64_t> kept, removed;

  Offsets(const std::vector<int64_t>& shape, const std::vector<bool>& flags) : kept{0}, removed{0} {
    int64_t step = 1;
    std::vector<int64_t> strides(shape.size());
    for (size_t axis = shape.size(); axis-- > 0;) {
      strides[axis] = step;
      step *= shape[axis];
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      std::vector<int64_t>& list = flags[axis] ? removed : kept;
      std::vector<int64_t> longer;
      for (int64_t offset : list) {
        for (int64_t i = 0; i < shape[axis]; ++i) longer.push_back(offset + i * strides[axis]);
      }
      list = std::move(longer);
    }
  }
};

template <class T>
using Wide = std::conditional_t<!std::is_integral_v<T>, double,
                                std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;

template <class T>
Wide<T> start_of(Fold fold) {
  using Limits = std::numeric_limits<T>;
  constexpr bool kInfinite = Limits::has_infinity;
  switch (fold) {
    case Fold::kProd:
      return 1;
    case Fold::kMax:
      return static_cast<Wide<T>>(kInfinite ? -Limits::infinity() : Limits::lowest());
    case Fold::kMin:
      return static_cast<Wide<T>>(kInfinite ? Limits::infinity() : Limits::max());
    default:
      return 0;
  }
}

// NaN wins a maximum and a minimum.
template <class W>
W folded(Fold fold, W total, W x) {
  switch (fold) {
    case Fold::kProd:
      return wrapped_product(total, x);
    case Fold::kMax:
      return x > total || x != x ? x : total;
    case Fold::kMin:
      return x < total || x != x ? x : total;
    case Fold::kL1:
      return wrapped_sum(total, x < 0 ? wrapped_negative(x) : x);
    case Fold::kL2:
    case Fold::kSumSquare:
      return wrapped_sum(total, wrapped_product(x, x));
    default:
      return wrapped_sum(total, x);
  }
}

// log(sum of exp(x)), shifted by the maximum; that of nothing is -inf.
template <class T>
double log_sum_exp(const T* x, const std::vector<int64_t>& offsets) {
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t offset : offsets) max = folded(Fold::kMax, max, static_cast<double>(x[offset]));
  if (std::isinf(max)) return max;
  double sum = 0;
  for (int64_t offset : offsets) sum += std::exp(static_cast<double>(x[offset]) - max);
  return max + std::log(sum);
}

template <class W, class T>
W total_of(Fold fold, const T* x, const std::vector<int64_t>& offsets) {
  W total = static_cast<W>(start_of<T>(fold));
  for (int64_t offset : offsets) total = folded(fold, total, static_cast<W>(x[offset]));
  return total;
}

template <class T>
T reduced(Fold fold, const T* x, const std::vector<int64_t>& offsets) {
  if (fold == Fold::kLogSumExp) return element_of<T>(log_sum_exp(x, offsets));
  if (fold == Fold::kL2) return element_of<T>(std::sqrt(total_of<double>(fold, x, offsets)));
  if (fold == Fold::kLogSum) return element_of<T>(std::log(total_of<double>(fold, x, offsets)));
  const auto total = total_of<Wide<T>>(fold, x, offsets);
  if (fold != Fold::kMean) return static_cast<T>(total);
  if (std::is_integral_v<T> && offsets.empty()) return 0;  // integers have no NaN
  return static_cast<T>(total / static_cast<Wide<T>>(offsets.size()));
}

void run_reduction(Fold fold, const KernelRequest& request, CpuContext& context) {
  const TensorType& x = request.in[0];
  const Offsets offsets(x.shape(),
                        reduce::reduced_axes(*request.node, request.constant(1), x.rank()));
  const bool truth = x.dtype == DType::kBool;  // bytes, whose highest value is 1
  dispatch_element(x.dtype, [&]<class T>() {
    T* y = context.out<T>(0);
    for (size_t i = 0; i < offsets.kept.size(); ++i) {
      T value = reduced(fold, context.in<T>(0) + offsets.kept[i], offsets.removed);
      if (truth) value = std::min<T>(value, 1);
      y[i] = context.accumulate ? wrapped_sum(y[i], value) : value;
    }
  });
}

void run_extremum_gradient(const KernelRequest& request, CpuContext& context) {
  const TensorType& type = request.in[0];
  const Offsets offsets(type.shape(), reduce::attribute_axes(*request.node, type.rank()));
  dispatch_float(type.dtype, [&]<class T>() {
    for (size_t i = 0; i < offsets.kept.size(); ++i) {
      const T* x = context.in<T>(0) + offsets.kept[i];
      T* dx = context.out<T>(0) + offsets.kept[i];
      const T y = context.in<T>(1)[i];
      const auto wins = [&](int64_t at) { return x[at] == y || (x[at] != x[at] && y != y); };
      const auto count = std::count_if(offsets.removed.begin(), offsets.removed.end(), wins);
      const T share = context.in<T>(2)[i] / static_cast<T>(std::max<int64_t>(count, 1));
      for (int64_t at : offsets.removed) dx[at] = wins(at) ? share : T(0);
    }
  });
}

void run_prod_gradient(const KernelRequest& request, CpuContext& context) {
  const TensorType& type = request.in[0];
  const Offsets offsets(type.shape(), reduce::attribute_axes(*request.node, type.rank()));
  dispatch_float(type.dtype, [&]<class T>() {
    const size_t n = offsets.removed.size();
    for (size_t i = 0; i < offsets.kept.size(); ++i) {
      const T* x = context.in<T>(0) + offsets.kept[i];
      T* dx = context.out<T>(0) + offsets.kept[i];
      const double dy = context.in<T>(1)[i];
      // Products of what stands before and after each element: exact with zeros, no division.
      double before = 1;
      for (size_t j = 0; j < n; ++j) {
        dx[offsets.removed[j]] = static_cast<T>(before * dy);
        before *= x[offsets.removed[j]];
      }
      double after = 1;
      for (size_t j = n; j-- > 0;) {
        const int64_t at = offsets.removed[j];
        dx[at] = static_cast<T>(dx[at] * after);
        after *= x[at];
      }
    }
  });
}

void add(KernelRegistry& kernels, const char* domain, const char* op, bool accumulates,
         KernelFunction run) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "reduce.ref";
  def.accumulates = accumulates;
  def.declines = {unless_elements()};
  def.create = simple_kernel(std::move(run));
  kernels.add(std::move(def));
}

void add_reduction(KernelRegistry& kernels, const char* op, Fold fold) {
  add(kernels, "", op, true, [fold](const KernelRequest& request, CpuContext& context) {
    run_reduction(fold, request, context);
  });
}

}  // namespace

void register_reduce_reference(KernelRegistry& kernels) {
  add_reduction(kernels, "ReduceSum", Fold::kSum);
  add_reduction(kernels, "ReduceMean", Fold::kMean);
  add_reduction(kernels, "ReduceMax", Fold::kMax);
  add_reduction(kernels, "ReduceMin", Fold::kMin);
  add_reduction(kernels, "ReduceProd", Fold::kProd);
  add_reduction(kernels, "ReduceL1", Fold::kL1);
  add_reduction(kernels, "ReduceL2", Fold::kL2);
  add_reduction(kernels, "ReduceSumSquare", Fold::kSumSquare);
  add_reduction(kernels, "ReduceLogSum", Fold::kLogSum);
  add_reduction(kernels, "ReduceLogSumExp", Fold::kLogSumExp);
  add(kernels, kDomain, "ReduceExtremumGrad", false, run_extremum_gradient);
  add(kernels, kDomain, "ReduceProdGrad", false, run_prod_gradient);
}

}  // namespace sardonyx::ops
