// ops/core/cuda.h by the CUDA runtime, which is part of the program and looks for the driver at its
// first call; so nothing here may run before somebody asks for a device.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "graph/support/error.h"
#include "ops/core/cuda.h"
#include "ops/core/cuda_grid.h"
#include "ops/core/cuda_native/check.h"

// Begin and end of the list of functions that nvcc makes, one per file of kernels, to tell the
// runtime of them (tools/cmake/cuda.cmake).
extern "C" {
using Registration = void (*)();
extern const Registration __start_sardonyx_device_code[] __attribute__((weak));
extern const Registration __stop_sardonyx_device_code[] __attribute__((weak));
}

namespace sardonyx::ops::cuda {

// CUDA itself takes an event that was never recorded for one that is done.
struct EventHandle {
  cudaEvent_t event = nullptr;
  std::atomic<bool> recorded = false;
};

namespace {

cudaStream_t native(StreamHandle* stream) { return reinterpret_cast<cudaStream_t>(stream); }

// "13.0" for 13000.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// Before the first call of CUDA. A kernel that is loaded at its first launch, as CUDA does by
// itself, may wait for the whole device then; and a sum of NCCL may spin there for a rank which
// waits for this one. So all are loaded when a device is entered. The user's own setting stands.
void make_kernels_known() {
  [[maybe_unused]] static const bool known = [] {
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    for (const Registration* file = __start_sardonyx_device_code;
         file != __stop_sardonyx_device_code; ++file) {
      (*file)();
    }
    return true;
  }();
}

std::string find_out_why_unavailable() {
  make_kernels_known();
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return "";
  cudaGetLastError();  // the next call isn't to blame
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) {
    return fmt::format(
        "no driver: libcuda.so.1 isn't on this machine; install the NVIDIA driver (for CUDA {} or "
        "newer)",
        version_text(runtime));
  }
  if (status == cudaErrorInsufficientDriver) {
    return fmt::format(
        "driver older than the runtime: the NVIDIA driver serves CUDA {}, this program was built "
        "with {}; update the driver",
        version_text(driver), version_text(runtime));
  }
  if (status == cudaErrorNoDevice || status == cudaSuccess) {
    return "no device: the NVIDIA driver shows none; see nvidia-smi and CUDA_VISIBLE_DEVICES";
  }
  return fmt::format("the NVIDIA driver doesn't start: {} ({}); see nvidia-smi",
                     cudaGetErrorName(status), cudaGetErrorString(status));
}

// Whether work that was enqueued before may be what failed.
bool from_the_device(cudaError_t status) {
  switch (status) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

}  // namespace

void throw_cuda_error(cudaError_t status, const char* call, const std::string& doing) {
  cudaGetLastError();  // one that doesn't stick is reported once
  const std::string_view text = call;
  throw Error(
      "{}: {} ({}), {}{}", text.substr(0, text.find('(')), cudaGetErrorName(status),
      cudaGetErrorString(status), doing,
      from_the_device(status) ? "; a kernel that was enqueued earlier may have failed" : "");
}

std::string why_unavailable() {
  static const std::string reason = find_out_why_unavailable();
  return reason;
}

int device_count() {
  if (!why_unavailable().empty()) return 0;
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices), "counting the devices");
  return devices;
}

DeviceFacts device_facts(int device) {
  cudaDeviceProp properties;
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device), "asking what cuda:{} is", device);
  return {properties.name,           properties.major,
          properties.minor,          properties.multiProcessorCount,
          properties.totalGlobalMem, static_cast<size_t>(properties.l2CacheSize)};
}

void use_device(int device) { CUDA_CHECK(cudaSetDevice(device), "turning to cuda:{}", device); }

size_t free_bytes() {
  size_t free = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total), "asking for the free memory");
  return free;
}

void* allocate(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Error("the device has no {} bytes left: {} are free; use a smaller batch", bytes,
                free_bytes());
  }
  if (status != cudaSuccess) {
    throw_cuda_error(status, "cudaMalloc", fmt::format("allocating {} bytes", bytes));
  }
  return memory;
}

void release(void* device_memory) noexcept { cudaFree(device_memory); }

void* allocate_pinned(size_t bytes) {
  void* memory = nullptr;
  CUDA_CHECK(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable),
             "allocating {} bytes of pinned memory", bytes);
  return memory;
}

void release_pinned(void* host_memory) noexcept { cudaFreeHost(host_memory); }

Stream create_stream(Priority priority) {
  int lowest = 0, highest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for the priorities");
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                          priority == Priority::kHigh ? highest : lowest),
             "making a stream");
  return reinterpret_cast<Stream>(stream);
}

void destroy(Stream stream) noexcept { cudaStreamDestroy(native(stream)); }

void synchronize(Stream stream) {
  CUDA_CHECK(cudaStreamSynchronize(native(stream)), "waiting for a stream");
}

Event create_event(Timing timing) {
  auto handle = std::make_unique<EventHandle>();
  CUDA_CHECK(cudaEventCreateWithFlags(
                 &handle->event, timing == Timing::kOn ? cudaEventDefault : cudaEventDisableTiming),
             "making an event");
  return handle.release();
}

void destroy(Event event) noexcept {
  cudaEventDestroy(event->event);
  delete event;
}

void record(Event event, Stream stream) {
  CUDA_CHECK(cudaEventRecord(event->event, native(stream)), "recording an event");
  event->recorded = true;
}

void wait(Stream stream, Event event) {
  if (!event->recorded) throw InternalError("a stream waits for an event that was never recorded");
  CUDA_CHECK(cudaStreamWaitEvent(native(stream), event->event, cudaEventWaitDefault),
             "letting a stream wait for an event");
}

bool done(Event event) {
  const cudaError_t status = cudaEventQuery(event->event);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  if (status != cudaSuccess) {
    throw_cuda_error(status, "cudaEventQuery", "asking whether an event is done");
  }
  return true;
}

void synchronize(Event event) {
  CUDA_CHECK(cudaEventSynchronize(event->event), "waiting for an event");
}

double seconds_between(Event begin, Event end) {
  float milliseconds = 0;
  CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin->event, end->event),
             "asking for the time between two events");
  return milliseconds * 1e-3;
}

void copy_to_device(Stream stream, void* device, const void* host, size_t bytes) {
  CUDA_CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, native(stream)),
             "copying {} bytes to the device", bytes);
}

void copy_to_host(Stream stream, void* host, const void* device, size_t bytes) {
  CUDA_CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, native(stream)),
             "copying {} bytes from the device", bytes);
}

void copy_on_device(Stream stream, void* to, const void* from, size_t bytes) {
  CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, native(stream)),
             "copying {} bytes on the device", bytes);
}

void fill_zero(Stream stream, void* device, size_t bytes) {
  CUDA_CHECK(cudaMemsetAsync(device, 0, bytes, native(stream)), "filling {} bytes with zero",
             bytes);
}

void launch_native(const char* name, const void* kernel, const Grid& grid, StreamHandle* stream,
                   void** arguments) {
  make_kernels_known();
  CUDA_CHECK(cudaLaunchKernel(kernel, dim3(grid.x, grid.y), dim3(grid.threads), arguments, 0,
                              native(stream)),
             "launching {} with {} x {} blocks of {} threads", name, grid.x, grid.y, grid.threads);
}

}  // namespace sardonyx::ops::cuda
