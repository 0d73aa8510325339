// What there is of CUDA on this machine, for people who ask why it doesn't run. Loads the
// libraries.
#include <cuda_runtime_api.h>

#include "graph/support/error.h"
#include "ops/core/cuda.h"
#include "ops/core/cuda_native/cublas_library.h"
#include "ops/core/cuda_native/cudnn_library.h"
#include "runtime/collectives/nccl.h"
#include "runtime/devices/cuda.h"

namespace sardonyx::runtime {

namespace {

// 13000 as "13.0"; the driver's is 0 where there is none.
std::string cuda_version(int number) {
  return number == 0 ? "" : fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

// 22809 as "2.28.9".
std::string library_version(size_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

template <class Version>
CudaFacts::Library library(const char* name, const Version& version) {
  try {
    return {name, version(), ""};
  } catch (const Error& error) {
    return {name, "", error.what()};
  }
}

std::vector<std::string> devices() {
  std::vector<std::string> list;
  for (int i = 0; i < ops::cuda::device_count(); ++i) {
    const ops::cuda::DeviceFacts facts = ops::cuda::device_facts(i);
    list.push_back(fmt::format("cuda:{} ({}, sm_{}{})", i, facts.name, facts.major, facts.minor));
  }
  return list;
}

}  // namespace

CudaFacts cuda_facts() {
  CudaFacts facts;
  facts.built = true;
  facts.why_not = why_no_cuda();
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  facts.runtime = cuda_version(runtime);
  facts.driver = cuda_version(driver);
  facts.libraries = {
      library("cuDNN", [] { return library_version(ops::cudnn::CudnnLibrary::get().version()); }),
      library("cuBLASLt",
              [] { return library_version(ops::cublas::CublasLibrary::get().version()); }),
      library("NCCL", [] { return library_version(nccl::version()); })};
  facts.devices = devices();
  return facts;
}

}  // namespace sardonyx::runtime
