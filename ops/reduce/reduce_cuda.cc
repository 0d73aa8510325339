// Kernels reduce.cuda: the axes of a request as groups that reduce.cu walks.
#include "ops/reduce/reduce_cuda.h"

#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"
#include "ops/reduce/axes.h"

namespace sardonyx::ops {

namespace {

using reduce::AxisGroup;
using reduce::FoldBy;
using reduce::Reduced;
using reduce::Then;
using reduce::Write;

// nullopt: more groups of axes than are known.
std::optional<Reduced> reduced(const std::vector<int64_t>& shape, const std::vector<bool>& flags) {
  Reduced result;
  int64_t stride = 1;
  int last = -1;  // the kind of the axis behind: 1 removed, 0 kept
  for (size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) {
    (flags[axis] ? result.removed_count : result.kept_count) *= shape[axis];
    if (shape[axis] == 1) continue;
    int& count = flags[axis] ? result.removed_groups : result.kept_groups;
    AxisGroup* groups = flags[axis] ? result.removed : result.kept;
    if (last == (flags[axis] ? 1 : 0)) {
      groups[count - 1].size *= shape[axis];
      continue;
    }
    if (count == Reduced::kMost) return std::nullopt;
    groups[count++] = {shape[axis], stride};
    last = flags[axis] ? 1 : 0;
  }
  return result;
}

using AxesOf = std::vector<bool> (*)(const KernelRequest& request);

std::vector<bool> input_axes(const KernelRequest& request) {
  return reduce::reduced_axes(*request.node, request.constant(1), request.in[0].rank());
}
std::vector<bool> attribute_axes(const KernelRequest& request) {
  return reduce::attribute_axes(*request.node, request.in[0].rank());
}

template <AxesOf kAxes>
std::optional<Reduced> reduced_of(const KernelRequest& request) {
  return reduced(request.in_shape(0), kAxes(request));
}

class ReduceKernel final : public Kernel {
 public:
  ReduceKernel(const KernelRequest& request, FoldBy fold, Then then)
      : dtype_(request.in[0].dtype),
        shape_(*reduced_of<input_axes>(request)),
        fold_(fold),
        then_(then) {}
  size_t workspace_bytes() const override { return reduce::workspace_bytes(shape_); }
  void launch(CudaContext& context) const override {
    launch_reduction(context.stream, dtype_, shape_, fold_, then_, context.in<void>(0),
                     context.accumulate ? Write::kAdd : Write::kOverwrite, context.out<void>(0),
                     context.workspace);
  }

 private:
  DType dtype_;
  Reduced shape_;
  FoldBy fold_;
  Then then_;
};

void extremum_gradient(const KernelRequest& request, CudaContext& context) {
  launch_extremum_gradient(context.stream, request.in[0].dtype,
                           *reduced_of<attribute_axes>(request), context.in<void>(0),
                           context.in<void>(1), context.in<void>(2), context.out<void>(0));
}

void product_gradient(const KernelRequest& request, CudaContext& context) {
  launch_product_gradient(context.stream, request.in[0].dtype, *reduced_of<attribute_axes>(request),
                          context.in<void>(0), context.in<void>(1), context.out<void>(0));
}

template <AxesOf kAxes>
KernelDef define(const char* domain, const char* op) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "reduce.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kOptimised;
  def.declines = {unless_float(),
                  {fmt::format("takes at most {} groups of removed axes", Reduced::kMost),
                   [](const KernelRequest& request) { return !reduced_of<kAxes>(request); }}};
  return def;
}

}  // namespace

void register_reduce_cuda(KernelRegistry& kernels) {
  const auto add = [&](const char* op, FoldBy fold, Then then) {
    KernelDef def = define<input_axes>("", op);
    def.accumulates = true;
    def.create = [fold, then](const KernelRequest& request) {
      return std::make_unique<ReduceKernel>(request, fold, then);
    };
    kernels.add(std::move(def));
  };
  add("ReduceSum", FoldBy::kSum, Then::kNothing);
  add("ReduceMean", FoldBy::kSum, Then::kMean);
  add("ReduceMax", FoldBy::kMax, Then::kNothing);
  add("ReduceMin", FoldBy::kMin, Then::kNothing);
  add("ReduceProd", FoldBy::kProduct, Then::kNothing);
  add("ReduceL1", FoldBy::kMagnitudes, Then::kNothing);
  add("ReduceL2", FoldBy::kSquares, Then::kRoot);
  add("ReduceSumSquare", FoldBy::kSquares, Then::kNothing);
  add("ReduceLogSum", FoldBy::kSum, Then::kLog);
  add("ReduceLogSumExp", FoldBy::kLogSumExp, Then::kNothing);

  KernelDef extremum = define<attribute_axes>(kDomain, "ReduceExtremumGrad");
  extremum.create = simple_launch(extremum_gradient);
  kernels.add(std::move(extremum));
  KernelDef product = define<attribute_axes>(kDomain, "ReduceProdGrad");
  product.create = simple_launch(product_gradient);
  kernels.add(std::move(product));
}

}  // namespace sardonyx::ops
