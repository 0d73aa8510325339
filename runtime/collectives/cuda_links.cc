// Which way the sums of CUDA replicas take.
#include "runtime/collectives/cuda_shared.h"
#include "runtime/collectives/cuda_staged.h"
#include "runtime/devices/cuda.h"

namespace sardonyx::runtime {

std::vector<std::unique_ptr<DeviceLink>> link_cuda_devices(
    const std::vector<std::unique_ptr<Device>>& devices, LocalGroup& group) {
  std::vector<CudaDevice*> cuda;
  bool together = true;  // all replicas, on one device
  for (const auto& device : devices) {
    if (device->device() == ops::Device::kCuda)
      cuda.push_back(static_cast<CudaDevice*>(device.get()));
    together = together && device->name() == devices[0]->name();
  }
  if (together && cuda.size() == devices.size()) return share_cuda_device(cuda, group);
  std::vector<std::unique_ptr<DeviceLink>> links(devices.size());
  for (size_t r = 0; r < devices.size(); ++r) {
    if (devices[r]->device() != ops::Device::kCuda) continue;
    links[r] =
        stage_through_host(static_cast<CudaDevice&>(*devices[r]), group.rank(static_cast<int>(r)));
  }
  return links;
}

}  // namespace sardonyx::runtime
