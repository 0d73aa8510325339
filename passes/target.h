// The device as the passes see it: facts for choosing blocks, layouts and kernels. runtime/devices
// implement it; NullTarget lets pass tests run without a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "ops/core/kernel.h"

namespace sardonyx::passes {

class Target {
 public:
  virtual ~Target() = default;
  virtual ops::Device device() const = 0;
  virtual int threads() const = 0;
  virtual std::string name() const = 0;   // "cpu (avx512, 2 threads)"
  virtual size_t l2_bytes() const = 0;    // private cache of one core
  virtual int vector_floats() const = 0;  // float lanes of the widest vector unit
  // Those for kernels of the CPU.
  virtual int host_threads() const { return threads(); }
  // What kernels of a CUDA device are planned with; null: it is the CPU.
  virtual ops::CudaLibraries* libraries() const { return nullptr; }
};

class NullTarget final : public Target {
 public:
  explicit NullTarget(int threads = 1) : threads_(threads) {}
  ops::Device device() const override { return ops::Device::kCpu; }
  int threads() const override { return threads_; }
  std::string name() const override { return "null"; }
  size_t l2_bytes() const override { return size_t{1} << 20; }
  int vector_floats() const override { return 16; }

 private:
  int threads_;
};

}  // namespace sardonyx::passes
