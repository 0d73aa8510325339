// CPU kernels: the reference (plain loops in double) and the vector loops of activation_isa.cc.
// These don't mind the layout: an element is computed from the elements at the same place.
#include <cmath>
#include <limits>

#include "ops/activation/activation.h"
#include "ops/core/elementwise.h"
#include "ops/core/isa.h"
#include "ops/core/kernel.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

using activation::Loop;

struct Entry {
  const char* domain;
  const char* op;
  Loop loop;
  double alpha = 0;  // default of the attribute
};

constexpr Entry kEntries[] = {
    {"", "Relu", Loop::kRelu},
    {"", "Sigmoid", Loop::kSigmoid},
    {"", "Tanh", Loop::kTanh},
    {"", "LeakyRelu", Loop::kLeakyRelu, 0.01},
    {"", "Elu", Loop::kElu, 1.0},
    {"", "Softplus", Loop::kSoftplus},
    {"", "Clip", Loop::kClip},
    {kDomain, "ReluGrad", Loop::kReluGrad},
    {kDomain, "SigmoidGrad", Loop::kSigmoidGrad},
    {kDomain, "TanhGrad", Loop::kTanhGrad},
    {kDomain, "LeakyReluGrad", Loop::kLeakyReluGrad, 0.01},
    {kDomain, "EluGrad", Loop::kEluGrad, 1.0},
    {kDomain, "ClipGrad", Loop::kClipGrad},
};

bool is_clip(Loop loop) { return loop == Loop::kClip || loop == Loop::kClipGrad; }
bool is_gradient(Loop loop) { return loop >= Loop::kReluGrad; }

int64_t grain_of(Loop loop) {
  switch (loop) {
    case Loop::kSigmoid:
    case Loop::kTanh:
    case Loop::kElu:
    case Loop::kSoftplus:
    case Loop::kEluGrad:
      return kMathGrain;
    default:
      return kCheapGrain;
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

struct Parameters {
  double p = 0, q = 0;
};

Parameters parameters(const Entry& entry, const KernelRequest& request, const CpuContext& context) {
  if (!is_clip(entry.loop)) return {request.node->get_float("alpha", entry.alpha), 0};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const int min = entry.loop == Loop::kClip ? 1 : 2;
  return {bound(request, context, min, -kInfinity), bound(request, context, min + 1, kInfinity)};
}

double clipped(double x, double lo, double hi) {
  const double y = x < lo ? lo : x;
  return y > hi ? hi : y;
}

// The meaning, in double.
double value_of(Loop loop, double a, double b, double p, double q) {
  switch (loop) {
    case Loop::kRelu:
      return a < 0 ? 0 : a;
    case Loop::kSigmoid:
      return 1 / (1 + std::exp(-a));
    case Loop::kTanh:
      return std::tanh(a);
    case Loop::kLeakyRelu:
      return a < 0 ? p * a : a;
    case Loop::kElu:
      return a > 0 ? a : p * std::expm1(a);
    case Loop::kSoftplus:
      return (a > 0 ? a : 0) + std::log1p(std::exp(-std::abs(a)));
    case Loop::kClip:
      return clipped(a, p, q);
    case Loop::kReluGrad:
      return a <= 0 ? 0 : b;
    case Loop::kSigmoidGrad:
      return b * a * (1 - a);
    case Loop::kTanhGrad:
      return b * (1 - a * a);
    case Loop::kLeakyReluGrad:
      return a > 0 ? b : p * b;
    case Loop::kEluGrad:
      return a > 0 ? b : b * p * std::exp(a);
    case Loop::kClipGrad:
      return a < p || a > q ? 0 : b;
    case Loop::kCount:
      break;
  }
  throw InternalError("no such loop");
}

void run_reference(const Entry& entry, const KernelRequest& request, CpuContext& context) {
  const Parameters given = parameters(entry, request, context);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const T* a = context.in<T>(0);
    const T* b = is_gradient(entry.loop) ? context.in<T>(1) : a;
    T* y = context.out<T>(0);
    const int64_t n = request.out[0].numel();
    for (int64_t i = 0; i < n; ++i) {
      y[i] = static_cast<T>(value_of(entry.loop, a[i], b[i], given.p, given.q));
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

void run_integer_clip(const KernelRequest& request, CpuContext& context) {
  if (request.in[0].dtype == DType::kInt32) return clip_integers<int32_t>(request, context);
  clip_integers<int64_t>(request, context);
}

template <class T>
const activation::Loops<T>& loops() {
  return best_copy(activation::baseline::loops<T>(), activation::avx2::loops<T>(),
                   activation::avx512::loops<T>());
}

void run_vector(const Entry& entry, const KernelRequest& request, CpuContext& context) {
  const Parameters given = parameters(entry, request, context);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const auto loop = loops<T>().of[static_cast<int>(entry.loop)];
    const T* a = context.in<T>(0);
    const T* b = is_gradient(entry.loop) ? context.in<T>(1) : a;
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
  if (is_gradient(entry.loop)) def.in_place.emplace_back(0, 1);
  def.declines = {unless_float()};
  def.create = simple_kernel([&entry, run](const KernelRequest& request, CpuContext& context) {
    run(entry, request, context);
  });
  return def;
}

}  // namespace

void register_activation_cpu(KernelRegistry& kernels) {
  for (const Entry& entry : kEntries) {
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
  integers.declines = {{"takes int32 and int64 only",
                        [](const KernelRequest& request) {
                          const DType dtype = request.in[0].dtype;
                          return dtype != DType::kInt32 && dtype != DType::kInt64;
                        }},
                       unless_one_dtype()};
  integers.create = simple_kernel(run_integer_clip);
  kernels.add(integers);
}

}  // namespace sardonyx::ops
