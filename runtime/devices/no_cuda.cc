// A build without CUDA.
#include "graph/support/error.h"
#include "runtime/devices/cuda.h"

namespace sardonyx::runtime {

std::string why_no_cuda() { return "this build has no CUDA support"; }

CudaFacts cuda_facts() {
  CudaFacts facts;
  facts.why_not = why_no_cuda();
  return facts;
}

std::unique_ptr<Device> make_cuda_device(int index, const DeviceThreads&) {
  throw Error("device 'cuda:{}': {}; use --devices cpu, or build with the CUDA toolkit installed",
              index, why_no_cuda());
}

DeviceLinks link_cuda_devices(const std::vector<std::unique_ptr<Device>>& devices, LocalGroup&) {
  DeviceLinks linked;
  linked.links.resize(devices.size());
  return linked;
}

}  // namespace sardonyx::runtime
