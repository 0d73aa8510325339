// A libcuda.so.1 that takes every module and has no device, for cudnn_offline_tests alone.
//
// cuDNN compiles kernels of fused graphs while it plans, and hands them to the driver at once to
// see that they load. Everything before that is real here; what a device would say isn't asked.
#include <cstddef>

namespace {
char memory[4096];                // stands behind every handle
constexpr int kInvalidValue = 1;  // CUDA_ERROR_INVALID_VALUE
constexpr int kNotFound = 500;    // CUDA_ERROR_NOT_FOUND
}  // namespace

#define SUCCEEDS(name) \
  int name() { return 0; }
#define GIVES_HANDLE(name) \
  int name(void** handle) { return *handle = memory, 0; }
#define GIVES_NUMBER(name, number) \
  int name(int* value) { return *value = (number), 0; }

extern "C" {

SUCCEEDS(cuInit)
GIVES_NUMBER(cuDriverGetVersion, 13000)
GIVES_NUMBER(cuDeviceGet, 0)
GIVES_NUMBER(cuDeviceGetCount, 1)
GIVES_NUMBER(cuDeviceGetAttribute, 64)
GIVES_NUMBER(cuCtxGetDevice, 0)
GIVES_HANDLE(cuCtxGetCurrent)
SUCCEEDS(cuCtxPushCurrent)
SUCCEEDS(cuCtxPopCurrent)
int cuCtxGetLimit(size_t* value) { return *value = 1024, 0; }
GIVES_HANDLE(cuDevicePrimaryCtxRetain)
SUCCEEDS(cuDevicePrimaryCtxRelease)
SUCCEEDS(cuDevicePrimaryCtxReset)
int cuStreamGetCtx(void*, void** context) { return *context = memory, 0; }
SUCCEEDS(cuStreamSynchronize)

GIVES_HANDLE(cuLibraryLoadData)
GIVES_HANDLE(cuLibraryLoadFromFile)
GIVES_HANDLE(cuLibraryGetKernel)
SUCCEEDS(cuLibraryUnload)
GIVES_NUMBER(cuKernelGetAttribute, 64)
SUCCEEDS(cuKernelSetAttribute)
GIVES_HANDLE(cuModuleLoadData)
GIVES_HANDLE(cuModuleLoadDataEx)
GIVES_HANDLE(cuModuleLoadFatBinary)
GIVES_HANDLE(cuModuleGetFunction)
int cuModuleGetGlobal_v2(void** address, size_t* bytes) {
  if (address != nullptr) *address = memory;
  if (bytes != nullptr) *bytes = sizeof(int);
  return 0;
}
SUCCEEDS(cuModuleUnload)
GIVES_NUMBER(cuFuncGetAttribute, 64)
SUCCEEDS(cuFuncSetAttribute)
GIVES_NUMBER(cuOccupancyMaxActiveBlocksPerMultiprocessor, 1)
GIVES_NUMBER(cuOccupancyMaxPotentialClusterSize, 8)
SUCCEEDS(cuTensorMapEncodeTiled)

int cuLinkCreate(unsigned, void*, void*, void** state) { return *state = memory, 0; }
int cuLinkCreate_v2(unsigned, void*, void*, void** state) { return *state = memory, 0; }
SUCCEEDS(cuLinkAddData)
SUCCEEDS(cuLinkAddData_v2)
SUCCEEDS(cuLinkAddFile_v2)
int cuLinkComplete(void*, void** binary, size_t* bytes) {
  *binary = memory;
  *bytes = sizeof(memory);
  return 0;
}
SUCCEEDS(cuLinkDestroy)

// Nothing is ever run.
int cuLaunchKernel() { return kInvalidValue; }
int cuLaunchKernelEx() { return kInvalidValue; }
int cuLaunchCooperativeKernel() { return kInvalidValue; }
int cuMemcpyDtoH_v2() { return kInvalidValue; }
int cuGetExportTable(void** table) { return *table = nullptr, kInvalidValue; }
int cuGetProcAddress_v2(const char*, void** address) { return *address = nullptr, kNotFound; }
int cuGetErrorName(int, const char** name) { return *name = "fake driver", 0; }
int cuGetErrorString(int, const char** sentence) { return *sentence = "fake driver", 0; }

}  // extern "C"
