// Kernels of what stands between gradients and the update: optimizer.ref and optimizer.vector.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/core/elementwise.h"
#include "ops/optimizer/optimizer_cpu.h"

namespace sardonyx::ops::optimizer {

namespace {

// --- SquaredNorm

template <class T>
double squared_norm_plain(const T* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

// Pieces of a fixed size, added in order.
template <bool kVector>
class SquaredNorm final : public Kernel {
 public:
  explicit SquaredNorm(const KernelRequest& request) {
    for (size_t input = 0; input < request.in.size(); ++input) {
      const int64_t n = request.in[input].numel();
      for (int64_t begin = 0; begin < n; begin += kPiece) {
        pieces_.push_back(
            {static_cast<int>(input), request.in[input].dtype, begin, std::min(kPiece, n - begin)});
      }
    }
  }

  size_t workspace_bytes() const override { return pieces_.size() * sizeof(double); }

  void run(CpuContext& context) const override {
    auto* sums = reinterpret_cast<double*>(context.workspace.data());
    const auto count = static_cast<int64_t>(pieces_.size());
    parallel_for(*context.pool, count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) sums[i] = sum(pieces_[i], context);
    });
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += sums[i];
    *context.out<double>(0) = total;
  }

 private:
  static constexpr int64_t kPiece = 65536;
  struct Piece {
    int input;
    DType dtype;
    int64_t begin, count;
  };

  static double sum(const Piece& piece, const CpuContext& context) {
    double result = 0;
    dispatch_float(piece.dtype, [&]<class T>() {
      const auto norm = kVector ? best_loops<T>().squared_norm : squared_norm_plain<T>;
      result = norm(context.in<T>(piece.input) + piece.begin, piece.count);
    });
    return result;
  }

  std::vector<Piece> pieces_;
};

// --- GradScale

template <class T>
void grad_scale(const KernelRequest& request, CpuContext& context) {
  const Node& node = *request.node;
  const double weight = static_cast<double>(*context.in<T>(0));
  double scale = node.get_int("divide", 1) == 0 ? 1.0 : weight > 0 ? 1 / weight : 0.0;
  double norm2 = 0;
  for (size_t i = 2; i < context.inputs.size(); ++i) {
    if (const double* x = context.in<double>(static_cast<int>(i))) norm2 += *x;
  }
  const double norm = std::sqrt(norm2) * scale;
  const T rounded = static_cast<T>(norm);
  const double clip = node.get_float("clip_norm", 0);
  // The constant is that of torch.nn.utils.clip_grad_norm_.
  if (clip > 0) scale *= std::min(1.0, clip / (norm + 1e-6));
  const T* loss = context.in<T>(1);
  const T factor = static_cast<T>(scale);
  const bool finite = std::isfinite(weight) && std::isfinite(rounded) && std::isfinite(factor) &&
                      (loss == nullptr || std::isfinite(*loss));
  *context.out<T>(0) = finite ? factor : std::numeric_limits<T>::quiet_NaN();
  if (T* out = context.out<T>(1)) *out = rounded;
}

// --- Accumulate

template <class T, bool kVector>
void run_accumulate(const KernelRequest& request, CpuContext& context) {
  parallel_for(*context.pool, request.in[0].physical_numel(), kCheapGrain,
               [&](int64_t begin, int64_t end) {
                 const T *a = context.in<T>(0) + begin, *b = context.in<T>(1) + begin;
                 T* y = context.out<T>(0) + begin;
                 if constexpr (kVector) {
                   best_loops<T>().add(a, b, end - begin, y);
                 } else {
                   for (int64_t i = 0; i < end - begin; ++i) y[i] = a[i] + b[i];
                 }
               });
}

// --- Kernels

template <bool kVector>
void add_kernels(KernelRegistry& kernels) {
  const Speed speed = kVector ? Speed::kOptimised : Speed::kReference;
  kernels.add(make_kernel("SquaredNorm", speed, {},
                          [](const KernelRequest& request) -> std::unique_ptr<Kernel> {
                            return std::make_unique<SquaredNorm<kVector>>(request);
                          }));
  KernelDef accumulate = make_kernel(
      "Accumulate", speed, {{0, 0}, {0, 1}},
      simple_kernel([](const KernelRequest& request, CpuContext& context) {
        dispatch_float(request.in[0].dtype,
                       [&]<class T>() { run_accumulate<T, kVector>(request, context); });
      }));
  accumulate.layouts = Layouts::kSameAll;
  kernels.add(std::move(accumulate));
}

}  // namespace

void register_gradients_cpu(KernelRegistry& kernels) {
  add_kernels<false>(kernels);
  add_kernels<true>(kernels);
  kernels.add(make_kernel("GradScale", Speed::kReference, {},
                          simple_kernel([](const KernelRequest& request, CpuContext& context) {
                            dispatch_float(request.in[0].dtype,
                                           [&]<class T>() { grad_scale<T>(request, context); });
                          })));
}

}  // namespace sardonyx::ops::optimizer
