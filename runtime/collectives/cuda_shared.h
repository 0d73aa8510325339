// Sums of replicas that share one CUDA device, in its memory. (NCCL refuses two ranks on one GPU.)
//
// The ranks meet in a LocalGroup, with one number per sum, to know where the others' memory is and
// which event it waits for; so a rank that fails, leaves or disagrees ends the others as it does on
// the CPU. Then each enqueues its own slice on a stream of its own, and learns when all have.
// Nobody waits for the device.
#pragma once

#include <memory>
#include <vector>

#include "runtime/collectives/device_link.h"
#include "runtime/collectives/local.h"
#include "runtime/devices/cuda_device.h"

namespace sardonyx::runtime {

// One communicator per device, in rank order. Devices and group outlive them.
std::vector<std::unique_ptr<DeviceLink>> share_cuda_device(const std::vector<CudaDevice*>& devices,
                                                           LocalGroup& group);

}  // namespace sardonyx::runtime
