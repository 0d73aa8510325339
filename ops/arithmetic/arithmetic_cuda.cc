// CUDA kernels: operands that broadcast, all plain or with channels last (arithmetic.cuda_nhwc).
// Operators of any number of operands take eight at a time.
#include "ops/arithmetic/arithmetic_cuda.h"

#include <algorithm>

#include "ops/core/cuda_context.h"
#include "ops/core/cuda_walk.h"
#include "ops/core/refusals.h"
#include "ops/core/strided.h"

namespace sardonyx::ops {

namespace {

using arithmetic::Binary;
using arithmetic::Fold;
using arithmetic::kFoldOperands;
using arithmetic::Operands;
using arithmetic::Ternary;
using arithmetic::Unary;

enum class Types : uint8_t { kFloats, kNumbers };  // kNumbers: int32 and int64 too

Refusal unless_number() {
  return {"takes float, double, bfloat16, int32 and int64 only", [](const KernelRequest& request) {
            return unless_stored_float().applies(request) &&
                   unless_int32_or_int64().applies(request);
          }};
}

KernelDef kernel(const char* domain, const char* op, Types types, int in_place_inputs) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "arithmetic.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kOptimised;
  for (int i = 0; i < in_place_inputs; ++i) def.in_place.emplace_back(0, i);
  def.declines = {types == Types::kNumbers ? unless_number() : unless_stored_float(),
                  unless_one_dtype(), cuda::beyond_broadcast_walk()};
  return def;
}

void add_in_both_orders(KernelRegistry& kernels, KernelDef def) {
  kernels.add(def);
  def.name = "arithmetic.cuda_nhwc";
  def.layouts = Layouts::kChannelsFollow;
  def.declines.push_back(cuda::unless_full_operands_are_alike());
  kernels.add(std::move(def));
}

void add_unary(KernelRegistry& kernels, const char* op, Unary unary, Types types) {
  KernelDef def = kernel("", op, types, 1);
  def.layouts = Layouts::kSameAll;
  def.declines.pop_back();  // nothing is broadcast
  def.create = simple_launch([unary](const KernelRequest& request, CudaContext& context) {
    arithmetic::launch_unary(context.stream, request.in[0].dtype, unary,
                             request.out[0].physical_numel(), context.inputs[0],
                             context.outputs[0]);
  });
  kernels.add(std::move(def));
}

void add_binary(KernelRegistry& kernels, const char* domain, const char* op, Binary binary,
                Types types) {
  KernelDef def = kernel(domain, op, types, 2);
  def.create = prepared_launch([binary](const KernelRequest& request) {
    return [binary, dtype = request.in[0].dtype,
            walk = cuda::broadcast_walk<2>(request)](CudaContext& context) {
      arithmetic::launch_binary(context.stream, dtype, binary, walk, context.inputs[0],
                                context.inputs[1], context.outputs[0]);
    };
  });
  add_in_both_orders(kernels, std::move(def));
}

void add_ternary(KernelRegistry& kernels, const char* op, Ternary ternary) {
  KernelDef def = kernel(kDomain, op, Types::kFloats, 1);
  def.create = prepared_launch([ternary](const KernelRequest& request) {
    return [ternary, dtype = request.in[0].dtype,
            walk = cuda::broadcast_walk<3>(request)](CudaContext& context) {
      arithmetic::launch_ternary(context.stream, dtype, ternary, walk, context.inputs[0],
                                 context.inputs[1], context.inputs[2], context.outputs[0]);
    };
  });
  add_in_both_orders(kernels, std::move(def));
}

// The walk over up to eight operands; those that are missing stand still.
cuda::Walk<kFoldOperands> fold_walk(cuda::LoopNest nest) {
  nest = nest.merged();
  cuda::Walk<kFoldOperands> walk;
  cuda::fill_axes(nest, walk, walk.strides);
  return walk;
}

// Folds the first eight operands, then y and the next seven.
class FoldKernel final : public Kernel {
 public:
  FoldKernel(Fold fold, double scale, const KernelRequest& request)
      : fold_(fold), scale_(scale), dtype_(request.in[0].dtype) {
    const auto count = static_cast<int>(request.in.size());
    const cuda::LoopNest all = cuda::broadcast_nest(request, 0, count - 1);
    for (int first = 0; first < count;) {
      Step step;
      cuda::LoopNest nest{all.sizes, {}};
      if (first > 0) nest.strides.push_back(row_major(all.sizes));
      step.first = first;
      for (; first < count && nest.strides.size() < kFoldOperands; ++first) {
        nest.strides.push_back(all.strides[first]);
      }
      step.end = first;
      step.walk = fold_walk(std::move(nest));
      steps_.push_back(step);
    }
  }

  void launch(CudaContext& context) const override {
    for (const Step& step : steps_) {
      Operands operands;
      if (step.first > 0) operands.of[operands.count++] = context.outputs[0];
      for (int i = step.first; i < step.end; ++i) {
        operands.of[operands.count++] = context.inputs[i];
      }
      const bool last = &step == &steps_.back();
      arithmetic::launch_fold(context.stream, dtype_, fold_, last ? scale_ : 1.0, step.walk,
                              operands, context.outputs[0]);
    }
  }

 private:
  struct Step {
    int first = 0, end = 0;  // inputs
    cuda::Walk<kFoldOperands> walk;
  };
  Fold fold_;
  double scale_;
  DType dtype_;
  std::vector<Step> steps_;
};

std::function<std::unique_ptr<Kernel>(const KernelRequest&)> pair_kernel(Fold fold, double scale) {
  return prepared_launch([fold, scale](const KernelRequest& request) {
    return [fold, scale, dtype = request.in[0].dtype,
            walk = cuda::broadcast_walk<2>(request)](CudaContext& context) {
      arithmetic::launch_pair(context.stream, dtype, fold, scale, walk, context.inputs[0],
                              context.inputs[1], context.outputs[0]);
    };
  });
}

enum class Scale : uint8_t { kNone, kShare };  // kShare: divided by the number of operands

void add_fold(KernelRegistry& kernels, const char* op, Fold fold, Scale scale, Types types) {
  // Only the first step reads operands before y is written.
  KernelDef def = kernel("", op, types, 2);
  def.create = [fold, scale](const KernelRequest& request) -> std::unique_ptr<Kernel> {
    const double share = 1.0 / static_cast<double>(request.in.size());
    const double factor = scale == Scale::kShare ? share : 1.0;
    if (request.in.size() == 2) return pair_kernel(fold, factor)(request);
    return std::make_unique<FoldKernel>(fold, factor, request);
  };
  add_in_both_orders(kernels, std::move(def));
}

void add_extremum_gradient(KernelRegistry& kernels, const char* op, Fold fold) {
  KernelDef def = kernel(kDomain, op, Types::kFloats, 1);
  def.declines.push_back({"takes up to eight operands", [](const KernelRequest& request) {
                            return request.in.size() > kFoldOperands;
                          }});
  def.create = prepared_launch([fold](const KernelRequest& request) {
    const auto count = static_cast<int>(request.in.size());
    return [fold, count, dtype = request.in[0].dtype,
            walk = fold_walk(cuda::broadcast_nest(request, 0, count - 1))](CudaContext& context) {
      Operands operands;
      for (int i = 0; i < count; ++i) operands.of[operands.count++] = context.inputs[i];
      arithmetic::launch_extremum_gradient(context.stream, dtype, fold, walk, operands,
                                           context.outputs[0]);
    };
  });
  add_in_both_orders(kernels, std::move(def));
}

}  // namespace

void register_arithmetic_cuda(KernelRegistry& kernels) {
  add_unary(kernels, "Neg", Unary::kNeg, Types::kNumbers);
  add_unary(kernels, "Abs", Unary::kAbs, Types::kNumbers);
  add_unary(kernels, "Sqrt", Unary::kSqrt, Types::kFloats);
  add_unary(kernels, "Exp", Unary::kExp, Types::kFloats);
  add_unary(kernels, "Log", Unary::kLog, Types::kFloats);
  add_unary(kernels, "Reciprocal", Unary::kReciprocal, Types::kFloats);

  add_binary(kernels, "", "Add", Binary::kAdd, Types::kNumbers);
  add_binary(kernels, "", "Sub", Binary::kSub, Types::kNumbers);
  add_binary(kernels, "", "Mul", Binary::kMul, Types::kNumbers);
  add_binary(kernels, "", "Div", Binary::kDiv, Types::kFloats);
  add_binary(kernels, "", "Pow", Binary::kPow, Types::kFloats);
  add_binary(kernels, "", "PRelu", Binary::kPRelu, Types::kFloats);
  add_binary(kernels, kDomain, "AbsGrad", Binary::kAbsGrad, Types::kFloats);

  add_ternary(kernels, "PowGradBase", Ternary::kPowGradBase);
  add_ternary(kernels, "PowGradExponent", Ternary::kPowGradExponent);
  add_ternary(kernels, "PReluGrad", Ternary::kPReluGrad);

  add_fold(kernels, "Sum", Fold::kSum, Scale::kNone, Types::kNumbers);
  add_fold(kernels, "Mean", Fold::kSum, Scale::kShare, Types::kFloats);
  add_fold(kernels, "Max", Fold::kMax, Scale::kNone, Types::kNumbers);
  add_fold(kernels, "Min", Fold::kMin, Scale::kNone, Types::kNumbers);
  add_extremum_gradient(kernels, "MaxGrad", Fold::kMax);
  add_extremum_gradient(kernels, "MinGrad", Fold::kMin);
}

}  // namespace sardonyx::ops
