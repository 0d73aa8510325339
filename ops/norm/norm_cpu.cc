// Kernels: norm.ref (loops in double), norm.vector (plain) and norm.lanes (16 images side by side).
//
// They differ in their loops only. Work is cut by groups; the gradient of scale, which adds up
// rows, first finds the statistics of all groups (in the workspace), then takes the rows in order
// for some numbers of scale at a time.
#include <algorithm>
#include <limits>

#include "ops/core/elementwise.h"
#include "ops/core/isa.h"
#include "ops/core/refusals.h"
#include "ops/norm/norm.h"

namespace sardonyx::ops {

namespace {

using norm::kMostWidth;
using norm::Loops;
using norm::NormGeometry;
using norm::Slopes;
using norm::Statistics;
using norm::Sums;

enum class Kind : uint8_t { kReference, kVector, kLanes };

template <class T>
const Loops<T>& loops_of(Kind kind) {
  if (kind == Kind::kReference) return norm::reference_loops<T>();
  if (kind == Kind::kLanes) {
    return best_copy(norm::baseline::lane_loops<T>(), norm::avx2::lane_loops<T>(),
                     norm::avx512::lane_loops<T>());
  }
  return best_copy(norm::baseline::plain_loops<T>(), norm::avx2::plain_loops<T>(),
                   norm::avx512::plain_loops<T>());
}

// Tensors of statistics may have another type than x.
void store(void* to, DType dtype, int64_t i, double value) {
  if (to == nullptr) return;
  dispatch_float(dtype, [&]<class T>() { static_cast<T*>(to)[i] = static_cast<T>(value); });
}

// A stored row is one row, or the same row of 16 images.
class NormKernel : public Kernel {
 protected:
  NormKernel(Kind kind, const KernelRequest& request, int64_t params)
      : kind_(kind),
        g_(NormGeometry::of(*request.node, request.in_shape(0), params)),
        dtype_(request.in[0].dtype),
        batch_(request.in[0].dims[0].value),
        rows_(g_.rows) {
    if (kind == Kind::kLanes) {
      width_ = kMostWidth;
      const int64_t blocks = (batch_ + width_ - 1) / width_;
      rows_per_block_ = batch_ == 0 ? 1 : g_.rows / batch_;
      rows_ = blocks * rows_per_block_;
    }
  }

  int64_t stored_groups() const { return g_.group_length() == 0 ? 0 : rows_ * g_.groups; }
  int64_t group_size() const { return g_.group_length() * width_; }
  norm::Spans spans() const { return {g_.group_params(), g_.span}; }
  int64_t first_param(int64_t group) const { return group % g_.groups * g_.group_params(); }
  int valid(int64_t row) const {
    if (kind_ != Kind::kLanes) return 1;
    return static_cast<int>(std::min<int64_t>(width_, batch_ - row / rows_per_block_ * width_));
  }

  // f(group) for all stored groups, in parallel.
  template <class F>
  void each_group(ThreadPool& pool, F&& f) const {
    const int64_t grain = 1 + kMathGrain / (group_size() + 1);
    parallel_for(pool, stored_groups(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) f(group);
    });
  }

  Kind kind_;
  NormGeometry g_;
  DType dtype_;
  int64_t batch_, rows_, rows_per_block_ = 1;
  int width_ = 1;
};

class Forward final : public NormKernel {
 public:
  Forward(Kind kind, const KernelRequest& request)
      : NormKernel(kind, request, request.in[1].numel()),
        stash_(request.has_out(1)   ? request.out[1].dtype
               : request.has_out(2) ? request.out[2].dtype
                                    : dtype_) {}

  void run(CpuContext& context) const override {
    if (g_.group_length() == 0) return store_statistics_of_nothing(context);
    dispatch_float(dtype_, [&]<class T>() {
      const Loops<T>& loops = loops_of<T>(kind_);
      each_group(*context.pool, [&](int64_t group) {
        const T* x = context.in<T>(0) + group * group_size();
        const T* bias = context.in<T>(2);
        const int64_t first = first_param(group);
        Statistics statistics[kMostWidth];
        loops.statistics(spans(), g_.centring, g_.epsilon, x, statistics);
        loops.forward(spans(), statistics, x, context.in<T>(1) + first,
                      bias == nullptr ? nullptr : bias + first,
                      context.out<T>(0) + group * group_size());
        for (int j = 0; j < width_; ++j) {
          store(context.out<void>(1), stash_, group * width_ + j, statistics[j].mean);
          store(context.out<void>(2), stash_, group * width_ + j, statistics[j].inverse);
        }
      });
    });
  }

 private:
  // The mean of no element is NaN, as in ReduceMean.
  void store_statistics_of_nothing(CpuContext& context) const {
    for (const int output : {1, 2}) {
      for (int64_t i = 0; context.out<void>(output) != nullptr && i < rows_ * g_.groups; ++i) {
        store(context.out<void>(output), stash_, i, std::numeric_limits<double>::quiet_NaN());
      }
    }
  }

  DType stash_;
};

class GradData final : public NormKernel {
 public:
  GradData(Kind kind, const KernelRequest& request)
      : NormKernel(kind, request, request.in[1].numel()) {}

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      const Loops<T>& loops = loops_of<T>(kind_);
      each_group(*context.pool, [&](int64_t group) {
        const T* x = context.in<T>(0) + group * group_size();
        const T* scale = context.in<T>(1) + first_param(group);
        const T* dy = context.in<T>(2) + group * group_size();
        Statistics statistics[kMostWidth];
        Sums sums[kMostWidth];
        Slopes slopes[kMostWidth];
        loops.statistics(spans(), g_.centring, g_.epsilon, x, statistics);
        loops.sums(spans(), statistics, x, scale, dy, sums);
        for (int j = 0; j < width_; ++j) {
          slopes[j] = slopes_of<T>(context, group * width_ + j, statistics[j], sums[j]);
        }
        loops.backward(spans(), statistics, slopes, x, scale, dy,
                       context.out<T>(0) + group * group_size());
      });
    });
  }

 private:
  // Of the mean, of 1 / sqrt(variance + epsilon), and of the two as outputs.
  template <class T>
  Slopes slopes_of(CpuContext& context, int64_t i, const Statistics& s, const Sums& sums) const {
    const auto given = [&](int input) {
      const T* gradients = context.in<T>(input);
      return gradients == nullptr ? 0.0 : static_cast<double>(gradients[i]);
    };
    const auto n = static_cast<double>(g_.group_length());
    const double cube = s.inverse * s.inverse * s.inverse;
    Slopes slopes;
    slopes.slope = cube * (sums.weighted + given(4)) / n;
    if (g_.centring == norm::Centring::kMean) {
      slopes.shift = (s.inverse * sums.plain - given(3)) / n;
    }
    return slopes;
  }
};

class GradScale final : public NormKernel {
 public:
  GradScale(Kind kind, const KernelRequest& request)
      : NormKernel(kind, request, request.out[0].numel()) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(stored_groups() * width_) * sizeof(Statistics);
  }

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      auto* statistics = reinterpret_cast<Statistics*>(context.workspace.data());
      const Loops<T>& loops = loops_of<T>(kind_);
      each_group(*context.pool, [&](int64_t group) {
        loops.statistics(spans(), g_.centring, g_.epsilon, context.in<T>(0) + group * group_size(),
                         statistics + group * width_);
      });
      const int64_t per_group = (g_.group_params() + kTile - 1) / kTile;
      parallel_for(*context.pool, g_.groups * per_group, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          add_rows<T>(context, statistics, i / per_group, i % per_group * kTile);
        }
      });
    });
  }

 private:
  static constexpr int64_t kTile = 64;

  // Some numbers of scale, `first` on in this group.
  template <class T>
  void add_rows(CpuContext& context, const Statistics* statistics, int64_t group,
                int64_t first) const {
    const Loops<T>& loops = loops_of<T>(kind_);
    const norm::Spans part{std::min(kTile, g_.group_params() - first), g_.span};
    double sums[kTile] = {};
    for (int64_t row = 0; g_.span > 0 && row < rows_; ++row) {
      const int64_t at = row * g_.groups + group;
      const int64_t from = at * group_size() + first * g_.span * width_;
      loops.scale_sums(part, statistics + at * width_, valid(row), context.in<T>(0) + from,
                       context.in<T>(1) + from, sums);
    }
    T* dscale = context.out<T>(0) + group * g_.group_params() + first;
    for (int64_t p = 0; p < part.params; ++p) {
      const double before = context.accumulate ? static_cast<double>(dscale[p]) : 0;
      dscale[p] = static_cast<T>(before + sums[p]);
    }
  }
};

template <class K>
void add_kernels(KernelRegistry& kernels, KernelDef def, std::vector<int> data) {
  const auto add = [&](const char* name, Kind kind) {
    def.name = name;
    def.create = [kind](const KernelRequest& request) -> std::unique_ptr<Kernel> {
      return std::make_unique<K>(kind, request);
    };
    kernels.add(def);
  };
  def.declines = {unless_float()};
  add("norm.ref", Kind::kReference);
  def.speed = Speed::kOptimised;
  // Of one element nothing is left but what rounding makes of it, times 1 / sqrt(epsilon).
  const Refusal single = {"takes groups of two elements or more", [](const KernelRequest& r) {
                            return NormGeometry::of(*r.node, r.in_shape(0), 1).group_length() < 2;
                          }};
  def.declines.push_back(single);
  add("norm.vector", Kind::kVector);
  def.layouts = Layouts::kLanes;
  def.declines = {unless_float(),
                  single,
                  {"leaves the batch axis alone",
                   [](const KernelRequest& request) {
                     return norm::first_axis(*request.node, request.in[0].rank()) == 0;
                   }},
                  {"takes x and dy in lanes of 16 images only", [data](const KernelRequest& r) {
                     return std::ranges::any_of(
                         data, [&r](int i) { return r.in[i].layout.lane_count() != kMostWidth; });
                   }}};
  add("norm.lanes", Kind::kLanes);
}

}  // namespace

void register_norm_cpu(KernelRegistry& kernels) {
  for (const char* op :
       {"LayerNormalization", "RMSNormalization", "GroupNormalization", "InstanceNormalization"}) {
    KernelDef def;
    def.op = op;
    def.in_place = {{0, 0}};
    add_kernels<Forward>(kernels, std::move(def), {0});
  }
  KernelDef data;
  data.domain = kDomain;
  data.op = "NormGradData";
  data.in_place = {{0, 0}, {0, 2}};
  add_kernels<GradData>(kernels, std::move(data), {0, 2});
  KernelDef scale;
  scale.domain = kDomain;
  scale.op = "NormGradScale";
  scale.accumulates = true;
  add_kernels<GradScale>(kernels, std::move(scale), {0, 1});
}

}  // namespace sardonyx::ops
