// Errors of the CUDA runtime as Error: the call, the runtime's name for the error and its sentence,
// and what was being done.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <string>

namespace sardonyx::ops::cuda {

// `call` is the call as written; its name is cut out of it.
[[noreturn]] void throw_cuda_error(cudaError_t status, const char* call, const std::string& doing);

}  // namespace sardonyx::ops::cuda

// CUDA_CHECK(cudaMalloc(&p, n), "allocating {} bytes", n). The text is made only when it failed.
#define CUDA_CHECK(call, ...)                                                                \
  do {                                                                                       \
    if (const cudaError_t cuda_status = (call); cuda_status != cudaSuccess) [[unlikely]]     \
      ::sardonyx::ops::cuda::throw_cuda_error(cuda_status, #call, fmt::format(__VA_ARGS__)); \
  } while (false)
