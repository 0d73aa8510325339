// Kernels: lrn.ref sums in double; lrn.columns and lrn.lanes are the same loops in the type itself.
//
// x is [outer][channels][inner], where the images of a lane block belong to the innermost axis. A
// piece of work is some neighbours of the inner axis in all channels.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/core/elementwise.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

constexpr int64_t kColumns = 64;

enum class Direction : uint8_t { kForward, kGradient };
enum class Sums : uint8_t { kDouble, kOwn };

class LrnKernel final : public Kernel {
 public:
  LrnKernel(Direction direction, Sums sums, const KernelRequest& request)
      : direction_(direction), sums_(sums), dtype_(request.in[0].dtype) {
    const TensorType& x = request.in[0];
    channels_ = x.dims[1].value;
    outer_ = x.dims[0].value;
    for (int i = 2; i < x.rank(); ++i) inner_ *= x.dims[i].value;
    if (const int lanes = x.layout.lane_count(); lanes != 0) {
      outer_ = (outer_ + lanes - 1) / lanes;
      inner_ *= lanes;
    }
    const int64_t size = request.node->get_int("size", 0);
    before_ = (size - 1) / 2;
    behind_ = size / 2;
    weight_ = request.node->get_float("alpha", 1e-4) / static_cast<double>(size);
    beta_ = request.node->get_float("beta", 0.75);
    bias_ = request.node->get_float("bias", 1);
  }

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      if (sums_ == Sums::kDouble) {
        run_as<T, double>(context);
      } else {
        run_as<T, T>(context);
      }
    });
  }

 private:
  template <class T, class Sum>
  void run_as(CpuContext& context) const {
    const int64_t pieces = (inner_ + kColumns - 1) / kColumns;
    const int64_t grain = 1 + kMathGrain / (channels_ * kColumns + 1);
    parallel_for(*context.pool, outer_ * pieces, grain, [&](int64_t begin, int64_t end) {
      std::vector<Sum> divisor(channels_ * kColumns), share(channels_ * kColumns);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % pieces * kColumns;
        const int64_t at = i / pieces * channels_ * inner_ + first;
        const int64_t width = std::min(kColumns, inner_ - first);
        const T* x = context.in<T>(0) + at;
        divisors(x, width, divisor.data());
        if (direction_ == Direction::kForward) {
          forward(x, width, divisor.data(), context.out<T>(0) + at);
        } else {
          backward(x, context.in<T>(1) + at, width, divisor.data(), share.data(),
                   context.out<T>(0) + at);
        }
      }
    });
  }

  template <class T, class Sum>
  void divisors(const T* x, int64_t width, Sum* d) const {
    for (int64_t c = 0; c < channels_; ++c) {
      Sum* sums = d + c * kColumns;
      std::fill_n(sums, width, Sum{0});
      const int64_t end = std::min(channels_, c + behind_ + 1);
      for (int64_t k = std::max<int64_t>(0, c - before_); k < end; ++k) {
        for (int64_t j = 0; j < width; ++j) {
          const Sum v = static_cast<Sum>(x[k * inner_ + j]);
          sums[j] += v * v;
        }
      }
      for (int64_t j = 0; j < width; ++j) {
        sums[j] = static_cast<Sum>(bias_) + static_cast<Sum>(weight_) * sums[j];
      }
    }
  }

  template <class T, class Sum>
  void forward(const T* x, int64_t width, const Sum* d, T* y) const {
    for (int64_t c = 0; c < channels_; ++c) {
      for (int64_t j = 0; j < width; ++j) {
        y[c * inner_ + j] = static_cast<T>(static_cast<Sum>(x[c * inner_ + j]) *
                                           inverse_power(d[c * kColumns + j]));
      }
    }
  }

  template <class T, class Sum>
  void backward(const T* x, const T* dy, int64_t width, Sum* d, Sum* share, T* dx) const {
    for (int64_t c = 0; c < channels_; ++c) {
      for (int64_t j = 0; j < width; ++j) {
        Sum& divisor = d[c * kColumns + j];
        const Sum power = inverse_power(divisor);
        const Sum g = static_cast<Sum>(dy[c * inner_ + j]) * power;
        share[c * kColumns + j] = g * static_cast<Sum>(x[c * inner_ + j]) / divisor;
        divisor = g;
      }
    }
    for (int64_t c = 0; c < channels_; ++c) {
      Sum sums[kColumns] = {};
      const int64_t end = std::min(channels_, c + before_ + 1);
      for (int64_t k = std::max<int64_t>(0, c - behind_); k < end; ++k) {
        for (int64_t j = 0; j < width; ++j) sums[j] += share[k * kColumns + j];
      }
      const Sum factor = static_cast<Sum>(2 * weight_ * beta_);
      for (int64_t j = 0; j < width; ++j) {
        const Sum through = factor * static_cast<Sum>(x[c * inner_ + j]) * sums[j];
        dx[c * inner_ + j] = static_cast<T>(d[c * kColumns + j] - through);
      }
    }
  }

  template <class Sum>
  Sum inverse_power(Sum d) const {
    if (beta_ == 0.75) {  // what all networks use
      const Sum root = std::sqrt(d);
      return 1 / (root * std::sqrt(root));
    }
    return std::pow(d, static_cast<Sum>(-beta_));
  }

  Direction direction_;
  Sums sums_;
  DType dtype_;
  int64_t outer_ = 0, channels_ = 0, inner_ = 1;
  int64_t before_ = 0, behind_ = 0;
  double weight_ = 0, beta_ = 0, bias_ = 0;
};

void add_kernels(KernelRegistry& kernels, const char* domain, const char* op, Direction direction) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.declines = {unless_float()};
  const auto add = [&](const char* name, Sums sums) {
    def.name = name;
    def.create = [=](const KernelRequest& request) -> std::unique_ptr<Kernel> {
      return std::make_unique<LrnKernel>(direction, sums, request);
    };
    kernels.add(def);
  };
  add("lrn.ref", Sums::kDouble);
  def.speed = Speed::kPlain;
  add("lrn.columns", Sums::kOwn);
  def.layouts = Layouts::kLanes;
  def.declines.push_back(unless_equal_layouts());
  add("lrn.lanes", Sums::kOwn);
}

}  // namespace

void register_lrn_cpu(KernelRegistry& kernels) {
  add_kernels(kernels, "", "LRN", Direction::kForward);
  add_kernels(kernels, kDomain, "LrnGrad", Direction::kGradient);
}

}  // namespace sardonyx::ops
