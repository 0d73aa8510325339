// The functions of cuDNN that Sardonyx calls, loaded at the first question.
#pragma once

#include <cudnn_graph.h>

#include <string>

#include "ops/core/cuda_native/shared_library.h"

namespace sardonyx::ops::cudnn {

struct CudnnLibrary {
  cuda::SharedLibrary file{"cuDNN 9", {"libcudnn.so.9"}};

  decltype(&cudnnGetVersion) version = file.symbol("cudnnGetVersion");
  decltype(&cudnnGetErrorString) error_name = file.symbol("cudnnGetErrorString");
  decltype(&cudnnGetLastErrorString) last_error = file.symbol("cudnnGetLastErrorString");
  decltype(&cudnnCreate) create = file.symbol("cudnnCreate");
  decltype(&cudnnDestroy) destroy = file.symbol("cudnnDestroy");
  decltype(&cudnnSetStream) set_stream = file.symbol("cudnnSetStream");
  decltype(&cudnnBackendCreateDescriptor) create_descriptor =
      file.symbol("cudnnBackendCreateDescriptor");
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor =
      file.symbol("cudnnBackendDestroyDescriptor");
  decltype(&cudnnBackendFinalize) finalize = file.symbol("cudnnBackendFinalize");
  decltype(&cudnnBackendSetAttribute) set_attribute = file.symbol("cudnnBackendSetAttribute");
  decltype(&cudnnBackendGetAttribute) get_attribute = file.symbol("cudnnBackendGetAttribute");
  decltype(&cudnnBackendExecute) execute = file.symbol("cudnnBackendExecute");

  // Throws Error when the library isn't there.
  static const CudnnLibrary& get();

  // "CUDNN_STATUS_NOT_SUPPORTED: what the library says of its last failure on this thread".
  std::string reason(cudnnStatus_t status) const;
  // Throws Error unless `status` is success: `doing` ("finalizing the plan") and the reason.
  void check(cudnnStatus_t status, const char* doing) const {
    if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
      fail(status, doing);
  }

 private:
  [[noreturn]] void fail(cudnnStatus_t status, const char* doing) const;
};

}  // namespace sardonyx::ops::cudnn
