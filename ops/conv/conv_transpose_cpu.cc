// Kernels of ConvTranspose: those of ConvGradData, with the operands in its order, and the bias
// added behind them. No loop over windows stands here.
#include <vector>

#include "ops/conv/conv.h"
#include "ops/core/elementwise.h"
#include "ops/core/lines.h"
#include "ops/core/strided.h"

namespace sardonyx::ops::conv {

namespace {

// y[.., m, ..] += b[m], where lines run across the outputs m.
template <class T>
void add_bias(ThreadPool& pool, const T* b, const Lines& lines, T* y) {
  const int64_t grain = 1 + kCheapGrain / (lines.inner + 1);
  parallel_for(pool, lines.outer * lines.length, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T* cells = y + i * lines.inner;
      const T bias = b[i % lines.length];
      for (int64_t j = 0; j < lines.inner; ++j) cells[j] += bias;
    }
  });
}

class Transposed final : public Kernel {
 public:
  Transposed(std::unique_ptr<Kernel> data, const KernelRequest& request)
      : data_(std::move(data)),
        dtype_(request.out[0].dtype),
        lines_(Lines::along(stored_dims(request.out[0]), 1)) {}

  size_t workspace_bytes() const override { return data_->workspace_bytes(); }

  void run(CpuContext& context) const override {
    CpuContext inner = context;
    inner.inputs = {context.inputs.at(1), context.inputs.at(0)};
    data_->run(inner);
    dispatch_float(dtype_, [&]<class T>() {
      const T* b = context.in<T>(2);
      if (b != nullptr) add_bias(*context.pool, b, lines_, context.out<T>(0));
    });
  }

 private:
  std::unique_ptr<Kernel> data_;
  DType dtype_;
  Lines lines_;  // across the outputs
};

std::unique_ptr<Kernel> with_bias(std::unique_ptr<Kernel> data, const KernelRequest& request) {
  return std::make_unique<Transposed>(std::move(data), request);
}

// The request of the convolution's data gradient: (w, dy) -> dx.
KernelRequest as_grad_data(const KernelRequest& request) {
  KernelRequest inner;
  inner.node = request.node;
  inner.in = {request.in.at(1), request.in.at(0)};
  inner.out = request.out;
  inner.constants = {request.constant(1), request.constant(0)};
  inner.libraries = request.libraries;
  inner.math = request.math;
  return inner;
}

}  // namespace

ConvGeometry ConvGeometry::transposed(const KernelRequest& r) { return grad_data(as_grad_data(r)); }

KernelDef transposed(KernelDef kernel, WithBias with_bias) {
  kernel.domain = "";
  kernel.op = kConvTranspose;
  for (Refusal& refusal : kernel.declines) {
    refusal.applies = [applies = std::move(refusal.applies)](const KernelRequest& request) {
      return applies(as_grad_data(request));
    };
    if (!refusal.library_words) continue;
    refusal.library_words = [words =
                                 std::move(refusal.library_words)](const KernelRequest& request) {
      return words(as_grad_data(request));
    };
  }
  if (kernel.lanes_gain) {
    kernel.lanes_gain = [gain = std::move(kernel.lanes_gain)](const KernelRequest& request) {
      return gain(as_grad_data(request));
    };
  }
  kernel.create = [create = std::move(kernel.create), with_bias](const KernelRequest& request) {
    return with_bias(create(as_grad_data(request)), request);
  };
  return kernel;
}

void register_conv_transpose(KernelRegistry& kernels) {
  std::vector<KernelDef> copies;
  for (const KernelDef* kernel : kernels.find(kDomain, "ConvGradData")) copies.push_back(*kernel);
  for (KernelDef& kernel : copies) kernels.add(transposed(std::move(kernel), with_bias));
}

}  // namespace sardonyx::ops::conv
