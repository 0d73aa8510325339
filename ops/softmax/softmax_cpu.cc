// Kernels: softmax.ref (plain loops in double) and softmax.vector (loops of ops/core/softmax_loops,
// on plain layouts and, where axis 0 is not normalised, on lanes of images: there the lanes belong
// to the inner axes).
#include <algorithm>
#include <cmath>

#include "ops/core/elementwise.h"
#include "ops/core/kernel.h"
#include "ops/core/refusals.h"
#include "ops/core/softmax_loops.h"
#include "ops/softmax/softmax.h"

namespace sardonyx::ops {

namespace {

enum class Which : uint8_t { kSoftmax, kLogSoftmax, kSoftmaxGrad, kLogSoftmaxGrad };

struct Entry {
  const char* domain;
  const char* op;
  Which which;
};

constexpr Entry kEntries[] = {{"", "Softmax", Which::kSoftmax},
                              {"", "LogSoftmax", Which::kLogSoftmax},
                              {kDomain, "SoftmaxGrad", Which::kSoftmaxGrad},
                              {kDomain, "LogSoftmaxGrad", Which::kLogSoftmaxGrad}};

// --- Reference

template <class T>
void forward_plain(Which which, const T* x, int64_t length, int64_t stride, T* y) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t c = 0; c < length; ++c) max = std::max(max, static_cast<double>(x[c * stride]));
  for (int64_t c = 0; c < length; ++c) sum += std::exp(static_cast<double>(x[c * stride]) - max);
  for (int64_t c = 0; c < length; ++c) {
    const double shifted = static_cast<double>(x[c * stride]) - max;
    y[c * stride] = static_cast<T>(which == Which::kSoftmax ? std::exp(shifted) / sum
                                                            : shifted - std::log(sum));
  }
}

template <class T>
void gradient_plain(Which which, const T* y, const T* dy, int64_t length, int64_t stride, T* dx) {
  double sum = 0;
  for (int64_t c = 0; c < length * stride; c += stride) {
    const double weight = which == Which::kSoftmaxGrad ? static_cast<double>(y[c]) : 1.0;
    sum += weight * static_cast<double>(dy[c]);
  }
  for (int64_t c = 0; c < length * stride; c += stride) {
    const double of_y = static_cast<double>(y[c]), of_dy = static_cast<double>(dy[c]);
    dx[c] = static_cast<T>(which == Which::kSoftmaxGrad ? of_y * (of_dy - sum)
                                                        : of_dy - std::exp(of_y) * sum);
  }
}

template <class T>
void run_plain(Which which, const Lines& groups, CpuContext& context) {
  const bool backward = which == Which::kSoftmaxGrad || which == Which::kLogSoftmaxGrad;
  each_line(*context.pool, groups, kMathGrain, [&](int64_t at) {
    if (backward) {
      gradient_plain(which, context.in<T>(0) + at, context.in<T>(1) + at, groups.length,
                     groups.inner, context.out<T>(0) + at);
    } else {
      forward_plain(which, context.in<T>(0) + at, groups.length, groups.inner,
                    context.out<T>(0) + at);
    }
  });
}

// --- Vector loops

template <class T>
void forward_groups(Which which, SoftmaxGroups g, const T* x, T* y) {
  const SoftmaxLoops<T>& loops = softmax_loops<T>();
  T max[kSoftmaxColumns], factor[kSoftmaxColumns];
  double sum[kSoftmaxColumns];
  loops.max_and_sum(g, x, max, sum);
  for (int64_t j = 0; j < g.columns; ++j) {
    factor[j] = static_cast<T>(which == Which::kSoftmax ? 1 / sum[j] : std::log(sum[j]));
  }
  (which == Which::kSoftmax ? loops.exponentials : loops.log_probabilities)(g, x, max, factor, y);
}

template <class T>
void run_groups(Which which, SoftmaxGroups g, int64_t at, CpuContext& context) {
  const SoftmaxLoops<T>& loops = softmax_loops<T>();
  const T* x = context.in<T>(0) + at;
  T* y = context.out<T>(0) + at;
  switch (which) {
    case Which::kSoftmax:
    case Which::kLogSoftmax:
      return forward_groups(which, g, x, y);
    case Which::kSoftmaxGrad:
      return loops.softmax_gradient(g, x, context.in<T>(1) + at, y);
    case Which::kLogSoftmaxGrad:
      return loops.log_softmax_gradient(g, x, context.in<T>(1) + at, y);
  }
}

template <class T>
void run_vector(Which which, const Lines& groups, CpuContext& context) {
  const int64_t width = std::min(groups.inner, kSoftmaxColumns);
  const int64_t pieces = groups.inner == 0 ? 0 : (groups.inner + width - 1) / width;
  const int64_t grain = 1 + kMathGrain / std::max<int64_t>(groups.length * width, 1);
  parallel_for(*context.pool, groups.outer * pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % pieces * width;
      const SoftmaxGroups g{groups.length, groups.inner, std::min(width, groups.inner - column)};
      run_groups<T>(which, g, i / pieces * groups.length * groups.inner + column, context);
    }
  });
}

// --- Kernels

template <bool kVector>
class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(Which which, const KernelRequest& request)
      : which_(which),
        dtype_(request.in[0].dtype),
        groups_(softmax::groups_of(*request.node, request.in[0])) {}

  void run(CpuContext& context) const override {
    if (groups_.length == 0) return;
    dispatch_float(dtype_, [&]<class T>() {
      if constexpr (kVector) {
        run_vector<T>(which_, groups_, context);
      } else {
        run_plain<T>(which_, groups_, context);
      }
    });
  }

 private:
  Which which_;
  DType dtype_;
  Lines groups_;
};

template <bool kVector>
std::function<std::unique_ptr<Kernel>(const KernelRequest&)> make(Which which) {
  return [which](const KernelRequest& request) -> std::unique_ptr<Kernel> {
    return std::make_unique<SoftmaxKernel<kVector>>(which, request);
  };
}

}  // namespace

void register_softmax_cpu(KernelRegistry& kernels) {
  for (const Entry& entry : kEntries) {
    KernelDef def;
    def.domain = entry.domain;
    def.op = entry.op;
    def.in_place = {{0, 0}};
    if (entry.which == Which::kSoftmaxGrad || entry.which == Which::kLogSoftmaxGrad) {
      def.in_place.emplace_back(0, 1);
    }
    def.name = "softmax.ref";
    def.declines = {unless_float()};
    def.create = make<false>(entry.which);
    kernels.add(def);
    def.name = "softmax.vector";
    def.speed = Speed::kOptimised;
    def.create = make<true>(entry.which);
    kernels.add(def);
    def.name = "softmax.lanes";
    def.layouts = Layouts::kLanes;
    def.declines = {unless_float(),
                    unless_equal_layouts(),
                    {"takes no sum over the batch", [](const KernelRequest& request) {
                       return softmax::first_axis(*request.node, request.in[0].rank()) == 0;
                     }}};
    kernels.add(def);
  }
}

}  // namespace sardonyx::ops
