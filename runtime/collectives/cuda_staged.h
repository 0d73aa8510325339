// A replica on a CUDA device among others that aren't on the same one (the CPU, another GPU): its
// terms travel through pinned host memory and meet those of the others in a LocalGroup.
#pragma once

#include <memory>

#include "runtime/collectives/device_link.h"
#include "runtime/devices/cuda_device.h"

namespace sardonyx::runtime {

// Device and meeting outlive it.
std::unique_ptr<DeviceLink> stage_through_host(CudaDevice& device, ops::Communicator& meeting);

}  // namespace sardonyx::runtime
