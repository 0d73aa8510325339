// Large host memory: mapped once, aligned to and advised for huge pages. A first touch of a small
// page costs microseconds on some machines; a step must never pay it.
#pragma once

#include <cstddef>

namespace sardonyx::runtime {

class HugeMemory {
 public:
  HugeMemory() = default;
  // Zero-filled on first touch. Throws Error (bytes asked for, what to do) when the system refuses.
  explicit HugeMemory(size_t bytes);
  ~HugeMemory();
  HugeMemory(HugeMemory&& other) noexcept;
  HugeMemory& operator=(HugeMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace sardonyx::runtime
