// Fast CPU kernels for float and double: the vector loops of arithmetic_isa.cc, walked by
// Broadcast. Three kernels per operator share one body: operands of one shape in any layout, plain
// operands that broadcast, and lanes against which operands without batch broadcast.
#include "ops/arithmetic/arithmetic.h"
#include "ops/core/broadcast.h"
#include "ops/core/elementwise.h"
#include "ops/core/isa.h"
#include "ops/core/kernel.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

void register_arithmetic_reference(KernelRegistry& kernels);  // arithmetic_ref.cc

namespace {

using arithmetic::Binary;
using arithmetic::Block;
using arithmetic::Ternary;
using arithmetic::Unary;

template <class T>
const arithmetic::Loops<T>& loops() {
  return best_copy(arithmetic::baseline::loops<T>(), arithmetic::avx2::loops<T>(),
                   arithmetic::avx512::loops<T>());
}

int64_t grain_of(Binary op) { return op == Binary::kPow ? kMathGrain : kCheapGrain; }
int64_t grain_of(Ternary op) {
  return op == Ternary::kPowGradBase || op == Ternary::kPowGradExponent ? kMathGrain : kCheapGrain;
}
int64_t grain_of(Unary op) {
  return op == Unary::kExp || op == Unary::kLog ? kMathGrain : kCheapGrain;
}

// y = a op b over elements [begin, end) of the walk.
template <class T>
void apply(const Broadcast& walk, Binary op, int64_t begin, int64_t end, const T* a, const T* b,
           T* y) {
  const auto loop = loops<T>().binary[static_cast<int>(op)];
  walk.visit(begin, end, [&](int64_t rows, int64_t cols, int64_t at, const int64_t* x) {
    const Block block = {
        rows, cols, walk.row_stride(0), walk.col_stride(0), walk.row_stride(1), walk.col_stride(1)};
    loop(block, a + x[0], b + x[1], y + at);
  });
}

class BinaryKernel final : public Kernel {
 public:
  BinaryKernel(Binary op, const KernelRequest& request)
      : op_(op), dtype_(request.in[0].dtype), walk_(request, 0, 1) {}

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      parallel_for(*context.pool, walk_.numel(), grain_of(op_), [&](int64_t begin, int64_t end) {
        apply(walk_, op_, begin, end, context.in<T>(0), context.in<T>(1), context.out<T>(0));
      });
    });
  }

 private:
  Binary op_;
  DType dtype_;
  Broadcast walk_;
};

// Pow where the exponent is one element: squares and roots without pow().
class PowerKernel final : public Kernel {
 public:
  explicit PowerKernel(const KernelRequest& request)
      : dtype_(request.in[0].dtype),
        one_exponent_(request.in[1].numel() == 1 &&
                      request.in[0].shape() == request.out[0].shape()),
        elements_(request.out[0].physical_numel()),
        general_(Binary::kPow, request) {}

  void run(CpuContext& context) const override {
    std::optional<Unary> unary;
    dispatch_float(dtype_, [&]<class T>() {
      if (!one_exponent_ || elements_ == 0) return;
      const T e = *context.in<T>(1);
      if (e == T(2)) unary = Unary::kSquare;
      if (e == T(-1)) unary = Unary::kReciprocal;
      if (!unary) return;
      parallel_for(*context.pool, elements_, kCheapGrain, [&](int64_t begin, int64_t end) {
        loops<T>().unary[static_cast<int>(*unary)](context.in<T>(0) + begin,
                                                   context.out<T>(0) + begin, end - begin);
      });
    });
    if (!unary) general_.run(context);
  }

 private:
  DType dtype_;
  bool one_exponent_;
  int64_t elements_;
  BinaryKernel general_;
};

// Gradients that read two operands and dy, in the shape of the output.
class TernaryKernel final : public Kernel {
 public:
  TernaryKernel(Ternary op, const KernelRequest& request)
      : op_(op), dtype_(request.in[0].dtype), walk_(request, 0, 2) {}

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      const auto loop = loops<T>().ternary[static_cast<int>(op_)];
      parallel_for(*context.pool, walk_.numel(), grain_of(op_), [&](int64_t begin, int64_t end) {
        walk_.visit(begin, end, [&](int64_t rows, int64_t cols, int64_t at, const int64_t* x) {
          const Block block = {rows,
                               cols,
                               walk_.row_stride(0),
                               walk_.col_stride(0),
                               walk_.row_stride(1),
                               walk_.col_stride(1),
                               walk_.row_stride(2),
                               walk_.col_stride(2)};
          loop(block, context.in<T>(0) + x[0], context.in<T>(1) + x[1], context.in<T>(2) + x[2],
               context.out<T>(0) + at);
        });
      });
    });
  }

 private:
  Ternary op_;
  DType dtype_;
  Broadcast walk_;
};

void run_unary(Unary op, const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const auto loop = loops<T>().unary[static_cast<int>(op)];
    const T* x = context.in<T>(0);
    T* y = context.out<T>(0);
    parallel_for(*context.pool, request.out[0].physical_numel(), grain_of(op),
                 [&](int64_t begin, int64_t end) { loop(x + begin, y + begin, end - begin); });
  });
}

enum class Total : uint8_t { kSum, kMean };

double scale_of(Total total, const KernelRequest& request) {
  return total == Total::kMean ? 1.0 / static_cast<double>(request.in.size()) : 1.0;
}

void run_same_total(Total total, const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    std::vector<const T*> x;
    for (const void* input : context.inputs) x.push_back(static_cast<const T*>(input));
    parallel_for(*context.pool, request.out[0].physical_numel(),
                 kCheapGrain / static_cast<int64_t>(x.size()), [&](int64_t begin, int64_t end) {
                   loops<T>().sum(x.data(), static_cast<int64_t>(x.size()), begin, end,
                                  static_cast<T>(scale_of(total, request)), context.out<T>(0));
                 });
  });
}

// x0 op x1, then one more operand at a time onto y; at the end y times scale.
class FoldKernel final : public Kernel {
 public:
  FoldKernel(Binary op, double scale, const KernelRequest& request)
      : op_(op), dtype_(request.in[0].dtype), scale_(scale) {
    const int last = static_cast<int>(request.in.size()) - 1;
    if (last > 0) walks_.emplace_back(request, 0, 1);
    for (int i = 2; i <= last; ++i) {
      KernelRequest step = request;  // y op x_i
      step.in[i - 1] = request.out[0];
      walks_.emplace_back(step, i - 1, i);
    }
  }

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      T* y = context.out<T>(0);
      parallel_for(*context.pool, walks_[0].numel(), kCheapGrain, [&](int64_t begin, int64_t end) {
        apply(walks_[0], op_, begin, end, context.in<T>(0), context.in<T>(1), y);
        for (size_t i = 1; i < walks_.size(); ++i) {
          apply(walks_[i], op_, begin, end, static_cast<const T*>(y),
                context.in<T>(static_cast<int>(i) + 1), y);
        }
        if (scale_ == 1) return;
        const T scale = static_cast<T>(scale_);
        const Block block = {1, end - begin, 0, 1, 0, 0};
        loops<T>().binary[static_cast<int>(Binary::kMul)](block, y + begin, &scale, y + begin);
      });
    });
  }

 private:
  Binary op_;
  DType dtype_;
  double scale_;
  std::vector<Broadcast> walks_;
};

KernelDef kernel(const char* domain, const char* op, const char* name, Speed speed,
                 Layouts layouts) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = name;
  def.speed = speed;
  def.layouts = layouts;
  def.in_place = {{0, 0}};
  def.declines = {unless_float(), unless_one_dtype()};
  if (layouts == Layouts::kLanes) def.declines = joined(def.declines, broadcast_lanes_refusals());
  return def;
}

void add_unary(KernelRegistry& kernels, const char* op, Unary unary) {
  KernelDef def = kernel("", op, "arithmetic.same", Speed::kOptimised, Layouts::kSameAll);
  def.create = simple_kernel([unary](const KernelRequest& request, CpuContext& context) {
    run_unary(unary, request, context);
  });
  kernels.add(std::move(def));
}

// The three kernels of an operator with several operands.
template <class Create>
void add_triple(KernelRegistry& kernels, const char* domain, const char* op, Create create,
                int in_place_inputs, const std::vector<Refusal>& refusals = {}) {
  struct Variant {
    const char* name;
    Speed speed;
    Layouts layouts;
  };
  for (const Variant& v : {Variant{"arithmetic.same", Speed::kBest, Layouts::kSameAll},
                           Variant{"arithmetic.broadcast", Speed::kOptimised, Layouts::kPlain},
                           Variant{"arithmetic.lanes", Speed::kOptimised, Layouts::kLanes}}) {
    KernelDef def = kernel(domain, op, v.name, v.speed, v.layouts);
    for (int i = 1; i < in_place_inputs; ++i) def.in_place.emplace_back(0, i);
    def.declines = joined(refusals, def.declines);
    def.create = create;
    kernels.add(std::move(def));
  }
}

void add_binary(KernelRegistry& kernels, const char* op, Binary binary) {
  add_triple(
      kernels, "", op,
      [binary](const KernelRequest& request) -> std::unique_ptr<Kernel> {
        return std::make_unique<BinaryKernel>(binary, request);
      },
      2);
}

void add_ternary(KernelRegistry& kernels, const char* op, Ternary ternary) {
  add_triple(kernels, kDomain, op,
             [ternary](const KernelRequest& request) -> std::unique_ptr<Kernel> {
               return std::make_unique<TernaryKernel>(ternary, request);
             },
             1, {{"takes three operands", [](const KernelRequest& request) {
                    return request.in.size() != 3;
                  }}});
}

void add_extremum(KernelRegistry& kernels, const char* op, Binary binary) {
  add_triple(kernels, "", op,
             [binary](const KernelRequest& request) -> std::unique_ptr<Kernel> {
               return std::make_unique<FoldKernel>(binary, 1.0, request);
             },
             2, {{"takes two or more operands", [](const KernelRequest& request) {
                    return request.in.size() < 2;
                  }}});
}

void add_total(KernelRegistry& kernels, const char* op, Total total) {
  const auto same = simple_kernel([total](const KernelRequest& request, CpuContext& context) {
    run_same_total(total, request, context);
  });
  // FoldKernel reads only the first two operands before it writes y.
  add_triple(
      kernels, "", op,
      [total, same](const KernelRequest& request) -> std::unique_ptr<Kernel> {
        bool one_shape = true;
        for (const TensorType& x : request.in) one_shape &= x.same_storage(request.out[0]);
        if (one_shape) return same(request);
        return std::make_unique<FoldKernel>(Binary::kAdd, scale_of(total, request), request);
      },
      2);
}

}  // namespace

void register_arithmetic_cpu(KernelRegistry& kernels) {
  register_arithmetic_reference(kernels);
  add_binary(kernels, "Add", Binary::kAdd);
  add_binary(kernels, "Sub", Binary::kSub);
  add_binary(kernels, "Mul", Binary::kMul);
  add_binary(kernels, "Div", Binary::kDiv);
  add_triple(
      kernels, "", "Pow",
      [](const KernelRequest& request) { return std::make_unique<PowerKernel>(request); }, 1);
  add_total(kernels, "Sum", Total::kSum);
  add_total(kernels, "Mean", Total::kMean);
  add_unary(kernels, "Neg", Unary::kNeg);
  add_unary(kernels, "Abs", Unary::kAbs);
  add_unary(kernels, "Sqrt", Unary::kSqrt);
  add_unary(kernels, "Exp", Unary::kExp);
  add_unary(kernels, "Log", Unary::kLog);
  add_unary(kernels, "Reciprocal", Unary::kReciprocal);

  add_binary(kernels, "PRelu", Binary::kPRelu);
  add_extremum(kernels, "Max", Binary::kMax);
  add_extremum(kernels, "Min", Binary::kMin);

  add_ternary(kernels, "PowGradBase", Ternary::kPowGradBase);
  add_ternary(kernels, "PowGradExponent", Ternary::kPowGradExponent);
  add_ternary(kernels, "PReluGrad", Ternary::kPReluGrad);
  add_ternary(kernels, "MaxGrad", Ternary::kMaxGrad);
  add_ternary(kernels, "MinGrad", Ternary::kMinGrad);

  KernelDef abs_grad =
      kernel(kDomain, "AbsGrad", "arithmetic.same", Speed::kBest, Layouts::kSameAll);
  abs_grad.in_place.emplace_back(0, 1);
  abs_grad.create = [](const KernelRequest& request) {
    return std::make_unique<BinaryKernel>(Binary::kAbsGrad, request);
  };
  kernels.add(std::move(abs_grad));
}

}  // namespace sardonyx::ops
