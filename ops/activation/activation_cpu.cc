// CPU kernels: the reference (activation_formulas.h in double) and the vector loops of
// activation_isa.cc. These don't mind the layout: an element is computed from the elements at the
// same place.
#include <iterator>
#include <limits>

#include "ops/activation/activation.h"
#include "ops/core/activation_formulas.h"
#include "ops/core/dispatch.h"
#include "ops/core/elementwise.h"
#include "ops/core/integers.h"
#include "ops/core/isa.h"
#include "ops/core/kernel.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

using activation::Entry;
using activation::is_binary;
using activation::is_clip;
using activation::Loop;
using activation::Numbers;
using activation::Parameter;

// The formulas in double, in the order of Loop.
constexpr double (*kFormulas[])(double a, double b, double p, double q) = {
    formulas::Relu::of,
    formulas::Sigmoid::of,
    formulas::Tanh::of,
    formulas::LeakyRelu::of,
    formulas::Elu::of,
    formulas::Celu::of,
    formulas::Softplus::of,
    formulas::Softsign::of,
    formulas::Erf::of,
    formulas::Gelu::of,
    formulas::Swish::of,
    formulas::Mish::of,
    formulas::HardSwish::of,
    formulas::HardSigmoid::of,
    formulas::ThresholdedRelu::of,
    formulas::Shrink::of,
    formulas::Clip::of,
    formulas::SwiGlu::of,
    formulas::ReluGrad::of,
    formulas::SigmoidGrad::of,
    formulas::TanhGrad::of,
    formulas::LeakyReluGrad::of,
    formulas::EluGrad::of,
    formulas::CeluGrad::of,
    formulas::SoftsignGrad::of,
    formulas::ErfGrad::of,
    formulas::GeluGrad::of,
    formulas::SwishGrad::of,
    formulas::MishGrad::of,
    formulas::HardSwishGrad::of,
    formulas::HardSigmoidGrad::of,
    formulas::ThresholdedReluGrad::of,
    formulas::ShrinkGrad::of,
    formulas::ClipGrad::of,
};
static_assert(std::size(kFormulas) == static_cast<size_t>(Loop::kCount));

int64_t grain_of(Loop loop) {
  switch (loop) {
    case Loop::kRelu:
    case Loop::kLeakyRelu:
    case Loop::kSoftsign:
    case Loop::kHardSwish:
    case Loop::kHardSigmoid:
    case Loop::kThresholdedRelu:
    case Loop::kShrink:
    case Loop::kClip:
    case Loop::kReluGrad:
    case Loop::kSigmoidGrad:
    case Loop::kTanhGrad:
    case Loop::kLeakyReluGrad:
    case Loop::kSoftsignGrad:
    case Loop::kHardSwishGrad:
    case Loop::kHardSigmoidGrad:
    case Loop::kThresholdedReluGrad:
    case Loop::kShrinkGrad:
    case Loop::kClipGrad:
      return kCheapGrain;
    default:
      return kMathGrain;
  }
}

// A bound of Clip, whatever its type; `fallback` when left out.
double bound(const KernelRequest& request, const CpuContext& context, int input, double fallback) {
  if (!request.has_in(input)) return fallback;
  switch (request.in[input].dtype) {
    case DType::kFloat32:
      return *context.in<float>(input);
    case DType::kFloat64:
      return *context.in<double>(input);
    case DType::kInt32:
      return *context.in<int32_t>(input);
    case DType::kInt64:
      return static_cast<double>(*context.in<int64_t>(input));
    default:
      throw InternalError("bound of type " +
                          std::string(graph::dtype_name(request.in[input].dtype)));
  }
}

Numbers numbers_of(const Entry& entry, const KernelRequest& request, const CpuContext& context) {
  if (is_clip(entry.loop)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const int min = entry.loop == Loop::kClip ? 1 : 2;
    return {bound(request, context, min, -kInfinity), bound(request, context, min + 1, kInfinity)};
  }
  return activation::numbers_of(entry, *request.node);
}

void run_reference(const Entry& entry, const KernelRequest& request, CpuContext& context) {
  const Numbers given = numbers_of(entry, request, context);
  const auto formula = kFormulas[static_cast<int>(entry.loop)];
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const T* a = context.in<T>(0);
    const T* b = is_binary(entry.loop) ? context.in<T>(1) : a;
    T* y = context.out<T>(0);
    const int64_t n = request.out[0].numel();
    for (int64_t i = 0; i < n; ++i) {
      y[i] = static_cast<T>(formula(a[i], b[i], given.p, given.q));
    }
  });
}

template <class T>
void clip_integers(const KernelRequest& request, CpuContext& context) {
  const T* x = context.in<T>(0);
  const T lo = request.has_in(1) ? *context.in<T>(1) : std::numeric_limits<T>::lowest();
  const T hi = request.has_in(2) ? *context.in<T>(2) : std::numeric_limits<T>::max();
  T* y = context.out<T>(0);
  const int64_t n = request.out[0].numel();
  for (int64_t i = 0; i < n; ++i) y[i] = std::min(std::max(x[i], lo), hi);
}

// The formula in double: its numbers are floats.
void run_integer_shrink(const KernelRequest& request, CpuContext& context) {
  const Parameter lambd = activation::kShrinkLambd, bias = activation::kShrinkBias;
  const double p = request.node->get_float(lambd.name, lambd.fallback);
  const double q = request.node->get_float(bias.name, bias.fallback);
  dispatch_number(request.in[0].dtype, [&]<class T>() {
    const int64_t n = request.out[0].numel();
    for (int64_t i = 0; i < n; ++i) {
      const auto x = static_cast<double>(context.in<T>(0)[i]);
      context.out<T>(0)[i] = element_of<T>(formulas::Shrink::of(x, x, p, q));
    }
  });
}

void run_integer_clip(const KernelRequest& request, CpuContext& context) {
  dispatch_number(request.in[0].dtype, [&]<class T>() { clip_integers<T>(request, context); });
}

template <class T>
const activation::Loops<T>& loops() {
  return best_copy(activation::baseline::loops<T>(), activation::avx2::loops<T>(),
                   activation::avx512::loops<T>());
}

void run_vector(const Entry& entry, const KernelRequest& request, CpuContext& context) {
  const Numbers given = numbers_of(entry, request, context);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const auto loop = loops<T>().of[static_cast<int>(entry.loop)];
    const T* a = context.in<T>(0);
    const T* b = is_binary(entry.loop) ? context.in<T>(1) : a;
    T* y = context.out<T>(0);
    parallel_for(*context.pool, request.out[0].physical_numel(), grain_of(entry.loop),
                 [&](int64_t begin, int64_t end) {
                   loop(a + begin, b + begin, y + begin, end - begin, static_cast<T>(given.p),
                        static_cast<T>(given.q));
                 });
  });
}

KernelDef kernel(const Entry& entry, std::string name, Speed speed, Layouts layouts,
                 void (*run)(const Entry&, const KernelRequest&, CpuContext&)) {
  KernelDef def;
  def.domain = entry.domain;
  def.op = entry.op;
  def.name = std::move(name);
  def.speed = speed;
  def.layouts = layouts;
  def.in_place = {{0, 0}};
  if (is_binary(entry.loop)) def.in_place.emplace_back(0, 1);
  def.declines = {unless_float()};
  def.create = simple_kernel([&entry, run](const KernelRequest& request, CpuContext& context) {
    run(entry, request, context);
  });
  return def;
}

}  // namespace

void register_activation_cpu(KernelRegistry& kernels) {
  for (const Entry& entry : activation::entries()) {
    kernels.add(kernel(entry, "activation.ref", Speed::kReference, Layouts::kPlain, run_reference));
    if (is_clip(entry.loop)) {  // its bounds have another shape than x
      kernels.add(
          kernel(entry, "activation.vector", Speed::kOptimised, Layouts::kPlain, run_vector));
      kernels.add(
          kernel(entry, "activation.lanes", Speed::kOptimised, Layouts::kLanes, run_vector));
    } else {
      kernels.add(
          kernel(entry, "activation.vector", Speed::kOptimised, Layouts::kSameAll, run_vector));
    }
  }
  KernelDef integers;
  integers.op = "Clip";
  integers.name = "activation.integers";
  integers.in_place = {{0, 0}};
  integers.declines = {unless_integers(), unless_one_dtype()};
  integers.create = simple_kernel(run_integer_clip);
  kernels.add(integers);
  integers.op = "Shrink";
  integers.declines = {unless_numbers()};
  integers.create = simple_kernel(run_integer_shrink);
  kernels.add(std::move(integers));
}

}  // namespace sardonyx::ops
