// The CUDA devices of this machine, as make_device sees them. cuda_device.cc or, in a build without
// CUDA, no_cuda.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/collectives/device_link.h"
#include "runtime/collectives/local.h"
#include "runtime/devices/device.h"

namespace sardonyx::runtime {

// Throws Error: "cuda:2": this machine has 1 CUDA device; no driver; this build has no CUDA.
std::unique_ptr<Device> make_cuda_device(int index, const DeviceThreads& host_threads = 1);
// How the replicas on CUDA devices take part in the sums of `group`: in device memory where all are
// on one device, by NCCL where each has its own, through host memory else. Devices and group
// outlive them.
DeviceLinks link_cuda_devices(const std::vector<std::unique_ptr<Device>>& devices,
                              LocalGroup& group);
// Why there are none; "" when there are. For `sardonyx env` and for hints.
std::string why_no_cuda();

// What `sardonyx env` says of CUDA.
struct CudaFacts {
  bool built = false;           // whether this build has it at all
  std::string runtime, driver;  // "13.0"; "" where there is none
  std::string why_not;          // as why_no_cuda()
  // "cuDNN" and so on with its version, or in `missing` the reason why it can't be loaded.
  struct Library {
    std::string name, version, missing;
  };
  std::vector<Library> libraries;
  std::vector<std::string> devices;  // "cuda:0 (NVIDIA H200, sm_90)"
};
CudaFacts cuda_facts();

}  // namespace sardonyx::runtime
