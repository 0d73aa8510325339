#include "passes/plan_kernels.h"

#include "ops/core/cuda_context.h"
#include "passes/arena.h"

namespace sardonyx::passes {

namespace {

class AddingKernel final : public ops::Kernel {
 public:
  AddingKernel(std::unique_ptr<ops::Kernel> inner, std::vector<graph::TensorType> types)
      : inner_(std::move(inner)), types_(std::move(types)) {
    inner_bytes_ = align_up(inner_->workspace_bytes());
    size_t offset = inner_bytes_;
    for (const graph::TensorType& type : types_) {
      offsets_.push_back(offset);
      if (type.dtype != graph::DType::kUndefined) offset += align_up(type.bytes());
    }
    bytes_ = offset;
  }

  size_t workspace_bytes() const override { return bytes_; }
  size_t host_bytes() const override { return inner_->host_bytes(); }

  void run(ops::CpuContext& context) const override {
    ops::CpuContext inner = beside(context, context.workspace.data());
    inner.workspace = context.workspace.first(inner_bytes_);
    inner_->run(inner);
    for (size_t i = 0; i < types_.size(); ++i) {
      if (adds(context, i)) add(context, inner.outputs[i], static_cast<int>(i));
    }
  }

  void launch(ops::CudaContext& context) const override {
    ops::CudaContext inner = beside(context, static_cast<std::byte*>(context.workspace));
    inner_->launch(inner);
    for (size_t i = 0; i < types_.size(); ++i) {
      if (!adds(context, i)) continue;
      ops::launch_add(context, types_[i].dtype, types_[i].physical_numel(), inner.outputs[i],
                      context.outputs[i]);
    }
  }

 private:
  bool adds(const ops::RunContext& context, size_t i) const {
    return types_[i].dtype != graph::DType::kUndefined && context.outputs[i] != nullptr;
  }

  // The same run with what must be added in the workspace.
  template <class Context>
  Context beside(const Context& context, std::byte* workspace) const {
    Context inner = context;
    inner.accumulate = false;
    for (size_t i = 0; i < types_.size(); ++i) {
      if (adds(context, i)) inner.outputs[i] = workspace + offsets_[i];
    }
    return inner;
  }

  void add(ops::CpuContext& context, const void* from, int i) const {
    ops::dispatch_float(types_[i].dtype, [&]<class T>() {
      const T* x = static_cast<const T*>(from);
      T* y = context.out<T>(i);
      ops::parallel_for(*context.pool, types_[i].physical_numel(), 16384,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t k = begin; k < end; ++k) y[k] += x[k];
                        });
    });
  }

  std::unique_ptr<ops::Kernel> inner_;
  std::vector<graph::TensorType> types_;
  std::vector<size_t> offsets_;
  size_t inner_bytes_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

void make_accumulating(Step& step, const std::vector<bool>& adds) {
  int outputs = 0;
  std::vector<graph::TensorType> sums = step.output_types;
  for (size_t i = 0; i < sums.size(); ++i) {
    outputs += sums[i].dtype != graph::DType::kUndefined ? 1 : 0;
    if (!adds[i]) sums[i] = graph::TensorType();
  }
  if (step.def->accumulates && outputs == 1) {
    step.accumulate = true;
    return;
  }
  step.kernel = std::make_unique<AddingKernel>(std::move(step.kernel), std::move(sums));
  step.workspace_bytes = step.kernel->workspace_bytes();
}

}  // namespace sardonyx::passes
