// The CUDA devices of this machine, as make_device sees them. cuda_device.cc or, in a build without
// CUDA, no_cuda.cc.
#pragma once

#include <memory>
#include <string>

#include "runtime/devices/device.h"

namespace sardonyx::runtime {

// Throws Error: "cuda:2": this machine has 1 CUDA device; no driver; this build has no CUDA.
std::unique_ptr<Device> make_cuda_device(int index);
// Why there are none; "" when there are. For `sardonyx devices` and for hints.
std::string why_no_cuda();

}  // namespace sardonyx::runtime
