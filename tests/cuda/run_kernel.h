// One kernel of a CUDA device on operands given as numbers, for tests that look at how it rounds.
#pragma once

#include <memory>
#include <vector>

#include "ops/core/cublas.h"
#include "ops/core/cuda_context.h"
#include "ops/core/cudnn.h"
#include "tests/cuda/device_array.h"

namespace sardonyx::test {

// Of cuda:0, to which the thread then speaks.
inline ops::CudaLibraries& libraries() {
  ops::cuda::use_device(0);
  static ops::cudnn::Handle cudnn;
  static ops::cublas::Handle cublas;
  static ops::CudaLibraries both{cudnn, cublas};
  return both;
}

// Output 0. T: an element of the operands, or std::byte for their bytes.
template <class T>
std::vector<T> run_kernel(const ops::KernelDef& kernel, const ops::KernelRequest& request,
                          const std::vector<std::vector<T>>& inputs) {
  const ops::cuda::OwnedStream stream;
  std::vector<DeviceArray<T>> arrays;
  for (const std::vector<T>& input : inputs) arrays.emplace_back(stream.get(), input);
  const DeviceArray<T> out(stream.get(), std::vector<T>(request.out[0].bytes() / sizeof(T)));
  const std::unique_ptr<ops::Kernel> made = kernel.create(request);
  const ops::cuda::Memory workspace(made->workspace_bytes());
  ops::CudaContext context;
  context.stream = stream.get();
  context.libraries = &libraries();
  context.workspace = workspace.data();
  for (const DeviceArray<T>& array : arrays) context.inputs.push_back(array.data());
  context.outputs = {out.data()};
  made->launch(context);
  return out.values();
}

}  // namespace sardonyx::test
