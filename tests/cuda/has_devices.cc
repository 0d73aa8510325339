#include <algorithm>

#include "ops/core/cuda.h"
#include "tests/cuda/on_device.h"

namespace sardonyx::test {

bool has_devices(const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return name == "cpu" || std::stoi(name.substr(name.find(':') + 1)) < ops::cuda::device_count();
  });
}

}  // namespace sardonyx::test
