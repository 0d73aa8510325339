// Kernels gemm.cuda_plain, which take everything in float, double and bfloat16, and GemmGradBias.
#include "ops/gemm/gemm_cuda.h"

#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"
#include "ops/gemm/gemm.h"

namespace sardonyx::ops {

namespace gemm {

namespace {

using cuda::ChannelCells;
using cuda::Write;

Write write_of(const CudaContext& context) {
  return context.accumulate ? Write::kAdd : Write::kOverwrite;
}

StridedProduct strided(const Product& p) {
  const bool trans_a = p.trans_a == Trans::kYes, trans_b = p.trans_b == Trans::kYes;
  return {
      p.m,    p.n, p.k, trans_a ? 1 : p.k, trans_a ? p.m : 1, trans_b ? 1 : p.n, trans_b ? p.k : 1,
      p.alpha};
}

void gemm(const KernelRequest& request, CudaContext& context) {
  const GemmShape shape = GemmShape::of(request);
  const DType dtype = request.in[0].dtype;
  Write write = write_of(context);
  void* y = context.out<void>(0);
  if (shape.reads_c) {
    launch_term(
        context.stream, dtype,
        {shape.product.m, shape.product.n, shape.c_row_stride, shape.c_column_stride, shape.beta},
        context.in<void>(2), write, y);
    write = Write::kAdd;
  }
  launch_product(context.stream, dtype, strided(shape.product), context.in<void>(0),
                 context.in<void>(1), write, y);
}

void matmul(const KernelRequest& request, CudaContext& context) {
  const MatMulShape shape = MatMulShape::of(request);
  const StridedProduct product = strided(shape.product);
  const auto size = static_cast<int64_t>(graph::dtype_size(request.in[0].dtype));
  for (size_t i = 0; i < shape.a_offsets.size(); ++i) {
    launch_product(
        context.stream, request.in[0].dtype, product,
        context.in<std::byte>(0) + shape.a_offsets[i] * size,
        context.in<std::byte>(1) + shape.b_offsets[i] * size, write_of(context),
        context.out<std::byte>(0) + static_cast<int64_t>(i) * product.m * product.n * size);
  }
}

void grad_weight(const KernelRequest& request, CudaContext& context) {
  launch_product(context.stream, request.in[0].dtype, strided(grad_weight_product(request)),
                 context.in<void>(0), context.in<void>(1), write_of(context), context.out<void>(0));
}

class BiasKernel final : public Kernel {
 public:
  explicit BiasKernel(const KernelRequest& request)
      : dtype_(request.in[0].dtype), scale_(request.node->get_float("scale", 1)) {
    std::vector<int64_t> rows = request.in_shape(0);
    const int64_t columns = rows.back();
    rows.pop_back();
    cells_ = ChannelCells::dense(graph::checked_numel(rows), columns, 1);
  }
  size_t workspace_bytes() const override { return cuda::sum_workspace(cells_); }
  void launch(CudaContext& context) const override {
    cuda::sum_channels(context.stream, dtype_, cells_, context.in<void>(0), scale_,
                       write_of(context), context.out<void>(0), context.workspace);
  }

 private:
  DType dtype_;
  double scale_;
  ChannelCells cells_;
};

KernelDef plain(const char* domain, const char* op,
                std::function<std::unique_ptr<Kernel>(const KernelRequest&)> create) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "gemm.cuda_plain";
  def.device = Device::kCuda;
  def.speed = Speed::kPlain;
  def.accumulates = true;
  def.declines = {unless_stored_float(), unless_one_dtype()};
  def.create = std::move(create);
  return def;
}

}  // namespace

}  // namespace gemm

void register_gemm_cuda(KernelRegistry& kernels) {
  kernels.add(gemm::plain("", "Gemm", simple_launch(gemm::gemm)));
  kernels.add(gemm::plain("", "MatMul", simple_launch(gemm::matmul)));
  kernels.add(gemm::plain(kDomain, "GemmGradWeight", simple_launch(gemm::grad_weight)));
  kernels.add(gemm::plain(kDomain, "GemmGradBias", [](const KernelRequest& request) {
    return std::make_unique<gemm::BiasKernel>(request);
  }));
  gemm::register_gemm_cublas(kernels);
}

}  // namespace sardonyx::ops
