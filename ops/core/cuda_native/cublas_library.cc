#include "ops/core/cuda_native/cublas_library.h"

#include "graph/support/error.h"

namespace sardonyx::ops::cublas {

const CublasLibrary& CublasLibrary::get() {
  static const CublasLibrary library;
  return library;
}

void CublasLibrary::fail(cublasStatus_t status, const char* doing) const {
  throw Error("cuBLAS {}: {}, {}", version(), status_name(status), doing);
}

}  // namespace sardonyx::ops::cublas
