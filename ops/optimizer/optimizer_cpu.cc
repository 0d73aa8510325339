// Kernels: optimizer.ref (plain loops in double) and optimizer.vector (loops of optimizer_isa.cc in
// the type of the parameters, which is the arithmetic of PyTorch).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/core/elementwise.h"
#include "ops/core/isa.h"
#include "ops/core/refusals.h"
#include "ops/optimizer/optimizer.h"

namespace sardonyx::ops {

namespace {

using optimizer::Loops;
using optimizer::SgdStep;

template <class T>
const Loops<T>& loops() {
  static const Loops<T>& best = best_copy(
      optimizer::baseline::loops<T>(), optimizer::avx2::loops<T>(), optimizer::avx512::loops<T>());
  return best;
}

// --- SGD

template <class T>
SgdStep<T> step_of(const Node& node, const CpuContext& context) {
  return {*context.in<T>(2),
          *context.in<T>(3),
          static_cast<T>(node.get_float("weight_decay", 0)),
          static_cast<T>(node.get_float("momentum", 0)),
          static_cast<T>(1 - node.get_float("dampening", 0)),
          node.get_int("nesterov", 0) != 0};
}

template <class T>
void keep(const T* from, T* to, int64_t n) {
  if (to != nullptr && to != from && n > 0) std::memcpy(to, from, n * sizeof(T));
}

template <class T>
void sgd_plain(const SgdStep<T>& s, const T* w, const T* g, const T* m, int64_t n, T* w_next,
               T* m_next) {
  for (int64_t i = 0; i < n; ++i) {
    double update =
        static_cast<double>(g[i]) * s.scale + static_cast<double>(s.weight_decay) * w[i];
    if (m_next != nullptr) {
      const double velocity = m == nullptr ? update
                                           : static_cast<double>(s.momentum) * m[i] +
                                                 static_cast<double>(s.fresh) * update;
      m_next[i] = static_cast<T>(velocity);
      update = s.nesterov ? update + static_cast<double>(s.momentum) * velocity : velocity;
    }
    w_next[i] = static_cast<T>(static_cast<double>(w[i]) - static_cast<double>(s.lr) * update);
  }
}

template <class T, bool kVector>
void run_sgd(const KernelRequest& request, CpuContext& context) {
  const SgdStep<T> step = step_of<T>(*request.node, context);
  const int64_t n = request.in[0].numel();
  const T *w = context.in<T>(0), *g = context.in<T>(1), *m = context.in<T>(4);
  T *w_next = context.out<T>(0), *m_next = context.out<T>(1);
  if (std::isnan(step.scale)) {
    keep(w, w_next, n);
    keep(m, m_next, n);
    return;
  }
  if (step.momentum == T{0}) {
    keep(m, m_next, n);
    m = m_next = nullptr;
  }
  const bool first = m == nullptr || *context.in<int64_t>(5) == 0;
  const auto run = kVector ? loops<T>().sgd : sgd_plain<T>;
  parallel_for(*context.pool, n, kCheapGrain, [&](int64_t begin, int64_t end) {
    run(step, w + begin, g + begin, first ? nullptr : m + begin, end - begin, w_next + begin,
        m_next == nullptr ? nullptr : m_next + begin);
  });
}

// --- Norms and scalars

constexpr int64_t kNormPiece = 65536;

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
  explicit SquaredNorm(const KernelRequest& request)
      : dtype_(request.in[0].dtype), n_(request.in[0].numel()) {}

  size_t workspace_bytes() const override { return pieces() * sizeof(double); }

  void run(CpuContext& context) const override {
    auto* sums = reinterpret_cast<double*>(context.workspace.data());
    dispatch_float(dtype_, [&]<class T>() {
      const auto norm = kVector ? loops<T>().squared_norm : squared_norm_plain<T>;
      const T* x = context.in<T>(0);
      parallel_for(*context.pool, pieces(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          sums[i] = norm(x + i * kNormPiece, std::min(kNormPiece, n_ - i * kNormPiece));
        }
      });
      double total = 0;
      for (int64_t i = 0; i < pieces(); ++i) total += sums[i];
      *context.out<T>(0) = static_cast<T>(total);
    });
  }

 private:
  int64_t pieces() const { return (n_ + kNormPiece - 1) / kNormPiece; }

  DType dtype_;
  int64_t n_;
};

template <class T>
void grad_scale(const KernelRequest& request, CpuContext& context) {
  const Node& node = *request.node;
  const double weight = static_cast<double>(*context.in<T>(0));
  double scale = node.get_int("divide", 1) == 0 ? 1.0 : weight > 0 ? 1 / weight : 0.0;
  double norm2 = 0;
  for (size_t i = 2; i < context.inputs.size(); ++i) {
    if (const T* x = context.in<T>(static_cast<int>(i))) norm2 += static_cast<double>(*x);
  }
  const double norm = std::sqrt(norm2) * scale;
  const double clip = node.get_float("clip_norm", 0);
  // The constant is that of torch.nn.utils.clip_grad_norm_.
  if (clip > 0) scale *= std::min(1.0, clip / (norm + 1e-6));
  const T* loss = context.in<T>(1);
  const bool finite =
      std::isfinite(weight) && std::isfinite(norm2) && (loss == nullptr || std::isfinite(*loss));
  *context.out<T>(0) = finite ? static_cast<T>(scale) : std::numeric_limits<T>::quiet_NaN();
  if (T* out = context.out<T>(1)) *out = static_cast<T>(norm);
}

void run_started(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.in[1].dtype, [&]<class T>() {
    const bool skipped = std::isnan(*context.in<T>(1));
    *context.out<int64_t>(0) = skipped ? *context.in<int64_t>(0) : 1;
  });
}

template <class T, bool kVector>
void run_accumulate(const KernelRequest& request, CpuContext& context) {
  parallel_for(*context.pool, request.in[0].physical_numel(), kCheapGrain,
               [&](int64_t begin, int64_t end) {
                 const T *a = context.in<T>(0) + begin, *b = context.in<T>(1) + begin;
                 T* y = context.out<T>(0) + begin;
                 if constexpr (kVector) {
                   loops<T>().add(a, b, end - begin, y);
                 } else {
                   for (int64_t i = 0; i < end - begin; ++i) y[i] = a[i] + b[i];
                 }
               });
}

// --- Kernels

void add_kernel(KernelRegistry& kernels, const char* op, Speed speed, Layouts layouts,
                std::vector<std::pair<int, int>> in_place,
                std::function<std::unique_ptr<Kernel>(const KernelRequest&)> create) {
  KernelDef def;
  def.domain = kDomain;
  def.op = op;
  def.name = speed == Speed::kReference ? "optimizer.ref" : "optimizer.vector";
  def.speed = speed;
  def.layouts = layouts;
  def.in_place = std::move(in_place);
  def.declines = {unless_float()};
  def.create = std::move(create);
  kernels.add(std::move(def));
}

template <bool kVector>
void add_kernels(KernelRegistry& kernels) {
  const Speed speed = kVector ? Speed::kOptimised : Speed::kReference;
  add_kernel(kernels, "SGD", speed, Layouts::kPlain, {{0, 0}, {1, 4}},
             simple_kernel([](const KernelRequest& request, CpuContext& context) {
               dispatch_float(request.in[0].dtype,
                              [&]<class T>() { run_sgd<T, kVector>(request, context); });
             }));
  add_kernel(kernels, "SquaredNorm", speed, Layouts::kPlain, {},
             [](const KernelRequest& request) -> std::unique_ptr<Kernel> {
               return std::make_unique<SquaredNorm<kVector>>(request);
             });
  add_kernel(kernels, "Accumulate", speed, Layouts::kSameAll, {{0, 0}, {0, 1}},
             simple_kernel([](const KernelRequest& request, CpuContext& context) {
               dispatch_float(request.in[0].dtype,
                              [&]<class T>() { run_accumulate<T, kVector>(request, context); });
             }));
}

}  // namespace

void register_optimizer_cpu(KernelRegistry& kernels) {
  add_kernels<false>(kernels);
  add_kernels<true>(kernels);
  add_kernel(kernels, "GradScale", Speed::kReference, Layouts::kPlain, {},
             simple_kernel([](const KernelRequest& request, CpuContext& context) {
               dispatch_float(request.in[0].dtype,
                              [&]<class T>() { grad_scale<T>(request, context); });
             }));
  KernelDef started;
  started.domain = kDomain;
  started.op = "Started";
  started.name = "optimizer.ref";
  started.create = simple_kernel(run_started);
  kernels.add(started);
}

}  // namespace sardonyx::ops
