// Kernels of the CPU that take part in a plan for a CUDA device (--fallback cpu).
//
// Where an output shares the device memory of an input, it shares the host memory, too: kernels
// that update in place may leave it as it is.
#include "ops/core/cuda_context.h"

namespace sardonyx::ops {

namespace {

size_t bytes_of(const TensorType& type) {
  return type.dtype == DType::kUndefined ? 0 : type.bytes();
}

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

class HostKernel final : public Kernel {
 public:
  HostKernel(std::unique_ptr<Kernel> kernel, const KernelRequest& request)
      : kernel_(std::move(kernel)), inputs_(request.in), outputs_(request.out) {
    bytes_ = aligned(kernel_->workspace_bytes());
    for (const auto* types : {&inputs_, &outputs_}) {
      for (const TensorType& type : *types) {
        offsets_.push_back(bytes_);
        bytes_ += aligned(bytes_of(type));
      }
    }
  }

  size_t host_bytes() const override { return bytes_; }

  void launch(CudaContext& context) const override {
    CpuContext host;
    static_cast<RunContext&>(host) = context;
    host.workspace = {context.host_memory, kernel_->workspace_bytes()};
    host.pool = context.host_pool;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (context.inputs[i] != nullptr) host.inputs[i] = fetched(context, context.inputs[i], i);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (context.outputs[i] != nullptr) host.outputs[i] = place(context, i);
    }
    if (context.accumulate) {
      cuda::copy_to_host(context.stream, host.outputs[0], context.outputs[0],
                         bytes_of(outputs_[0]));
    }
    context.wait();
    kernel_->run(host);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const size_t bytes = bytes_of(outputs_[i]);
      if (context.outputs[i] == nullptr || bytes == 0) continue;
      cuda::copy_to_device(context.stream, context.outputs[i], host.outputs[i], bytes);
    }
  }

 private:
  std::byte* fetched(CudaContext& context, const void* input, size_t i) const {
    std::byte* to = context.host_memory + offsets_[i];
    const size_t bytes = bytes_of(inputs_[i]);
    if (bytes > 0) cuda::copy_to_host(context.stream, to, input, bytes);
    return to;
  }

  std::byte* place(const CudaContext& context, size_t output) const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const bool same_place = context.inputs[i] == context.outputs[output];
      if (same_place && bytes_of(inputs_[i]) == bytes_of(outputs_[output])) {
        return context.host_memory + offsets_[i];
      }
    }
    return context.host_memory + offsets_[inputs_.size() + output];
  }

  std::unique_ptr<Kernel> kernel_;
  std::vector<TensorType> inputs_, outputs_;
  std::vector<size_t> offsets_;  // of inputs, then of outputs, behind the workspace
  size_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> on_host(std::unique_ptr<Kernel> kernel, const KernelRequest& request) {
  return std::make_unique<HostKernel>(std::move(kernel), request);
}

}  // namespace sardonyx::ops
