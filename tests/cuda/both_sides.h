// Numbers on both sides of a copy: pinned memory and as much on the device.
#pragma once

#include <algorithm>
#include <vector>

#include "ops/core/cuda.h"

namespace sardonyx::host_cuda {

template <class T>
class Both {
 public:
  explicit Both(size_t count)
      : count_(count), host_(count * sizeof(T)), device_(count * sizeof(T)) {}
  Both(ops::cuda::Stream stream, const std::vector<T>& values) : Both(values.size()) {
    std::copy(values.begin(), values.end(), host());
    ops::cuda::copy_to_device(stream, device(), host(), bytes());
    ops::cuda::synchronize(stream);
  }
  T* host() const { return reinterpret_cast<T*>(host_.data()); }
  T* device() const { return reinterpret_cast<T*>(device_.data()); }
  size_t bytes() const { return count_ * sizeof(T); }
  std::vector<T> read(ops::cuda::Stream stream) const {
    ops::cuda::copy_to_host(stream, host(), device(), bytes());
    ops::cuda::synchronize(stream);
    return std::vector<T>(host(), host() + count_);
  }

 private:
  size_t count_;
  ops::cuda::PinnedMemory host_;
  ops::cuda::Memory device_;
};

}  // namespace sardonyx::host_cuda
