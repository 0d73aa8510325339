// The reference kernels: one element after the other, every number type, no merged axes. They are
// the oracle of the tests and what shape arithmetic on integers runs on.
#include <cmath>

#include "ops/core/broadcast.h"
#include "ops/core/dispatch.h"
#include "ops/core/integers.h"
#include "ops/core/kernel.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return wrapped_sum(a, b);
  }
};
struct Sub {
  template <class T>
  T operator()(T a, T b) const {
    return wrapped_difference(a, b);
  }
};
struct Mul {
  template <class T>
  T operator()(T a, T b) const {
    return wrapped_product(a, b);
  }
};
struct Div {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) throw Error("integer division of {} by zero", a);
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) return wrapped_negative(a);
      }
    }
    return static_cast<T>(a / b);
  }
};

// The remainder with the sign of the divisor (fmod 0) or of the dividend (fmod 1).
struct ModLikeDividend {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) throw Error("integer division of {} by zero", a);
      if constexpr (std::is_signed_v<T>) {
        if (b == T(-1)) return 0;  // the lowest number has no positive
      }
      return static_cast<T>(a % b);
    } else {
      return std::fmod(a, b);
    }
  }
};
struct ModLikeDivisor {
  template <class T>
  T operator()(T a, T b) const {
    const T rest = ModLikeDividend()(a, b);
    if constexpr (std::is_floating_point_v<T>) {
      if (rest == 0) return std::copysign(rest, b);
    }
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  }
};
struct PRelu {
  template <class T>
  T operator()(T x, T slope) const {
    return x < 0 ? Mul()(slope, x) : x;
  }
};

template <class F>
void run_binary(const KernelRequest& request, CpuContext& context) {
  with_context([&] { return "running node " + request.node->label(); },
               [&] {
                 dispatch_number(request.in[0].dtype, [&]<class T>() {
                   const BroadcastOffset a(request, 0), b(request, 1);
                   const int64_t n = request.out[0].numel();
                   T* y = context.out<T>(0);
                   for (int64_t i = 0; i < n; ++i) {
                     y[i] = F()(context.in<T>(0)[a(i)], context.in<T>(1)[b(i)]);
                   }
                 });
               });
}

void run_mod(const KernelRequest& request, CpuContext& context) {
  if (request.node->get_int("fmod", 0) != 0) return run_binary<ModLikeDividend>(request, context);
  run_binary<ModLikeDivisor>(request, context);
}

// By squaring: exact where the result fits, else wrapped. 1 and -1 alone have an inverse.
template <class T, class E>
T whole_power(T x, E e) {
  if (e < 0) {
    const bool odd = e % 2 != 0;
    if (x == 0) throw Error("0 to the power of {} is no integer", e);
    if (std::is_signed_v<T> && x == T(-1)) return odd ? x : T(1);
    return x == T(1) ? x : T(0);
  }
  T y = 1;
  for (auto left = static_cast<uint64_t>(e); left != 0; left >>= 1U, x = wrapped_product(x, x)) {
    if ((left & 1U) != 0) y = wrapped_product(y, x);
  }
  return y;
}

template <class T, class E>
T power(T x, E e) {
  if constexpr (std::is_integral_v<T> && std::is_integral_v<E>) return whole_power(x, e);
  return element_of<T>(std::pow(static_cast<double>(x), static_cast<double>(e)));
}

void run_pow(const KernelRequest& request, CpuContext& context) {
  with_context([&] { return "running node " + request.node->label(); },
               [&] {
                 dispatch_number(request.in[0].dtype, [&]<class T>() {
                   dispatch_number(request.in[1].dtype, [&]<class E>() {
                     const BroadcastOffset x(request, 0), e(request, 1);
                     const int64_t n = request.out[0].numel();
                     for (int64_t i = 0; i < n; ++i) {
                       context.out<T>(0)[i] = power(context.in<T>(0)[x(i)], context.in<E>(1)[e(i)]);
                     }
                   });
                 });
               });
}

double pow_grad_base(double x, double e, double dy) {
  return e == 0 ? 0 : dy * e * std::pow(x, e - 1);
}
double pow_grad_exponent(double x, double e, double dy) {
  return x == 0 && e >= 0 ? 0 : dy * std::pow(x, e) * std::log(x);
}

// x, e or slope (of any number type), and dy.
template <double (*kFunction)(double, double, double)>
void run_gradient(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    dispatch_number(request.in[1].dtype, [&]<class E>() {
      const BroadcastOffset x(request, 0), e(request, 1), dy(request, 2);
      const int64_t n = request.out[0].numel();
      for (int64_t i = 0; i < n; ++i) {
        context.out<T>(0)[i] =
            static_cast<T>(kFunction(static_cast<double>(context.in<T>(0)[x(i)]),
                                     static_cast<double>(context.in<E>(1)[e(i)]),
                                     static_cast<double>(context.in<T>(2)[dy(i)])));
      }
    });
  });
}

std::vector<BroadcastOffset> offsets_of(const KernelRequest& request) {
  std::vector<BroadcastOffset> operands;
  for (size_t i = 0; i < request.in.size(); ++i) {
    operands.emplace_back(request, static_cast<int>(i));
  }
  return operands;
}

struct Neg {
  template <class T>
  T operator()(T x) const {
    return wrapped_negative(x);
  }
};
struct Abs {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::abs(x);
    if constexpr (std::is_signed_v<T>) return x < 0 ? Neg()(x) : x;
    return x;
  }
};

template <class F>
void run_unary(const KernelRequest& request, CpuContext& context) {
  dispatch_number(request.in[0].dtype, [&]<class T>() {
    const int64_t n = request.out[0].numel();
    for (int64_t i = 0; i < n; ++i) context.out<T>(0)[i] = F()(context.in<T>(0)[i]);
  });
}

double reciprocal(double x) { return 1 / x; }

template <double (*kFunction)(double)>
void run_function(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const int64_t n = request.out[0].numel();
    for (int64_t i = 0; i < n; ++i) {
      context.out<T>(0)[i] = static_cast<T>(kFunction(context.in<T>(0)[i]));
    }
  });
}

void run_abs_gradient(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const int64_t n = request.out[0].numel();
    for (int64_t i = 0; i < n; ++i) {
      const T x = context.in<T>(0)[i], dy = context.in<T>(1)[i];
      context.out<T>(0)[i] = x > 0 ? dy : x < 0 ? -dy : T(0);
    }
  });
}

enum class Extremum : uint8_t { kMax, kMin };

// NaN wins.
template <class T>
bool beats(Extremum extremum, T a, T b) {
  return a != a || (extremum == Extremum::kMax ? a > b : a < b);
}

// The extremum of inputs first, first + 1, ... at element `at` of the output.
template <class T>
T extremum_at(Extremum extremum, const CpuContext& context,
              const std::vector<BroadcastOffset>& operands, int first, int64_t at) {
  const auto element = [&](int i) { return context.in<T>(i)[operands[i](at)]; };
  T best = element(first);
  for (int i = first + 1; i < static_cast<int>(operands.size()); ++i) {
    if (const T x = element(i); beats(extremum, x, best)) best = x;
  }
  return best;
}

void run_extremum(Extremum extremum, const KernelRequest& request, CpuContext& context) {
  const std::vector<BroadcastOffset> operands = offsets_of(request);
  dispatch_number(request.in[0].dtype, [&]<class T>() {
    const int64_t n = request.out[0].numel();
    for (int64_t at = 0; at < n; ++at) {
      context.out<T>(0)[at] = extremum_at<T>(extremum, context, operands, 0, at);
    }
  });
}

// dy, x, others: dy is shared evenly by those that are the extremum.
void run_extremum_gradient(Extremum extremum, const KernelRequest& request, CpuContext& context) {
  const std::vector<BroadcastOffset> operands = offsets_of(request);
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const auto element = [&](int i, int64_t at) { return context.in<T>(i)[operands[i](at)]; };
    const int64_t n = request.out[0].numel();
    for (int64_t at = 0; at < n; ++at) {
      const T best = extremum_at<T>(extremum, context, operands, 1, at);
      const auto wins = [&](T x) { return x == best || (x != x && best != best); };
      int count = 0;
      for (int i = 1; i < static_cast<int>(operands.size()); ++i) count += wins(element(i, at));
      context.out<T>(0)[at] = wins(element(1, at)) ? element(0, at) / static_cast<T>(count) : T(0);
    }
  });
}

double prelu_gradient(double x, double slope, double dy) { return x > 0 ? dy : slope * dy; }

// Sum of all inputs, times `scale`: floats are added in double, integers wrap.
void run_sum(const KernelRequest& request, CpuContext& context, double scale) {
  const std::vector<BroadcastOffset> operands = offsets_of(request);
  dispatch_number(request.in[0].dtype, [&]<class T>() {
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    const int64_t n = request.out[0].numel();
    for (int64_t at = 0; at < n; ++at) {
      Sum sum = 0;
      for (size_t i = 0; i < operands.size(); ++i) {
        sum += static_cast<Sum>(context.in<T>(static_cast<int>(i))[operands[i](at)]);
      }
      if constexpr (!std::is_integral_v<T>) sum *= scale;
      context.out<T>(0)[at] = static_cast<T>(sum);
    }
  });
}

void add(KernelRegistry& kernels, const char* domain, const char* op, KernelFunction run) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "arithmetic.ref";
  def.declines = {unless_numbers()};
  def.create = simple_kernel(std::move(run));
  kernels.add(std::move(def));
}

}  // namespace

void register_arithmetic_reference(KernelRegistry& kernels) {
  add(kernels, "", "Add", run_binary<Add>);
  add(kernels, "", "Sub", run_binary<Sub>);
  add(kernels, "", "Mul", run_binary<Mul>);
  add(kernels, "", "Div", run_binary<Div>);
  add(kernels, "", "Pow", run_pow);
  add(kernels, kDomain, "PowGradBase", run_gradient<pow_grad_base>);
  add(kernels, kDomain, "PowGradExponent", run_gradient<pow_grad_exponent>);
  add(kernels, "", "Mod", run_mod);
  add(kernels, "", "PRelu", run_binary<PRelu>);
  add(kernels, kDomain, "PReluGrad", run_gradient<prelu_gradient>);
  for (const Extremum extremum : {Extremum::kMax, Extremum::kMin}) {
    const bool max = extremum == Extremum::kMax;
    add(kernels, "", max ? "Max" : "Min",
        [extremum](const KernelRequest& request, CpuContext& context) {
          run_extremum(extremum, request, context);
        });
    add(kernels, kDomain, max ? "MaxGrad" : "MinGrad",
        [extremum](const KernelRequest& request, CpuContext& context) {
          run_extremum_gradient(extremum, request, context);
        });
  }
  add(kernels, "", "Neg", run_unary<Neg>);
  add(kernels, "", "Abs", run_unary<Abs>);
  add(kernels, "", "Sqrt", run_function<std::sqrt>);
  add(kernels, "", "Exp", run_function<std::exp>);
  add(kernels, "", "Log", run_function<std::log>);
  add(kernels, "", "Reciprocal", run_function<reciprocal>);
  add(kernels, kDomain, "AbsGrad", run_abs_gradient);
  add(kernels, "", "Sum",
      [](const KernelRequest& request, CpuContext& context) { run_sum(request, context, 1.0); });
  add(kernels, "", "Mean", [](const KernelRequest& request, CpuContext& context) {
    run_sum(request, context, 1.0 / static_cast<double>(request.in.size()));
  });
}

}  // namespace sardonyx::ops
