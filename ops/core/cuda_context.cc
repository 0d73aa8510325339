#include "ops/core/cuda_context.h"

#include "ops/core/cuda_grid.h"
#include "ops/core/cuda_sums.h"

namespace sardonyx::ops {

namespace {

class LaunchKernel final : public Kernel {
 public:
  LaunchKernel(LaunchFunction function, KernelRequest request)
      : function_(std::move(function)), request_(std::move(request)) {}
  void launch(CudaContext& context) const override { function_(request_, context); }

 private:
  LaunchFunction function_;
  KernelRequest request_;
};

}  // namespace

std::function<std::unique_ptr<Kernel>(const KernelRequest&)> simple_launch(
    LaunchFunction function) {
  return [function = std::move(function)](const KernelRequest& request) {
    return std::make_unique<LaunchKernel>(function, request);
  };
}

void cuda::refuse_dtype(DType dtype) {
  throw InternalError(fmt::format("no CUDA kernel of floats takes {}", graph::dtype_name(dtype)));
}

void launch_add(CudaContext& context, DType dtype, int64_t count, const void* from, void* to) {
  cuda::add(context.stream, dtype, count, from, to);
}

}  // namespace sardonyx::ops
