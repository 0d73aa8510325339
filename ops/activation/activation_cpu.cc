// CPU kernels: the reference (plain loops in double) and the vector loops of activation_isa.cc.
// These don't mind the layout: an element is computed from the elements at the same place.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/activation/activation.h"
#include "ops/core/elementwise.h"
#include "ops/core/isa.h"
#include "ops/core/kernel.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

using activation::Loop;
using activation::Parameter;

// One operator: its loop, the attributes that become p and q, and its meaning in double.
struct Entry {
  const char* domain;
  const char* op;
  Loop loop;
  double (*value)(double a, double b, double p, double q);
  Parameter p = {}, q = {};
};

double clipped(double x, double lo, double hi) {
  const double y = x < lo ? lo : x;
  return y > hi ? hi : y;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x))); }

// a b, and 0 where b is: what an infinite x times a vanished slope means.
double vanishing(double a, double b) { return b == 0 ? 0 : a * b; }

constexpr double kRootTwoOverPi = 0.79788456080286535588;
constexpr double kCubic = 0.044715;

double elu(double x, double, double alpha, double gamma) {
  return gamma * (x > 0 ? x : alpha * std::expm1(x));
}
double elu_grad(double x, double dy, double alpha, double gamma) {
  return dy * gamma * (x > 0 ? 1 : alpha * std::exp(x));
}

double gelu(double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); }
// (1 + tanh(u)) / 2 is the sigmoid of 2 u, which doesn't cancel below zero.
double gelu_tanh(double x) { return x * sigmoid(2 * kRootTwoOverPi * (x + kCubic * x * x * x)); }
double gelu_tanh_slope(double x) {
  const double s = sigmoid(2 * kRootTwoOverPi * (x + kCubic * x * x * x));
  const double bend = 2 * kRootTwoOverPi * (1 + 3 * kCubic * x * x);
  return s + vanishing(x * bend, s * (1 - s));
}
double gelu_slope(double x) {
  const double below = 0.5 * std::erfc(-x / std::numbers::sqrt2);
  const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
  return below + vanishing(x, density);
}

double swish_slope(double x, double alpha) {
  const double s = sigmoid(alpha * x);
  return s + vanishing(alpha * x, s * (1 - s));
}

double mish_slope(double x) {
  const double t = std::tanh(softplus(x));
  return t + vanishing(x, (1 - t * t) * sigmoid(x));
}

double hard_swish(double x) { return x < -3 ? 0 : x > 3 ? x : x * (x + 3) / 6; }
double hard_swish_slope(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5; }

using D = double;  // keeps a function on a line

// NaN stays NaN: comparisons are written so that it comes through.
constexpr Entry kEntries[] = {
    {"", "Relu", Loop::kRelu, [](D x, D, D, D) { return x < 0 ? 0 : x; }},
    {"", "Sigmoid", Loop::kSigmoid, [](D x, D, D, D) { return sigmoid(x); }},
    {"", "Tanh", Loop::kTanh, [](D x, D, D, D) { return std::tanh(x); }},
    {"", "LeakyRelu", Loop::kLeakyRelu, [](D x, D, D p, D) { return x < 0 ? p * x : x; },
     activation::kLeakyAlpha},
    {"", "Elu", Loop::kElu, elu, activation::kEluAlpha, activation::kOne},
    {"", "Selu", Loop::kElu, elu, activation::kSeluAlpha, activation::kSeluGamma},
    {"", "Celu", Loop::kCelu, [](D x, D, D p, D) { return x > 0 ? x : p * std::expm1(x / p); },
     activation::kCeluAlpha},
    {"", "Softplus", Loop::kSoftplus, [](D x, D, D, D) { return softplus(x); }},
    {"", "Softsign", Loop::kSoftsign, [](D x, D, D, D) { return x / (1 + std::abs(x)); }},
    {"", "Erf", Loop::kErf, [](D x, D, D, D) { return std::erf(x); }},
    {"", "Gelu", Loop::kGelu, [](D x, D, D p, D) { return p == 0 ? gelu(x) : gelu_tanh(x); }},
    {"", "Swish", Loop::kSwish, [](D x, D, D p, D) { return x * sigmoid(p * x); },
     activation::kSwishAlpha},
    {"", "Mish", Loop::kMish, [](D x, D, D, D) { return x * std::tanh(softplus(x)); }},
    {"", "HardSwish", Loop::kHardSwish, [](D x, D, D, D) { return hard_swish(x); }},
    {"", "HardSigmoid", Loop::kHardSigmoid,
     [](D x, D, D p, D q) { return clipped(p * x + q, 0, 1); }, activation::kHardSigmoidAlpha,
     activation::kHardSigmoidBeta},
    {"", "ThresholdedRelu", Loop::kThresholdedRelu, [](D x, D, D p, D) { return x <= p ? 0 : x; },
     activation::kThreshold},
    {"", "Clip", Loop::kClip, [](D x, D, D lo, D hi) { return clipped(x, lo, hi); }},
    {kDomain, "ReluGrad", Loop::kReluGrad, [](D y, D dy, D, D) { return y <= 0 ? 0 : dy; }},
    {kDomain, "SigmoidGrad", Loop::kSigmoidGrad, [](D y, D dy, D, D) { return dy * y * (1 - y); }},
    {kDomain, "TanhGrad", Loop::kTanhGrad, [](D y, D dy, D, D) { return dy * (1 - y * y); }},
    {kDomain, "LeakyReluGrad", Loop::kLeakyReluGrad,
     [](D x, D dy, D p, D) { return x > 0 ? dy : p * dy; }, activation::kLeakyAlpha},
    {kDomain, "EluGrad", Loop::kEluGrad, elu_grad, activation::kEluAlpha, activation::kOne},
    {kDomain, "SeluGrad", Loop::kEluGrad, elu_grad, activation::kSeluAlpha, activation::kSeluGamma},
    {kDomain, "CeluGrad", Loop::kCeluGrad,
     [](D x, D dy, D p, D) { return x > 0 ? dy : dy * std::exp(x / p); }, activation::kCeluAlpha},
    {kDomain, "SoftsignGrad", Loop::kSoftsignGrad,
     [](D x, D dy, D, D) { return dy / ((1 + std::abs(x)) * (1 + std::abs(x))); }},
    {kDomain, "ErfGrad", Loop::kErfGrad,
     [](D x, D dy, D, D) { return dy * 2 * std::numbers::inv_sqrtpi * std::exp(-x * x); }},
    {kDomain, "GeluGrad", Loop::kGeluGrad,
     [](D x, D dy, D p, D) { return dy * (p == 0 ? gelu_slope(x) : gelu_tanh_slope(x)); }},
    {kDomain, "SwishGrad", Loop::kSwishGrad,
     [](D x, D dy, D p, D) { return dy * swish_slope(x, p); }, activation::kSwishAlpha},
    {kDomain, "MishGrad", Loop::kMishGrad, [](D x, D dy, D, D) { return dy * mish_slope(x); }},
    {kDomain, "HardSwishGrad", Loop::kHardSwishGrad,
     [](D x, D dy, D, D) { return dy * hard_swish_slope(x); }},
    {kDomain, "HardSigmoidGrad", Loop::kHardSigmoidGrad,
     [](D y, D dy, D p, D) { return y <= 0 || y >= 1 ? 0 : p * dy; }, activation::kHardSigmoidAlpha,
     activation::kHardSigmoidBeta},
    {kDomain, "ThresholdedReluGrad", Loop::kThresholdedReluGrad,
     [](D x, D dy, D p, D) { return x <= p ? 0 : dy; }, activation::kThreshold},
    {kDomain, "ClipGrad", Loop::kClipGrad,
     [](D x, D dy, D lo, D hi) { return x < lo || x > hi ? 0 : dy; }},
};

bool is_clip(Loop loop) { return loop == Loop::kClip || loop == Loop::kClipGrad; }
bool is_gradient(Loop loop) { return loop >= Loop::kReluGrad; }

int64_t grain_of(Loop loop) {
  switch (loop) {
    case Loop::kRelu:
    case Loop::kLeakyRelu:
    case Loop::kSoftsign:
    case Loop::kHardSwish:
    case Loop::kHardSigmoid:
    case Loop::kThresholdedRelu:
    case Loop::kClip:
    case Loop::kReluGrad:
    case Loop::kSigmoidGrad:
    case Loop::kTanhGrad:
    case Loop::kLeakyReluGrad:
    case Loop::kSoftsignGrad:
    case Loop::kHardSwishGrad:
    case Loop::kHardSigmoidGrad:
    case Loop::kThresholdedReluGrad:
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

struct Numbers {
  double p = 0, q = 0;
};

Numbers numbers_of(const Entry& entry, const KernelRequest& request, const CpuContext& context) {
  if (is_clip(entry.loop)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const int min = entry.loop == Loop::kClip ? 1 : 2;
    return {bound(request, context, min, -kInfinity), bound(request, context, min + 1, kInfinity)};
  }
  if (entry.loop == Loop::kGelu || entry.loop == Loop::kGeluGrad) {
    const bool by_tanh = request.node->get_string(activation::kApproximate, "none") == "tanh";
    return {by_tanh ? 1.0 : 0.0, 0};
  }
  const auto number = [&](const Parameter& parameter) {
    return parameter.name == nullptr ? parameter.fallback
                                     : request.node->get_float(parameter.name, parameter.fallback);
  };
  return {number(entry.p), number(entry.q)};
}

void run_reference(const Entry& entry, const KernelRequest& request, CpuContext& context) {
  const Numbers given = numbers_of(entry, request, context);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const T* a = context.in<T>(0);
    const T* b = is_gradient(entry.loop) ? context.in<T>(1) : a;
    T* y = context.out<T>(0);
    const int64_t n = request.out[0].numel();
    for (int64_t i = 0; i < n; ++i) {
      y[i] = static_cast<T>(entry.value(a[i], b[i], given.p, given.q));
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
  const Numbers given = numbers_of(entry, request, context);
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
