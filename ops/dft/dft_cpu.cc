// The reference adds up the sums of the definition; the other kernel splits them by the prime
// factors of the length (Cooley and Tukey). Both compute in double, a line by one thread.
#include <algorithm>
#include <complex>
#include <numbers>

#include "ops/core/axes.h"
#include "ops/core/kernel.h"
#include "ops/core/lines.h"
#include "ops/core/refusals.h"
#include "ops/dft/dft.h"

namespace sardonyx::ops {

namespace {

using dft::Direction;
using dft::Half;
using Complex = std::complex<double>;

int64_t smallest_factor(int64_t n) {
  for (int64_t p = 2; p * p <= n; ++p) {
    if (n % p == 0) return p;
  }
  return n;
}

int64_t largest_factor(int64_t n) {
  int64_t largest = 1;
  for (; n > 1; n /= largest) largest = smallest_factor(n);
  return largest;
}

enum class Method : uint8_t { kDefinition, kByFactors };

class DftKernel final : public Kernel {
 public:
  DftKernel(const KernelRequest& request, Method method)
      : method_(method),
        dtype_(request.in[0].dtype),
        half_(dft::half_of(*request.node)),
        inverse_(dft::direction_of(*request.node) == Direction::kInverse),
        threads_(method == Method::kDefinition ? 1 : std::max(library_threads, 1)) {
    std::vector<int64_t> dims = request.in_shape(0);
    const int axis =
        front_axis(request.has_in(2) ? request.ints(2).at(0) : -2, static_cast<int>(dims.size()));
    sizes_ =
        dft::sizes_of(*request.node, dims[axis], request.has_in(1) ? request.ints(1).at(0) : -1);
    in_parts_ = dims.back();
    out_parts_ = half_ == Half::kInput ? 1 : 2;
    dims.pop_back();
    in_lines_ = Lines::along(dims, axis);
    out_lines_ = {in_lines_.outer, sizes_.out, in_lines_.inner};
    const double turn = (inverse_ ? 2 : -2) * std::numbers::pi / static_cast<double>(sizes_.length);
    for (int64_t k = 0; k < sizes_.length; ++k) {
      roots_.push_back(std::polar(1.0, turn * static_cast<double>(k)));
    }
    side_ = method == Method::kByFactors ? largest_factor(sizes_.length) : 0;
  }

  size_t workspace_bytes() const override { return threads_ * scratch_numel() * sizeof(Complex); }

  void run(CpuContext& context) const override {
    const int64_t lines = out_lines_.count();
    const auto pieces =
        static_cast<int>(std::min<int64_t>({lines, threads_, context.pool->size()}));
    if (pieces == 0) return;
    auto* workspace = reinterpret_cast<Complex*>(context.workspace.data());
    dispatch_float(dtype_, [&]<class T>() {
      context.pool->run(pieces, [&](int piece) {
        Complex* scratch = workspace + piece * scratch_numel();
        for (int64_t i = lines * piece / pieces; i < lines * (piece + 1) / pieces; ++i) {
          run_line(context.in<T>(0) + in_lines_.first(i) * in_parts_, scratch,
                   context.out<T>(0) + out_lines_.first(i) * out_parts_);
        }
      });
    });
  }

 private:
  // Signal, spectrum, and the numbers that a step by one factor turns.
  int64_t scratch_numel() const { return 2 * sizes_.length + side_; }

  template <class T>
  void run_line(const T* x, Complex* signal, T* y) const {
    Complex* spectrum = signal + sizes_.length;
    read(x, signal);
    if (method_ == Method::kDefinition) {
      by_definition(signal, spectrum);
    } else {
      by_factors(signal, sizes_.length, spectrum, spectrum + sizes_.length);
    }
    const double scale = inverse_ ? 1 / static_cast<double>(sizes_.length) : 1;
    for (int64_t k = 0; k < sizes_.out; ++k) {
      T* to = y + k * out_lines_.inner * out_parts_;
      to[0] = static_cast<T>(scale * spectrum[k].real());
      if (out_parts_ == 2) to[1] = static_cast<T>(scale * spectrum[k].imag());
    }
  }

  template <class T>
  void read(const T* x, Complex* signal) const {
    for (int64_t n = 0; n < sizes_.length; ++n) {
      const bool mirrored = half_ == Half::kInput && 2 * n > sizes_.length;
      const int64_t from = mirrored ? sizes_.length - n : n;
      signal[n] = 0;
      if (from >= sizes_.in) continue;
      const T* at = x + from * in_lines_.inner * in_parts_;
      const double imaginary = in_parts_ == 2 ? at[1] : 0;
      signal[n] = Complex(at[0], mirrored ? -imaginary : imaginary);
    }
  }

  void by_definition(const Complex* signal, Complex* spectrum) const {
    for (int64_t k = 0; k < sizes_.out; ++k) {
      Complex sum = 0;
      for (int64_t n = 0; n < sizes_.length; ++n) sum += signal[n] * roots_[k * n % sizes_.length];
      spectrum[k] = sum;
    }
  }

  // y = the transform of the n numbers x[0], x[step], x[2 step], ..., n step being the length:
  // those of every p-th of them first, for a factor p, then p numbers of each to p of y.
  void by_factors(const Complex* x, int64_t n, Complex* y, Complex* side) const {
    if (n == 1) {
      y[0] = x[0];
      return;
    }
    const int64_t p = smallest_factor(n), m = n / p, step = sizes_.length / n;
    for (int64_t q = 0; q < p; ++q) by_factors(x + q * step, m, y + q * m, side);
    for (int64_t k = 0; k < m; ++k) {
      for (int64_t q = 0; q < p; ++q) side[q] = y[q * m + k] * roots_[q * k * step];
      for (int64_t r = 0; r < p; ++r) {
        Complex sum = side[0];
        for (int64_t q = 1; q < p; ++q) sum += side[q] * roots_[q * r % p * (m * step)];
        y[r * m + k] = sum;
      }
    }
  }

  Method method_;
  DType dtype_;
  Half half_;
  bool inverse_;
  int threads_;
  dft::Sizes sizes_;
  int64_t in_parts_ = 0, out_parts_ = 0, side_ = 0;
  Lines in_lines_, out_lines_;
  std::vector<Complex> roots_;
};

void add(KernelRegistry& kernels, const char* name, Speed speed, Method method) {
  KernelDef def;
  def.op = "DFT";
  def.name = name;
  def.speed = speed;
  def.declines = {unless_float()};
  def.create = [method](const KernelRequest& request) {
    return std::make_unique<DftKernel>(request, method);
  };
  kernels.add(std::move(def));
}

}  // namespace

void register_dft_cpu(KernelRegistry& kernels) {
  add(kernels, "dft.ref", Speed::kReference, Method::kDefinition);
  add(kernels, "dft.factors", Speed::kOptimised, Method::kByFactors);
}

}  // namespace sardonyx::ops
