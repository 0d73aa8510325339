// Which way the sums of CUDA replicas take.
#include <set>

#include "graph/support/error.h"
#include "runtime/collectives/cuda_nccl.h"
#include "runtime/collectives/cuda_shared.h"
#include "runtime/collectives/cuda_staged.h"
#include "runtime/collectives/nccl.h"
#include "runtime/devices/cuda.h"

namespace sardonyx::runtime {

namespace {

// "" when it can be loaded; a line.
std::string why_no_nccl() {
  try {
    nccl::version();
    return "";
  } catch (const Error& error) {
    const std::string reason = error.what();
    return reason.substr(0, reason.find('\n'));
  }
}

}  // namespace

DeviceLinks link_cuda_devices(const std::vector<std::unique_ptr<Device>>& devices,
                              LocalGroup& group) {
  std::vector<CudaDevice*> cuda;
  std::set<std::string> names;
  for (const auto& device : devices) {
    names.insert(device->name());
    if (device->device() == ops::Device::kCuda)
      cuda.push_back(static_cast<CudaDevice*>(device.get()));
  }
  DeviceLinks linked;
  if (cuda.size() == devices.size()) {
    if (names.size() == 1) return {share_cuda_device(cuda, group)};
    const bool one_each = names.size() == devices.size();
    const std::string missing = one_each ? why_no_nccl() : "NCCL takes one replica per device";
    if (missing.empty()) return {link_by_nccl(cuda, group)};
    linked.notice = fmt::format(
        "sums between the devices go through host memory, which takes longer: {}", missing);
  }
  linked.links.resize(devices.size());
  for (size_t r = 0; r < devices.size(); ++r) {
    if (devices[r]->device() != ops::Device::kCuda) continue;
    linked.links[r] =
        stage_through_host(static_cast<CudaDevice&>(*devices[r]), group.rank(static_cast<int>(r)));
  }
  return linked;
}

}  // namespace sardonyx::runtime
