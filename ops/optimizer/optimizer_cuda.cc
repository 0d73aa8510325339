// Kernels optimizer.cuda: an update of a whole bucket is one launch.
#include "ops/optimizer/optimizer_cuda.h"

#include <limits>

#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"
#include "ops/optimizer/adaptive.h"

namespace sardonyx::ops {

namespace {

using optimizer::AdamOperands;
using optimizer::AdaptiveOperands;
using optimizer::GradScaleOperands;
using optimizer::SgdOperands;
using optimizer::UpdateOperands;

UpdateOperands update_of(const Node& node, const CudaContext& context) {
  const double clip = node.get_float("clip_value", 0);
  return {context.in<void>(0),
          context.in<void>(1),
          context.in<double>(2),
          context.in<void>(3),
          node.get_float("lr_factor", 1),
          node.get_float("weight_decay", 0),
          clip > 0 ? clip : std::numeric_limits<double>::infinity()};
}

void sgd(const KernelRequest& request, CudaContext& context) {
  const Node& node = *request.node;
  SgdOperands o;
  o.update = update_of(node, context);
  o.m = context.in<void>(4);
  o.step = context.in<int64_t>(5);
  o.momentum = node.get_float("momentum", 0);
  o.dampening = node.get_float("dampening", 0);
  o.nesterov = static_cast<int>(node.get_int("nesterov", 0));
  o.w_next = context.out<void>(0);
  o.m_next = context.out<void>(1);
  launch_sgd(context.stream, request.in[0].dtype, request.in[0].numel(), o);
}

void adam(const KernelRequest& request, CudaContext& context) {
  const Node& node = *request.node;
  AdamOperands o;
  o.update = update_of(node, context);
  o.m = context.in<void>(4);
  o.v = context.in<void>(5);
  o.step = context.in<int64_t>(6);
  o.beta1 = node.get_float("beta1", 0.9);
  o.beta2 = node.get_float("beta2", 0.999);
  o.eps = node.get_float("eps", 1e-8);
  o.decoupled = node.op == "AdamW" ? 1 : 0;
  o.w_next = context.out<void>(0);
  o.m_next = context.out<void>(1);
  o.v_next = context.out<void>(2);
  launch_adam(context.stream, request.in[0].dtype, request.in[0].numel(), o);
}

AdaptiveOperands adaptive_operands(const Node& node, const CudaContext& context) {
  const optimizer::StepNumbers numbers = optimizer::step_numbers(node);
  AdaptiveOperands o;
  o.update = update_of(node, context);
  o.momentum = numbers.momentum;
  o.beta1 = numbers.beta1;
  o.beta2 = numbers.beta2;
  o.eps = numbers.eps;
  o.w_next = context.out<void>(0);
  int count = 0;
  for (int slot = 1; slot < node.num_outputs(); ++slot) {
    if (node.output(slot) == nullptr) continue;
    o.slots[count] = context.in<void>(slot + optimizer::kFirstSlot - 1);
    o.slots_next[count] = context.out<void>(slot);
    ++count;
  }
  return o;
}

void adagrad(const KernelRequest& request, CudaContext& context) {
  launch_adagrad(context.stream, request.in[0].dtype, request.in[0].numel(),
                 adaptive_operands(*request.node, context));
}

void rms_prop(const KernelRequest& request, CudaContext& context) {
  using enum optimizer::RmsPropSlots;
  const Node& node = *request.node;
  const bool mean = node.output(2) != nullptr, momentum = node.output(3) != nullptr;
  launch_rms_prop(context.stream, request.in[0].dtype, request.in[0].numel(),
                  adaptive_operands(node, context),
                  mean ? (momentum ? kMeanMomentum : kMean) : (momentum ? kMomentum : kSquares));
}

void lion(const KernelRequest& request, CudaContext& context) {
  launch_lion(context.stream, request.in[0].dtype, request.in[0].numel(),
              adaptive_operands(*request.node, context));
}

void ema(const KernelRequest& request, CudaContext& context) {
  optimizer::launch_ema(context.stream, request.in[0].dtype, request.in[0].numel(),
                        1 - request.node->get_float("decay", 0), context.in<void>(0),
                        context.in<void>(1), context.in<void>(2), context.out<void>(0));
}

void advance(const KernelRequest& request, CudaContext& context) {
  optimizer::launch_advance(context.stream, request.in[1].dtype, context.in<int64_t>(0),
                            context.in<void>(1), context.out<int64_t>(0));
}

void accumulate(const KernelRequest& request, CudaContext& context) {
  optimizer::launch_accumulate(context.stream, request.in[0].dtype, request.in[0].physical_numel(),
                               context.in<void>(0), context.in<void>(1), context.out<void>(0));
}

// All inputs in pieces of a fixed size, added in order.
class SquaredNorm final : public Kernel {
 public:
  explicit SquaredNorm(const KernelRequest& request) : types_(request.in) {
    for (const TensorType& type : types_) pieces_ += optimizer::pieces_of(type.numel());
  }
  size_t workspace_bytes() const override { return static_cast<size_t>(pieces_) * sizeof(double); }

  void launch(CudaContext& context) const override {
    auto* partials = static_cast<double*>(context.workspace);
    int64_t at = 0;
    for (size_t i = 0; i < types_.size(); ++i) {
      const int64_t n = types_[i].numel();
      optimizer::launch_squares(context.stream, types_[i].dtype, n, context.inputs[i],
                                partials + at);
      at += optimizer::pieces_of(n);
    }
    optimizer::launch_total(context.stream, pieces_, partials, context.out<double>(0));
  }

 private:
  std::vector<TensorType> types_;
  int64_t pieces_ = 0;
};

void grad_scale(const KernelRequest& request, CudaContext& context) {
  GradScaleOperands o;
  o.weight = context.in<void>(0);
  o.loss = context.in<void>(1);
  for (size_t i = 2; i < context.inputs.size(); ++i) {
    if (const double* norm = context.in<double>(static_cast<int>(i))) {
      o.norms[o.norm_count++] = norm;
    }
  }
  o.divide = static_cast<int>(request.node->get_int("divide", 1));
  o.clip_norm = request.node->get_float("clip_norm", 0);
  launch_grad_scale(context.stream, request.in[0].dtype, o, context.out<void>(0),
                    context.out<void>(1));
}

Refusal beyond_norms() {
  return {fmt::format("adds up to {} norms", GradScaleOperands::kMostNorms),
          [](const KernelRequest& request) {
            return request.in.size() > 2 + GradScaleOperands::kMostNorms;
          }};
}

KernelDef define(const char* op, std::vector<std::pair<int, int>> in_place,
                 std::function<std::unique_ptr<Kernel>(const KernelRequest&)> create) {
  KernelDef def;
  def.domain = kDomain;
  def.op = op;
  def.name = "optimizer.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kOptimised;
  def.in_place = std::move(in_place);
  def.declines = {unless_float()};
  def.create = std::move(create);
  return def;
}

}  // namespace

void register_optimizer_cuda(KernelRegistry& kernels) {
  kernels.add(define("SGD", {{0, 0}, {1, 4}}, simple_launch(sgd)));
  for (const char* op : {"Adam", "AdamW"}) {
    kernels.add(define(op, {{0, 0}, {1, 4}, {2, 5}}, simple_launch(adam)));
  }
  kernels.add(define("Adagrad", {{0, 0}, {1, 4}}, simple_launch(adagrad)));
  kernels.add(define("RMSprop", {{0, 0}, {1, 4}, {2, 5}, {3, 6}}, simple_launch(rms_prop)));
  kernels.add(define("Lion", {{0, 0}, {1, 4}}, simple_launch(lion)));
  kernels.add(define("Ema", {{0, 0}, {0, 1}}, simple_launch(ema)));
  KernelDef counter = define("Advance", {}, simple_launch(advance));
  counter.declines = {};  // the counter is an integer
  kernels.add(std::move(counter));
  KernelDef sum = define("Accumulate", {{0, 0}, {0, 1}}, simple_launch(accumulate));
  sum.layouts = Layouts::kSameAll;
  kernels.add(std::move(sum));
  kernels.add(define("SquaredNorm", {}, [](const KernelRequest& request) {
    return std::make_unique<SquaredNorm>(request);
  }));
  KernelDef scale = define("GradScale", {}, simple_launch(grad_scale));
  scale.declines.push_back(beyond_norms());
  kernels.add(std::move(scale));
}

}  // namespace sardonyx::ops
