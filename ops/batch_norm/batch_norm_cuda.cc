// Kernels batch_norm.cuda and, with channels last, batch_norm.cuda_nhwc: what stands in
// batch_norm.cu, with the operands of the operators.
#include "ops/batch_norm/batch_norm_cuda.h"

#include <algorithm>

#include "ops/batch_norm/geometry.h"
#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

using batch_norm::AffineOperands;
using batch_norm::Numbers;
using batch_norm::Planes;
using batch_norm::Stretch;
using batch_norm::Then;
using batch_norm::Work;

Numbers numbers(const KernelRequest& request, const CudaContext& context, int input) {
  if (!request.has_in(input)) return {};
  return {context.in<void>(input), request.in[input].dtype};
}

// Slots of what an affine is made of.
struct AffineSlots {
  int scale, bias, mean, var;
};

AffineOperands affine(const KernelRequest& request, const CudaContext& context, AffineSlots slots) {
  return {numbers(request, context, slots.scale), numbers(request, context, slots.bias),
          numbers(request, context, slots.mean), numbers(request, context, slots.var),
          request.node->get_float("epsilon", 1e-5)};
}

void sums(const KernelRequest&, const Work& work, CudaContext& context) {
  launch_sums(work, context.in<void>(0), context.out<double>(0));
}

void apply(const KernelRequest& request, const Work& work, CudaContext& context) {
  const bool relu = !request.node->get_string(batch_norm::kActivation, "").empty();
  launch_apply(work, affine(request, context, {1, 2, 3, 4}), context.in<void>(0),
               context.in<void>(6), relu ? Then::kRelu : Then::kNothing, context.out<void>(0));
}

void grad_sums(const KernelRequest& request, const Work& work, CudaContext& context) {
  launch_grad_sums(work, affine(request, context, {6, 7, 2, 3}),
                   {context.in<void>(0), context.in<void>(4), context.in<void>(5)},
                   context.in<void>(1), context.out<double>(0), context.out<double>(1),
                   context.out<void>(2));
}

void grad_data(const KernelRequest& request, const Work& work, CudaContext& context) {
  launch_grad_data(work, affine(request, context, {1, 8, 4, 2}),
                   {context.in<void>(0), context.in<void>(9), nullptr},
                   {context.in<void>(3), numbers(request, context, 5), numbers(request, context, 6),
                    numbers(request, context, 7)},
                   context.out<void>(0), context.out<void>(1));
}

void moments(const KernelRequest& request, CudaContext& context) {
  batch_norm::launch_moments(context.stream, request.in[0].shape()[1], context.in<double>(0),
                             context.out<double>(0), context.out<double>(1),
                             context.out<double>(2));
}

void running(const KernelRequest& request, CudaContext& context) {
  const bool sample = request.node->get_int("sample_variance", 0) != 0;
  for (const int i : {0, 1}) {
    batch_norm::launch_running(
        context.stream, request.out[i].dtype, request.out[i].numel(),
        {numbers(request, context, i), numbers(request, context, i + 2),
         numbers(request, context, 4), request.node->get_float("momentum", 0.9),
         i == 1 && sample ? Stretch::kSample : Stretch::kNone},
        context.out<void>(i));
  }
}

void commit(const KernelRequest& request, CudaContext& context) {
  batch_norm::launch_commit(context.stream, request.out[0].dtype, request.out[0].numel(),
                            context.in<void>(0), context.in<void>(1), numbers(request, context, 2),
                            numbers(request, context, 3), context.out<void>(0));
}

using Body = void (*)(const KernelRequest&, const Work&, CudaContext&);

class CellsKernel final : public Kernel {
 public:
  CellsKernel(const KernelRequest& request, Body body) : request_(request), body_(body) {
    const Planes planes = batch_norm::planes_of(request.in[0]);
    const auto dense = cuda::ChannelCells::dense;
    cells_ = request.in[0].layout.channels_last()
                 ? dense(planes.rows * planes.plane, planes.channels, 1)
                 : dense(planes.rows, planes.channels, planes.plane);
  }
  size_t workspace_bytes() const override { return Work::workspace_bytes(cells_); }
  void launch(CudaContext& context) const override {
    body_(request_, {context.stream, request_.in[0].dtype, cells_, context.workspace}, context);
  }

 private:
  KernelRequest request_;
  cuda::ChannelCells cells_;
  Body body_;
};

// `elements`: the inputs that are no numbers per channel; input 0 is one.
Refusal unless_elements_are_alike(std::vector<int> elements) {
  return {"takes elements of one type only",
          [elements = std::move(elements)](const KernelRequest& request) {
            return std::ranges::any_of(elements, [&](int i) {
              return request.has_in(i) && request.in[i].dtype != request.in[0].dtype;
            });
          }};
}

Refusal unless_numbers_are_float(std::vector<int> elements) {
  return {"takes numbers per channel of float and double only",
          [elements = std::move(elements)](KernelRequest request) {
            for (const int i : elements) {
              if (request.has_in(i)) request.in[i] = {};
            }
            return batch_norm::unless_float_operands().applies(request);
          }};
}

KernelDef define(const char* domain, const char* op, std::vector<std::pair<int, int>> in_place) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "batch_norm.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kOptimised;
  def.in_place = std::move(in_place);
  return def;
}

}  // namespace

void register_batch_norm_cuda(KernelRegistry& kernels) {
  const auto add = [&](const char* domain, const char* op, Body body,
                       std::vector<std::pair<int, int>> in_place, std::vector<int> elements) {
    KernelDef def = define(domain, op, std::move(in_place));
    def.declines = {unless_stored_float(), unless_elements_are_alike(elements),
                    unless_numbers_are_float(std::move(elements))};
    def.create = [body](const KernelRequest& request) {
      return std::make_unique<CellsKernel>(request, body);
    };
    kernels.add(def);
    def.name = "batch_norm.cuda_nhwc";
    def.layouts = Layouts::kChannelsLast;
    kernels.add(std::move(def));
  };
  add("", "BatchNormalization", apply, {{0, 0}}, {0});
  add(kDomain, "BatchNormApply", apply, {{0, 0}, {0, 6}}, {0, 6});
  add(kDomain, "BatchNormSums", sums, {}, {0});
  add(kDomain, "BatchNormGradSums", grad_sums, {{2, 0}, {2, 4}, {2, 5}}, {0, 1, 4, 5});
  add(kDomain, "BatchNormGradData", grad_data, {{0, 0}, {0, 9}, {0, 3}}, {0, 3, 9});
  const auto add_simple = [&](const char* op, LaunchFunction function,
                              std::vector<std::pair<int, int>> in_place) {
    KernelDef def = define(kDomain, op, std::move(in_place));
    def.declines = {batch_norm::unless_float_operands()};
    def.create = simple_launch(std::move(function));
    kernels.add(std::move(def));
  };
  add_simple("BatchNormMoments", moments, {});
  add_simple("BatchNormRunning", running, {{0, 0}, {1, 1}});
  add_simple("CommitStatistic", commit, {});
}

}  // namespace sardonyx::ops
