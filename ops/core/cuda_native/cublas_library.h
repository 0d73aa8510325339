// The functions of cuBLASLt that Sardonyx calls, loaded at the first question.
#pragma once

#include <cublasLt.h>

#include "ops/core/cuda_native/shared_library.h"

namespace sardonyx::ops::cublas {

struct CublasLibrary {
  cuda::SharedLibrary file{"cuBLAS", {"libcublasLt.so.13", "libcublasLt.so.12"}};

  decltype(&cublasLtGetVersion) version = file.symbol("cublasLtGetVersion");
  decltype(&cublasLtGetStatusName) status_name = file.symbol("cublasLtGetStatusName");
  decltype(&cublasLtCreate) create = file.symbol("cublasLtCreate");
  decltype(&cublasLtDestroy) destroy = file.symbol("cublasLtDestroy");
  decltype(&cublasLtMatmulDescCreate) create_desc = file.symbol("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescDestroy) destroy_desc = file.symbol("cublasLtMatmulDescDestroy");
  decltype(&cublasLtMatmulDescSetAttribute) set_desc =
      file.symbol("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) create_layout = file.symbol("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout =
      file.symbol("cublasLtMatrixLayoutDestroy");
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout =
      file.symbol("cublasLtMatrixLayoutSetAttribute");
  decltype(&cublasLtMatmulPreferenceCreate) create_preference =
      file.symbol("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference =
      file.symbol("cublasLtMatmulPreferenceDestroy");
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference =
      file.symbol("cublasLtMatmulPreferenceSetAttribute");
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic =
      file.symbol("cublasLtMatmulAlgoGetHeuristic");
  decltype(&cublasLtMatmul) matmul = file.symbol("cublasLtMatmul");

  // Throws Error when the library isn't there.
  static const CublasLibrary& get();

  // Throws Error unless `status` is success.
  void check(cublasStatus_t status, const char* doing) const {
    if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
      fail(status, doing);
  }

 private:
  [[noreturn]] void fail(cublasStatus_t status, const char* doing) const;
};

}  // namespace sardonyx::ops::cublas
