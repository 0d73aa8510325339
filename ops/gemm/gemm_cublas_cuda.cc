// Kernels gemm.cublas: one plan of the library that overwrites and one that adds, per product and
// shape; what it refuses is declined. A bias per column is the epilogue of the first, any other
// third operand of Gemm is written in front.
#include "ops/core/cublas.h"
#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"
#include "ops/gemm/gemm.h"
#include "ops/gemm/gemm_cuda.h"

namespace sardonyx::ops::gemm {

namespace {

using cublas::Epilogue;
using cublas::ProductDesc;

// The products of a node, as many as there are matrices.
struct Batched {
  Product product;
  int64_t batch = 1, stride_a = 0, stride_b = 0;
};

// The common distance of the offsets; nullopt: there is none.
std::optional<int64_t> distance(const std::vector<int64_t>& offsets) {
  const int64_t step = offsets.size() < 2 ? 0 : offsets[1] - offsets[0];
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] - offsets[i - 1] != step) return std::nullopt;
  }
  return step;
}

std::optional<Batched> batched(const KernelRequest& request) {
  if (request.node->op == "Gemm") return Batched{GemmShape::of(request).product};
  if (request.node->op == "GemmGradWeight") return Batched{grad_weight_product(request)};
  const MatMulShape shape = MatMulShape::of(request);
  const auto a = distance(shape.a_offsets), b = distance(shape.b_offsets);
  if (!a || !b) return std::nullopt;
  return Batched{shape.product, static_cast<int64_t>(shape.a_offsets.size()), *a, *b};
}

enum class Result : uint8_t { kOverwritten, kAddedTo };

cublas::Trans library_trans(Trans trans) {
  return trans == Trans::kYes ? cublas::Trans::kYes : cublas::Trans::kNo;
}

// One number per column.
bool has_bias(const KernelRequest& request) {
  if (request.node->op != "Gemm") return false;
  const GemmShape shape = GemmShape::of(request);
  return shape.reads_c && shape.beta == 1 && shape.c_row_stride == 0 &&
         (shape.c_column_stride == 1 || shape.product.n == 1);
}

ProductDesc desc_of(const KernelRequest& request, Result result) {
  const Batched all = *batched(request);
  const Product& p = all.product;
  ProductDesc desc;
  desc.m = p.m;
  desc.n = p.n;
  desc.k = p.k;
  desc.trans_a = library_trans(p.trans_a);
  desc.trans_b = library_trans(p.trans_b);
  desc.batch = all.batch;
  desc.stride_a = all.stride_a;
  desc.stride_b = all.stride_b;
  desc.stride_c = all.batch > 1 ? p.m * p.n : 0;
  desc.dtype = request.in[0].dtype;
  desc.math = request.math;
  desc.alpha = p.alpha;
  desc.beta = result == Result::kAddedTo ? 1 : 0;
  if (result == Result::kOverwritten && has_bias(request)) desc.epilogue = Epilogue::kBias;
  return desc;
}

std::string key_of(const ProductDesc& d) {
  return fmt::format("product {} {} {} {} {} {} {} {} {} {} {} {} {} {}", d.m, d.n, d.k,
                     static_cast<int>(d.trans_a), static_cast<int>(d.trans_b), d.batch, d.stride_a,
                     d.stride_b, d.stride_c, graph::dtype_name(d.dtype), static_cast<int>(d.math),
                     d.alpha, d.beta, static_cast<int>(d.epilogue));
}

LibraryAnswer<cublas::Product> plan_of(const KernelRequest& request, Result result) {
  const ProductDesc desc = desc_of(request, result);
  return request.libraries->plans.find<cublas::Product>(
      key_of(desc), [&] { return cublas::Product::make(request.libraries->cublas, desc); });
}

class LibraryKernel final : public Kernel {
 public:
  explicit LibraryKernel(const KernelRequest& request)
      : overwrites_(plan_of(request, Result::kOverwritten).plan),
        adds_(plan_of(request, Result::kAddedTo).plan),
        has_bias_(has_bias(request)),
        dtype_(request.in[0].dtype) {
    if (request.node->op != "Gemm") return;
    const GemmShape shape = GemmShape::of(request);
    if (!shape.reads_c) return;
    term_ = {shape.product.m, shape.product.n, shape.c_row_stride, shape.c_column_stride,
             shape.beta};
  }

  size_t workspace_bytes() const override {
    return std::max(overwrites_->workspace_bytes(), adds_->workspace_bytes());
  }

  void launch(CudaContext& context) const override {
    const bool in_epilogue = has_bias_ && !context.accumulate;
    const bool in_front = term_.m > 0 && !in_epilogue;
    void* y = context.out<void>(0);
    if (in_front) {
      launch_term(context.stream, dtype_, term_, context.in<void>(2),
                  context.accumulate ? cuda::Write::kAdd : cuda::Write::kOverwrite, y);
    }
    const bool adds = in_front || context.accumulate;
    (adds ? adds_ : overwrites_)
        ->run(context.libraries->cublas, context.stream, context.in<void>(0), context.in<void>(1),
              in_epilogue ? context.in<void>(2) : nullptr, y, context.workspace);
  }

 private:
  std::shared_ptr<const cublas::Product> overwrites_, adds_;
  bool has_bias_;
  DType dtype_;
  BroadcastTerm term_;  // m is 0 without one
};

// Of one of the two plans; "" where both are there.
std::string words_of(const KernelRequest& request) {
  if (request.libraries == nullptr) return "";
  std::string words = plan_of(request, Result::kOverwritten).refusal;
  return words.empty() ? plan_of(request, Result::kAddedTo).refusal : words;
}

Refusal unless_planned() {
  Refusal refusal{"takes what the library has an engine for", [](const KernelRequest& request) {
                    return request.libraries == nullptr ||
                           plan_of(request, Result::kOverwritten).plan == nullptr ||
                           plan_of(request, Result::kAddedTo).plan == nullptr;
                  }};
  refusal.library_words = words_of;
  return refusal;
}

KernelDef library(const char* domain, const char* op) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "gemm.cublas";
  def.device = Device::kCuda;
  def.speed = Speed::kBest;
  def.accumulates = true;
  def.declines = {unless_stored_float(),
                  unless_one_dtype(),
                  {"needs at least one element in every operand",
                   [](const KernelRequest& request) {
                     return request.in[0].numel() == 0 || request.in[1].numel() == 0;
                   }},
                  {"takes matrices at equal distances only",
                   [](const KernelRequest& request) { return !batched(request); }},
                  unless_planned()};
  def.create = [](const KernelRequest& request) {
    return std::make_unique<LibraryKernel>(request);
  };
  return def;
}

}  // namespace

void register_gemm_cublas(KernelRegistry& kernels) {
  kernels.add(library("", "Gemm"));
  kernels.add(library("", "MatMul"));
  kernels.add(library(kDomain, "GemmGradWeight"));
}

}  // namespace sardonyx::ops::gemm
