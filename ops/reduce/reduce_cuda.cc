// Kernels reduce.cuda, and reduce.cuda_nhwc with channels last: the axes of a request as groups
// that reduce.cu walks.
#include "ops/reduce/reduce_cuda.h"

#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"
#include "ops/core/strided.h"
#include "ops/reduce/axes.h"

namespace sardonyx::ops {

namespace {

using reduce::AxisGroup;
using reduce::FoldBy;
using reduce::Reduced;
using reduce::Then;
using reduce::Write;

// nullopt: more groups of axes than are known.
std::optional<Reduced> reduced(const TensorType& x, const std::vector<bool>& flags) {
  Reduced result;
  const std::vector<int64_t> sizes = stored_dims(x);
  std::vector<bool> removed(sizes.size());
  for (int axis = 0; axis < x.rank(); ++axis) removed[stored_axis(x, axis)] = flags[axis];
  int64_t stride = 1;
  int last = -1;  // the kind of the axis behind: 1 removed, 0 kept
  for (size_t axis = sizes.size(); axis-- > 0; stride *= sizes[axis]) {
    (removed[axis] ? result.removed_count : result.kept_count) *= sizes[axis];
    if (sizes[axis] == 1) continue;
    int& count = removed[axis] ? result.removed_groups : result.kept_groups;
    AxisGroup* groups = removed[axis] ? result.removed : result.kept;
    if (last == (removed[axis] ? 1 : 0)) {
      groups[count - 1].size *= sizes[axis];
      continue;
    }
    if (count == Reduced::kMost) return std::nullopt;
    groups[count++] = {sizes[axis], stride};
    last = removed[axis] ? 1 : 0;
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
  return reduced(request.in[0], kAxes(request));
}

// The axes of x with more than one element that are kept, as `type` (x or y) stores them. `of_x`:
// the axis of x that an axis of `type` is, or -1.
std::vector<int> kept_as_stored(const TensorType& type, const std::vector<int>& of_x) {
  std::vector<int> kept(of_x.size(), -1);
  for (int axis = 0; axis < type.rank(); ++axis) {
    if (type.dims[axis].value != 1) kept[stored_axis(type, axis)] = of_x[axis];
  }
  std::erase(kept, -1);
  return kept;
}

bool keeps_order(const TensorType& x, const TensorType& y, const std::vector<bool>& removed) {
  std::vector<int> axes;
  for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(removed[axis] ? -1 : axis);
  const std::vector<int> order = kept_as_stored(x, axes);
  if (y.rank() < x.rank()) std::erase(axes, -1);
  return order == kept_as_stored(y, axes);
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
KernelDef define(const char* domain, const char* op, Refusal types) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "reduce.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kOptimised;
  def.declines = {std::move(types),
                  {fmt::format("takes at most {} groups of removed axes", Reduced::kMost),
                   [](const KernelRequest& request) { return !reduced_of<kAxes>(request); }}};
  return def;
}

template <AxesOf kAxes>
void add_in_both_orders(KernelRegistry& kernels, KernelDef def) {
  kernels.add(def);
  def.name = "reduce.cuda_nhwc";
  def.layouts = Layouts::kChannelsFollow;
  def.declines.push_back({"takes y with its axes in the order of x only",
                          [of_gradient = def.domain == kDomain](const KernelRequest& request) {
                            const TensorType& y = of_gradient ? request.in[1] : request.out[0];
                            return !keeps_order(request.in[0], y, kAxes(request));
                          }});
  kernels.add(std::move(def));
}

}  // namespace

void register_reduce_cuda(KernelRegistry& kernels) {
  const auto add = [&](const char* op, FoldBy fold, Then then) {
    KernelDef def = define<input_axes>("", op, unless_stored_float());
    def.accumulates = true;
    def.create = [fold, then](const KernelRequest& request) {
      return std::make_unique<ReduceKernel>(request, fold, then);
    };
    add_in_both_orders<input_axes>(kernels, std::move(def));
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

  KernelDef extremum = define<attribute_axes>(kDomain, "ReduceExtremumGrad", unless_stored_float());
  extremum.declines.push_back(unless_one_dtype());
  extremum.create = simple_launch(extremum_gradient);
  add_in_both_orders<attribute_axes>(kernels, std::move(extremum));
  KernelDef product = define<attribute_axes>(kDomain, "ReduceProdGrad", unless_float());
  product.declines.push_back(unless_one_dtype());
  product.create = simple_launch(product_gradient);
  kernels.add(std::move(product));
}

}  // namespace sardonyx::ops
