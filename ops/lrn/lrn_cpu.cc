// Kernels: lrn.ref sums in double; lrn.columns and lrn.lanes are the same loops in the type itself.
//
// A piece of work is some neighbours of the inner axes in all channels.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/core/elementwise.h"
#include "ops/core/lines.h"
#include "ops/core/refusals.h"
#include "ops/core/strided.h"

namespace sardonyx::ops {

namespace {

constexpr int64_t kColumns = 64;

enum class Direction : uint8_t { kForward, kGradient };
enum class Sums : uint8_t { kDouble, kOwn };

class LrnKernel final : public Kernel {
 public:
  LrnKernel(Direction direction, Sums sums, const KernelRequest& request)
      : direction_(direction),
        sums_(sums),
        dtype_(request.in[0].dtype),
        lines_(Lines::along(stored_dims(request.in[0]), 1)) {
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
    const int64_t pieces = (lines_.inner + kColumns - 1) / kColumns;
    const int64_t grain = 1 + kMathGrain / (lines_.length * kColumns + 1);
    parallel_for(*context.pool, lines_.outer * pieces, grain, [&](int64_t begin, int64_t end) {
      std::vector<Sum> divisor(lines_.length * kColumns), share(lines_.length * kColumns);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % pieces * kColumns;
        const int64_t at = i / pieces * lines_.length * lines_.inner + first;
        const int64_t width = std::min(kColumns, lines_.inner - first);
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
    for (int64_t c = 0; c < lines_.length; ++c) {
      Sum* sums = d + c * kColumns;
      std::fill_n(sums, width, Sum{0});
      const int64_t end = std::min(lines_.length, c + behind_ + 1);
      for (int64_t k = std::max<int64_t>(0, c - before_); k < end; ++k) {
        for (int64_t j = 0; j < width; ++j) {
          const Sum v = static_cast<Sum>(x[k * lines_.inner + j]);
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
    for (int64_t c = 0; c < lines_.length; ++c) {
      for (int64_t j = 0; j < width; ++j) {
        y[c * lines_.inner + j] = static_cast<T>(static_cast<Sum>(x[c * lines_.inner + j]) *
                                                 inverse_power(d[c * kColumns + j]));
      }
    }
  }

  template <class T, class Sum>
  void backward(const T* x, const T* dy, int64_t width, Sum* d, Sum* share, T* dx) const {
    for (int64_t c = 0; c < lines_.length; ++c) {
      for (int64_t j = 0; j < width; ++j) {
        Sum& divisor = d[c * kColumns + j];
        const Sum power = inverse_power(divisor);
        const Sum g = static_cast<Sum>(dy[c * lines_.inner + j]) * power;
        share[c * kColumns + j] = g * static_cast<Sum>(x[c * lines_.inner + j]) / divisor;
        divisor = g;
      }
    }
    for (int64_t c = 0; c < lines_.length; ++c) {
      Sum sums[kColumns] = {};
      const int64_t end = std::min(lines_.length, c + before_ + 1);
      for (int64_t k = std::max<int64_t>(0, c - behind_); k < end; ++k) {
        for (int64_t j = 0; j < width; ++j) sums[j] += share[k * kColumns + j];
      }
      const Sum factor = static_cast<Sum>(2 * weight_ * beta_);
      for (int64_t j = 0; j < width; ++j) {
        const Sum through = factor * static_cast<Sum>(x[c * lines_.inner + j]) * sums[j];
        dx[c * lines_.inner + j] = static_cast<T>(d[c * kColumns + j] - through);
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
  Lines lines_;  // across the channels
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
