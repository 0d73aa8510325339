// Kernels cross_entropy.cuda: what stands in cross_entropy.cu, with the operands of the operators.
#include "ops/cross_entropy/cross_entropy_cuda.h"

#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"
#include "ops/cross_entropy/cross_entropy.h"

namespace sardonyx::ops {

namespace {

using cross_entropy::Geometry;
using cross_entropy::LossOperands;
using cross_entropy::Reduce;
using cross_entropy::Reduction;
using cross_entropy::reduction_of;
using cross_entropy::Scored;
using cross_entropy::Scores;

Reduce reduce_of(const Node& node, const char* fallback) {
  switch (reduction_of(node, fallback)) {
    case Reduction::kNone:
      return Reduce::kNone;
    case Reduction::kMean:
      return Reduce::kMean;
    case Reduction::kSum:
      break;
  }
  return Reduce::kSum;
}

Scored scored(const KernelRequest& request, const CudaContext& context,
              const std::vector<int64_t>& scores, int labels) {
  const Geometry geometry = Geometry::of_scores(scores);
  Scored s;
  s.dtype = request.in[0].dtype;
  s.rows = geometry.rows;
  s.classes = geometry.classes;
  s.inner = geometry.inner;
  s.labels = context.inputs[labels];
  s.label_dtype = request.in[labels].dtype;
  if (request.has_in(labels + 1)) s.weights = context.in<void>(labels + 1);
  if (const auto ignore = cross_entropy::ignore_index_of(*request.node)) {
    s.has_ignore = 1;
    s.ignore = *ignore;
  }
  s.smoothing = request.node->get_float("label_smoothing", 0);
  s.workspace = static_cast<double*>(context.workspace);
  return s;
}

void loss(const KernelRequest& request, CudaContext& context) {
  const Node& node = *request.node;
  const bool own = node.domain == kDomain;
  const bool softmax = node.op == "SoftmaxCrossEntropyLoss" || node.op == "CrossEntropyLoss";
  LossOperands operands;
  operands.scores = softmax ? Scores::kAny : Scores::kLogProbabilities;
  operands.reduce = own ? Reduce::kSum : reduce_of(node, "mean");
  operands.x = context.in<void>(0);
  operands.loss = context.out<void>(0);
  if (own) operands.weight = context.out<void>(1);
  if (softmax) operands.log_prob = context.out<void>(own ? 2 : 1);
  launch_loss(context.stream, scored(request, context, request.in_shape(0), 1), operands);
}

void softmax_gradient(const KernelRequest& request, CudaContext& context) {
  launch_gradient(context.stream, scored(request, context, request.in_shape(1), 2),
                  reduce_of(*request.node, "sum"), context.in<void>(0), context.in<void>(1),
                  context.out<void>(0));
}

void nll_gradient(const KernelRequest& request, CudaContext& context) {
  launch_gradient(context.stream, scored(request, context, request.out_shape(0), 1),
                  reduce_of(*request.node, "sum"), context.in<void>(0), nullptr,
                  context.out<void>(0));
}

void count_correct(const KernelRequest& request, CudaContext& context) {
  launch_count(context.stream, scored(request, context, request.in_shape(0), 1),
               request.node->get_int("k", 1), context.in<void>(0), context.out<void>(0));
}

class ScoredKernel final : public Kernel {
 public:
  using Body = void (*)(const KernelRequest&, CudaContext&);
  ScoredKernel(KernelRequest request, Body body) : request_(std::move(request)), body_(body) {}
  size_t workspace_bytes() const override { return Scored::workspace_bytes(); }
  void launch(CudaContext& context) const override { body_(request_, context); }

 private:
  KernelRequest request_;
  Body body_;
};

}  // namespace

void register_cross_entropy_cuda(KernelRegistry& kernels) {
  const auto add = [&](const char* domain, const char* op, ScoredKernel::Body body) {
    KernelDef def;
    def.domain = domain;
    def.op = op;
    def.name = "cross_entropy.cuda";
    def.device = Device::kCuda;
    def.speed = Speed::kOptimised;
    def.declines = {unless_float()};
    def.create = [body](const KernelRequest& request) {
      return std::make_unique<ScoredKernel>(request, body);
    };
    kernels.add(std::move(def));
  };
  add("", "SoftmaxCrossEntropyLoss", loss);
  add("", "NegativeLogLikelihoodLoss", loss);
  add(kDomain, "CrossEntropyLoss", loss);
  add(kDomain, "NllLoss", loss);
  add(kDomain, "CrossEntropyGrad", softmax_gradient);
  add(kDomain, "NllGrad", nll_gradient);
  add(kDomain, "CountCorrect", count_correct);
}

}  // namespace sardonyx::ops
