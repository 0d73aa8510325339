// Names of devices: "cpu", "cuda:0".
#include <charconv>

#include "graph/support/error.h"
#include "runtime/devices/cpu_device.h"
#include "runtime/devices/cuda.h"

namespace sardonyx::runtime {

namespace {

// The number behind "cuda:"; "cuda" is cuda:0.
int cuda_index(const std::string& name) {
  if (name == "cuda") return 0;
  const std::string number = name.starts_with("cuda:") ? name.substr(5) : "";
  int index = -1;
  const char* end = number.data() + number.size();
  const auto [stop, error] = std::from_chars(number.data(), end, index);
  if (error != std::errc() || stop != end || index < 0) {
    throw Error("there is no device '{}'; a CUDA device is written cuda:0, cuda:1, ...", name);
  }
  return index;
}

}  // namespace

std::unique_ptr<Device> make_device(const std::string& name, const DeviceThreads& threads) {
  if (name == "cpu") return std::make_unique<CpuDevice>(threads);
  if (name.starts_with("cuda")) return make_cuda_device(cuda_index(name), threads);
  throw Error("there is no device '{}'; known: cpu, cuda:0", name);
}

}  // namespace sardonyx::runtime
