// ops/core/cudnn.h by the library itself.
//
// Pointers change from call to call, so each run makes a variant pack of its own on the host (about
// a microsecond); a pack kept in the Convolution would tie it to one thread.
#include "ops/core/cudnn.h"

#include <vector>

#include "graph/support/error.h"
#include "ops/core/cuda_native/cudnn_convolution.h"
#include "ops/core/cuda_native/cudnn_library.h"

namespace sardonyx::ops::cudnn {

struct Handle::Impl {
  cudnnHandle_t handle = nullptr;
  cuda::Stream stream = nullptr;  // the one that the handle works on

  Impl() {
    const CudnnLibrary& library = CudnnLibrary::get();
    library.check(library.create(&handle), "starting it");
  }
  ~Impl() { CudnnLibrary::get().destroy(handle); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void use(cuda::Stream next) {
    if (next == stream) return;
    const CudnnLibrary& library = CudnnLibrary::get();
    library.check(library.set_stream(handle, reinterpret_cast<cudaStream_t>(next)),
                  "turning to another stream");
    stream = next;
  }
};

Handle::Handle() : impl_(std::make_unique<Impl>()) {}
Handle::~Handle() = default;

namespace {

// `bias` is null in a plan without one.
Descriptor variant_pack(const void* a, const void* b, const void* bias, void* out,
                        void* workspace) {
  std::vector<int64_t> ids = {kTensorA, kTensorB, kTensorOut};
  std::vector<void*> pointers = {const_cast<void*>(a), const_cast<void*>(b), out};
  if (bias != nullptr) {
    ids.push_back(kTensorBias);
    pointers.push_back(const_cast<void*>(bias));
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers);
  pack.set_one(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  pack.finalize();
  return pack;
}

class PlannedConvolution : public Convolution {
 public:
  explicit PlannedConvolution(Plan plan) : plan_(std::move(plan)) {}

  size_t workspace_bytes() const override { return plan_.workspace_bytes; }
  std::string engine() const override { return fmt::format("eng {}", plan_.engine); }

  void run(Handle& handle, cuda::Stream stream, const void* a, const void* b, const void* bias,
           void* out, void* workspace) const override {
    const CudnnLibrary& library = CudnnLibrary::get();
    handle.impl().use(stream);
    const Descriptor pack = variant_pack(a, b, bias, out, workspace);
    library.check(library.execute(handle.impl().handle, plan_.plan.get(), pack.get()),
                  "running a convolution");
  }

 private:
  Plan plan_;
};

}  // namespace

std::unique_ptr<Convolution> Convolution::make(Handle& handle, const ConvolutionDesc& desc) {
  return std::make_unique<PlannedConvolution>(
      plan_convolution({.handle = handle.impl().handle}, desc));
}

}  // namespace sardonyx::ops::cudnn
