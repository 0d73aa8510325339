// Numbers in device memory, for tests that launch something themselves. Must outlive what is
// enqueued.
#pragma once

#include <vector>

#include "graph/support/bytes.h"
#include "ops/core/cuda.h"

namespace sardonyx::test {

template <class T>
class DeviceArray {
 public:
  DeviceArray(ops::cuda::Stream stream, const std::vector<T>& values)
      : stream_(stream), count_(values.size()), device_(bytes()), host_(bytes()) {
    if (count_ == 0) return;
    copy_bytes(host_.data(), values.data(), bytes());
    ops::cuda::copy_to_device(stream_, device_.data(), host_.data(), bytes());
  }
  T* data() const { return reinterpret_cast<T*>(device_.data()); }

  // Waits for the stream.
  std::vector<T> values() const {
    std::vector<T> result(count_);
    if (count_ == 0) return result;
    ops::cuda::copy_to_host(stream_, host_.data(), device_.data(), bytes());
    ops::cuda::synchronize(stream_);
    copy_bytes(result.data(), host_.data(), bytes());
    return result;
  }

 private:
  size_t bytes() const { return count_ * sizeof(T); }

  ops::cuda::Stream stream_;
  size_t count_;
  ops::cuda::Memory device_;
  ops::cuda::PinnedMemory host_;
};

}  // namespace sardonyx::test
