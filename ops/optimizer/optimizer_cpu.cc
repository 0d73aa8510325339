// Kernels of the updates: optimizer.ref (plain loops in double) and optimizer.vector (loops of
// optimizer_isa.cc in the type of the parameters, which is the arithmetic of PyTorch).
//
// Numbers that PyTorch keeps in Python (rate, bias corrections) are computed in double here, too.
#include "ops/optimizer/optimizer_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/core/elementwise.h"
#include "ops/core/refusals.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

using optimizer::AdamStep;
using optimizer::best_loops;
using optimizer::make_kernel;
using optimizer::SgdStep;

double rate(const Node& node, const CpuContext& context) {
  return *context.in<double>(2) * node.get_float("lr_factor", 1);
}

template <class T>
T clip(const Node& node) {
  const double most = node.get_float("clip_value", 0);
  return most > 0 ? static_cast<T>(most) : std::numeric_limits<T>::infinity();
}

template <class T>
void keep(const T* from, T* to, int64_t n) {
  if (to != nullptr && to != from && n > 0) std::memcpy(to, from, n * sizeof(T));
}

// --- SGD

template <class T>
SgdStep<T> sgd_step(const Node& node, const CpuContext& context) {
  return {static_cast<T>(rate(node, context)),
          *context.in<T>(3),
          clip<T>(node),
          static_cast<T>(node.get_float("weight_decay", 0)),
          static_cast<T>(node.get_float("momentum", 0)),
          static_cast<T>(1 - node.get_float("dampening", 0)),
          node.get_int("nesterov", 0) != 0};
}

// u = clip(g * scale) + weight_decay * w
template <class T, class Step>
double update_of(const Step& s, T w, T g) {
  const double scaled = static_cast<double>(g) * s.scale, most = s.clip;
  return std::clamp(scaled, -most, most) + static_cast<double>(s.weight_decay) * w;
}

template <class T>
void sgd_plain(const SgdStep<T>& s, const T* w, const T* g, const T* m, int64_t n, T* w_next,
               T* m_next) {
  for (int64_t i = 0; i < n; ++i) {
    double update = update_of(s, w[i], g[i]);
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
  const SgdStep<T> step = sgd_step<T>(*request.node, context);
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
  const auto run = kVector ? best_loops<T>().sgd : sgd_plain<T>;
  parallel_for(*context.pool, n, kCheapGrain, [&](int64_t begin, int64_t end) {
    run(step, w + begin, g + begin, first ? nullptr : m + begin, end - begin, w_next + begin,
        m_next == nullptr ? nullptr : m_next + begin);
  });
}

// --- Adam

enum class Decay { kGradient, kDecoupled };

template <class T>
AdamStep<T> adam_step(const Node& node, const CpuContext& context, Decay kind) {
  const double lr = rate(node, context), decay = node.get_float("weight_decay", 0);
  const double beta1 = node.get_float("beta1", 0.9), beta2 = node.get_float("beta2", 0.999);
  const double t = static_cast<double>(*context.in<int64_t>(6) + 1);
  const bool decoupled = kind == Decay::kDecoupled;
  return {*context.in<T>(3),
          clip<T>(node),
          static_cast<T>(decoupled ? 0 : decay),
          static_cast<T>(decoupled ? 1 - lr * decay : 1),
          static_cast<T>(1 - beta1),
          static_cast<T>(beta2),
          static_cast<T>(1 - beta2),
          static_cast<T>(std::sqrt(1 - std::pow(beta2, t))),
          static_cast<T>(node.get_float("eps", 1e-8)),
          static_cast<T>(lr / (1 - std::pow(beta1, t)))};
}

template <class T>
void adam_plain(const AdamStep<T>& s, const T* w, const T* g, const T* m, const T* v, int64_t n,
                T* w_next, T* m_next, T* v_next) {
  for (int64_t i = 0; i < n; ++i) {
    const double update = update_of(s, w[i], g[i]);
    const double first = m[i] + s.fresh1 * (update - m[i]);
    const double second = static_cast<double>(s.beta2) * v[i] + s.fresh2 * update * update;
    const double divisor = std::sqrt(second) / s.root_correction2 + s.eps;
    m_next[i] = static_cast<T>(first);
    v_next[i] = static_cast<T>(second);
    w_next[i] = static_cast<T>(static_cast<double>(s.kept) * w[i] - s.step_size * first / divisor);
  }
}

template <class T, bool kVector>
void run_adam(const KernelRequest& request, CpuContext& context, Decay decay) {
  const AdamStep<T> step = adam_step<T>(*request.node, context, decay);
  const int64_t n = request.in[0].numel();
  const T *w = context.in<T>(0), *g = context.in<T>(1), *m = context.in<T>(4),
          *v = context.in<T>(5);
  T *w_next = context.out<T>(0), *m_next = context.out<T>(1), *v_next = context.out<T>(2);
  if (std::isnan(step.scale)) {
    keep(w, w_next, n);
    keep(m, m_next, n);
    keep(v, v_next, n);
    return;
  }
  const auto run = kVector ? best_loops<T>().adam : adam_plain<T>;
  parallel_for(*context.pool, n, kCheapGrain, [&](int64_t begin, int64_t end) {
    run(step, w + begin, g + begin, m + begin, v + begin, end - begin, w_next + begin,
        m_next + begin, v_next + begin);
  });
}

// --- Averages and the counter

template <class T>
void lerp_plain(const T* a, const T* b, T weight, int64_t n, T* y) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = static_cast<T>(a[i] + static_cast<double>(weight) * (static_cast<double>(b[i]) - a[i]));
  }
}

template <class T, bool kVector>
void run_ema(const KernelRequest& request, CpuContext& context) {
  const int64_t n = request.in[0].numel();
  const T *ema = context.in<T>(0), *w = context.in<T>(1);
  T* next = context.out<T>(0);
  if (std::isnan(*context.in<T>(2))) return keep(ema, next, n);
  const T weight = static_cast<T>(1 - request.node->get_float("decay", 0));
  const auto run = kVector ? best_loops<T>().lerp : lerp_plain<T>;
  parallel_for(*context.pool, n, kCheapGrain, [&](int64_t begin, int64_t end) {
    run(ema + begin, w + begin, weight, end - begin, next + begin);
  });
}

void run_advance(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.in[1].dtype, [&]<class T>() {
    const bool skipped = std::isnan(*context.in<T>(1));
    *context.out<int64_t>(0) = *context.in<int64_t>(0) + (skipped ? 0 : 1);
  });
}

// --- Kernels

template <bool kVector>
void add_kernels(KernelRegistry& kernels) {
  const Speed speed = kVector ? Speed::kOptimised : Speed::kReference;
  kernels.add(make_kernel("SGD", speed, {{0, 0}, {1, 4}},
                          simple_kernel([](const KernelRequest& request, CpuContext& context) {
                            dispatch_float(request.in[0].dtype, [&]<class T>() {
                              run_sgd<T, kVector>(request, context);
                            });
                          })));
  for (const auto& [op, decay] :
       {std::pair{"Adam", Decay::kGradient}, {"AdamW", Decay::kDecoupled}}) {
    kernels.add(make_kernel(
        op, speed, {{0, 0}, {1, 4}, {2, 5}},
        simple_kernel([decay = decay](const KernelRequest& request, CpuContext& context) {
          dispatch_float(request.in[0].dtype,
                         [&]<class T>() { run_adam<T, kVector>(request, context, decay); });
        })));
  }
  kernels.add(make_kernel("Ema", speed, {{0, 0}, {0, 1}},
                          simple_kernel([](const KernelRequest& request, CpuContext& context) {
                            dispatch_float(request.in[0].dtype, [&]<class T>() {
                              run_ema<T, kVector>(request, context);
                            });
                          })));
}

}  // namespace

KernelDef optimizer::make_kernel(
    const char* op, Speed speed, std::vector<std::pair<int, int>> in_place,
    std::function<std::unique_ptr<Kernel>(const KernelRequest&)> create) {
  KernelDef def;
  def.domain = kDomain;
  def.op = op;
  def.name = speed == Speed::kReference ? "optimizer.ref" : "optimizer.vector";
  def.speed = speed;
  def.in_place = std::move(in_place);
  def.declines = {unless_float()};
  def.create = std::move(create);
  return def;
}

void register_optimizer_cpu(KernelRegistry& kernels) {
  add_kernels<false>(kernels);
  add_kernels<true>(kernels);
  KernelDef advance = make_kernel("Advance", Speed::kReference, {}, simple_kernel(run_advance));
  advance.declines = {};  // the counter is an integer
  kernels.add(std::move(advance));
  optimizer::register_adaptive_cpu(kernels);
  optimizer::register_gradients_cpu(kernels);
}

}  // namespace sardonyx::ops
