// Kernels of the updates in adaptive.cc: optimizer.ref (rules.h in double) and optimizer.vector
// (rules.h in the type of the parameters, adaptive_isa.cc).
//
// A norm is a sum over pieces of a fixed size, added in order: the same for any number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/core/elementwise.h"
#include "ops/optimizer/adaptive.h"
#include "ops/optimizer/optimizer_cpu.h"

namespace sardonyx::ops::optimizer {

namespace {

struct Plain {
  static double root(double x) { return std::sqrt(x); }
  static double fma(double x, double y, double z) { return x * y + z; }
};

template <class T>
Numbers<double> widened(const Numbers<T>& s) {
  return {s.lr,     s.scale, s.clip,   s.weight_decay, s.kept,        s.momentum, s.beta1,
          s.fresh1, s.beta2, s.fresh2, s.correction1,  s.correction2, s.eps};
}

template <class T, class Rule>
void update_plain(const Numbers<T>& numbers, const Operands<T>& o, int64_t n) {
  const Numbers<double> s = widened(numbers);
  for (int64_t i = 0; i < n; ++i) {
    double slot[kMostSlots] = {};
    for (int k = 0; k < Rule::kSlots; ++k) slot[k] = o.slots[k][i];
    const double next = Rule::template next<Plain, double>(s, o.w[i], o.g[i], slot);
    for (int k = 0; k < Rule::kSlots; ++k) o.slots_next[k][i] = static_cast<T>(slot[k]);
    o.w_next[i] = static_cast<T>(next);
  }
}

template <class T, class Rule>
void measure_plain(const Numbers<T>& numbers, const Operands<T>& o, int64_t n, double* sums) {
  const Numbers<double> s = widened(numbers);
  for (int64_t i = 0; i < n; ++i) {
    double slot[kMostSlots] = {};
    for (int k = 0; k < Rule::kSlots; ++k) slot[k] = o.slots[k][i];
    const double w = o.w[i], x = Rule::template measured<Plain, double>(s, w, o.g[i], slot);
    for (int k = 0; k < Rule::kSlots; ++k) o.slots_next[k][i] = static_cast<T>(slot[k]);
    sums[0] += w * w;
    sums[1] += x * x;
  }
}

template <class T>
constexpr AdaptiveLoops<T> kPlain = {
    update_plain<T, Adagrad>,
    {{update_plain<T, RmsProp<false, false>>, update_plain<T, RmsProp<false, true>>},
     {update_plain<T, RmsProp<true, false>>, update_plain<T, RmsProp<true, true>>}},
    update_plain<T, Lion>,
    measure_plain<T, Lamb>,
    update_plain<T, Lamb>,
    measure_plain<T, Lars<false>>,
    {update_plain<T, Lars<false>>, update_plain<T, Lars<true>>}};

template <class T>
const AdaptiveLoops<T>& loops_of(Speed speed) {
  static const AdaptiveLoops<T>& best = best_copy(
      baseline::adaptive_loops<T>(), avx2::adaptive_loops<T>(), avx512::adaptive_loops<T>());
  return speed == Speed::kReference ? kPlain<T> : best;
}

// --- Operands

// Numbers that PyTorch keeps in Python are computed in double.
template <class T>
Numbers<T> numbers_of(const Node& node, const CpuContext& context) {
  const StepNumbers s = step_numbers(node);
  const double lr = *context.in<double>(2) * s.lr_factor;
  Numbers<T> n;
  n.lr = static_cast<T>(lr);
  n.scale = *context.in<T>(3);
  n.clip = s.clip_value > 0 ? static_cast<T>(s.clip_value) : std::numeric_limits<T>::infinity();
  n.weight_decay = static_cast<T>(s.weight_decay);
  n.kept = static_cast<T>(1 - lr * s.weight_decay);
  n.momentum = static_cast<T>(s.momentum);
  n.beta1 = static_cast<T>(s.beta1);
  n.fresh1 = static_cast<T>(1 - s.beta1);
  n.beta2 = static_cast<T>(s.beta2);
  n.fresh2 = static_cast<T>(1 - s.beta2);
  n.eps = static_cast<T>(s.eps);
  if (s.step_input >= 0) {
    const double t = static_cast<double>(*context.in<int64_t>(s.step_input) + 1);
    n.correction1 = static_cast<T>(1 - std::pow(s.beta1, t));
    n.correction2 = static_cast<T>(1 - std::pow(s.beta2, t));
  }
  return n;
}

// The slots that are there, in the order of the inputs.
template <class T>
Operands<T> operands_of(const Node& node, const CpuContext& context) {
  Operands<T> o;
  o.w = context.in<T>(0);
  o.g = context.in<T>(1);
  o.w_next = context.out<T>(0);
  int count = 0;
  for (int slot = 1; slot < node.num_outputs(); ++slot) {
    if (node.output(slot) == nullptr) continue;
    o.slots[count] = context.in<T>(slot + kFirstSlot - 1);
    o.slots_next[count] = context.out<T>(slot);
    ++count;
  }
  return o;
}

template <class T>
void keep(const T* from, T* to, int64_t n) {
  if (from != nullptr && to != from && n > 0) std::memcpy(to, from, n * sizeof(T));
}

// A step that is skipped.
template <class T>
void keep_all(const Operands<T>& o, int64_t n) {
  keep(o.w, o.w_next, n);
  for (int i = 0; i < kMostSlots; ++i) keep(o.slots[i], o.slots_next[i], n);
}

// --- Element by element

template <class T>
UpdateLoop<T> elementwise_loop(const Node& node, const AdaptiveLoops<T>& loops) {
  if (node.op == "Adagrad") return loops.adagrad;
  if (node.op == "Lion") return loops.lion;
  return loops.rms_prop[node.output(2) != nullptr][node.output(3) != nullptr];
}

template <class T, Speed kSpeed>
void run_elementwise(const KernelRequest& request, CpuContext& context) {
  const Node& node = *request.node;
  const Numbers<T> numbers = numbers_of<T>(node, context);
  const Operands<T> operands = operands_of<T>(node, context);
  const int64_t n = request.in[0].numel();
  if (std::isnan(numbers.scale)) return keep_all(operands, n);
  const UpdateLoop<T> run = elementwise_loop(node, loops_of<T>(kSpeed));
  parallel_for(*context.pool, n, kCheapGrain, [&](int64_t begin, int64_t end) {
    run(numbers, operands.from(begin), end - begin);
  });
}

// --- By the norms of the whole tensor

double trust_ratio(const Node& node, double norm_w, double norm_measured) {
  if (node.op == "LAMB") return norm_w > 0 && norm_measured > 0 ? norm_w / norm_measured : 1;
  const StepNumbers s = step_numbers(node);
  const double divisor = norm_measured + s.weight_decay * norm_w;
  return norm_w > 0 && divisor > 0 ? s.trust * norm_w / divisor : 1;
}

template <Speed kSpeed>
class LayerwiseUpdate final : public Kernel {
 public:
  explicit LayerwiseUpdate(const KernelRequest& request)
      : node_(request.node), dtype_(request.in[0].dtype), n_(request.in[0].numel()) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(pieces()) * 2 * sizeof(double);
  }

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() { update<T>(context); });
  }

 private:
  static constexpr int64_t kPiece = 65536;

  int64_t pieces() const { return (n_ + kPiece - 1) / kPiece; }

  template <class T>
  void update(CpuContext& context) const {
    Numbers<T> numbers = numbers_of<T>(*node_, context);
    Operands<T> operands = operands_of<T>(*node_, context);
    if (std::isnan(numbers.scale)) return keep_all(operands, n_);
    const AdaptiveLoops<T>& loops = loops_of<T>(kSpeed);
    const bool lamb = node_->op == "LAMB";
    const double ratio =
        measured_ratio(context, numbers, operands, lamb ? loops.lamb_measure : loops.lars_measure);
    numbers.lr = static_cast<T>(*context.in<double>(2) * step_numbers(*node_).lr_factor * ratio);
    // LAMB's moments have their next values already.
    if (lamb) std::copy(operands.slots_next, operands.slots_next + kMostSlots, operands.slots);
    const UpdateLoop<T> run = lamb ? loops.lamb : loops.lars[operands.slots[0] != nullptr];
    parallel_for(*context.pool, n_, kCheapGrain, [&](int64_t begin, int64_t end) {
      run(numbers, operands.from(begin), end - begin);
    });
  }

  template <class T>
  double measured_ratio(CpuContext& context, const Numbers<T>& numbers, const Operands<T>& operands,
                        MeasureLoop<T> measure) const {
    auto* sums = reinterpret_cast<double*>(context.workspace.data());
    parallel_for(*context.pool, pieces(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        sums[2 * i] = sums[2 * i + 1] = 0;
        measure(numbers, operands.from(i * kPiece), std::min(kPiece, n_ - i * kPiece),
                sums + 2 * i);
      }
    });
    double of_w = 0, of_measured = 0;
    for (int64_t i = 0; i < pieces(); ++i) {
      of_w += sums[2 * i];
      of_measured += sums[2 * i + 1];
    }
    return trust_ratio(*node_, std::sqrt(of_w), std::sqrt(of_measured));
  }

  const Node* node_;
  DType dtype_;
  int64_t n_;
};

// --- Kernels

std::vector<std::pair<int, int>> in_place(int slots) {
  std::vector<std::pair<int, int>> pairs{{0, 0}};
  for (int i = 0; i < slots; ++i) pairs.emplace_back(i + 1, i + kFirstSlot);
  return pairs;
}

template <Speed kSpeed>
void add_kernels(KernelRegistry& kernels) {
  for (const auto& [op, slots] : {std::pair{"Adagrad", 1}, {"RMSprop", 3}, {"Lion", 1}}) {
    kernels.add(make_kernel(op, kSpeed, in_place(slots),
                            simple_kernel([](const KernelRequest& request, CpuContext& context) {
                              dispatch_float(request.in[0].dtype, [&]<class T>() {
                                run_elementwise<T, kSpeed>(request, context);
                              });
                            })));
  }
  for (const auto& [op, slots] : {std::pair{"LAMB", 2}, {"LARS", 1}}) {
    kernels.add(make_kernel(op, kSpeed, in_place(slots),
                            [](const KernelRequest& request) -> std::unique_ptr<Kernel> {
                              return std::make_unique<LayerwiseUpdate<kSpeed>>(request);
                            }));
  }
}

}  // namespace

void register_adaptive_cpu(KernelRegistry& kernels) {
  add_kernels<Speed::kReference>(kernels);
  add_kernels<Speed::kOptimised>(kernels);
}

}  // namespace sardonyx::ops::optimizer
