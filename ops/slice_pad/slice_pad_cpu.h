// How the kernels of the room are registered: a reference, a fast one, and the same in lanes.
// `types`: what all of them refuse; `in_lanes`: what the last refuses beside.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "ops/core/refusals.h"
#include "ops/slice_pad/slice_pad.h"

namespace sardonyx::ops {

template <class Fast>
std::unique_ptr<Kernel> fast_kernel(const KernelRequest& request) {
  return std::make_unique<Fast>(request);
}

void add_window_kernels(KernelRegistry& kernels, const std::string& domain, const std::string& op,
                        const std::string& name, KernelFunction reference,
                        const std::function<std::unique_ptr<Kernel>(const KernelRequest&)>& fast,
                        Refusal types, Refusal in_lanes);

void register_slice_cpu(KernelRegistry& kernels);
void register_pad_cpu(KernelRegistry& kernels);

}  // namespace sardonyx::ops
