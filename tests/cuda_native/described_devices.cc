#include "tests/cuda_native/described_devices.h"

#include <fmt/core.h>

#include "graph/support/error.h"
#include "ops/core/cuda_native/cudnn_library.h"

namespace sardonyx::testing {

namespace {

using ops::cudnn::ConvolutionShape;

// Facts that plans may depend on; the rest is the same for both.
struct Facts {
  const char* name;
  int major, processors;
  int64_t shared_bytes, memory_bytes, l2_bytes, clock_khz, memory_clock_khz;
};

std::string json_of(const Facts& facts) {
  return fmt::format(
      R"({{"version": 1, "deviceId": 0, "cudaDeviceId": 0, "driverVer": 13000, "cudaDriverVer": 13000,
"runtimeVer": 13000, "deviceVer": {0}00, "ccMajor": {0}, "ccMinor": 0, "smVersion": {0}00,
"multiProcessorCount": {1}, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": {2},
"reservedSharedMemoryPerBlock": 1024, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
"maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "warpSize": 32,
"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "pciDeviceId": 0,
"isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": {3}, "memClockRateKHz": {4},
"l2CacheSize": {5}, "totalGlobalMem": {6}, "deviceName": "{7}"}})",
      facts.major, facts.processors, facts.shared_bytes, facts.clock_khz, facts.memory_clock_khz,
      facts.l2_bytes, facts.memory_bytes, facts.name);
}

struct Square {
  int64_t size, kernel, stride = 1, pad = 0;
  int64_t out() const { return (size + 2 * pad - kernel) / stride + 1; }
};

ConvolutionShape shape_of(int64_t n, int64_t c, int64_t k, const Square& square) {
  ConvolutionShape shape;
  shape.n = n;
  shape.c = c;
  shape.k = k;
  shape.in = {square.size, square.size};
  shape.kernel = {square.kernel, square.kernel};
  shape.out = {square.out(), square.out()};
  shape.pads_begin = shape.pads_end = {square.pad, square.pad};
  shape.strides = {square.stride, square.stride};
  shape.dilations = {1, 1};
  return shape;
}

// The four stages; `size` is what the first gets.
void add_stages(std::vector<WorkloadConvolution>& list, const std::string& workload, int64_t n,
                int64_t size) {
  list.push_back({workload + " layer1", shape_of(n, 64, 64, {size, 3, 1, 1})});
  for (int64_t stage = 2, c = 64; stage <= 4; ++stage, c *= 2) {
    const std::string layer = fmt::format("{} layer{}", workload, stage);
    const Square first{size, 3, 2, 1};
    list.push_back({layer + ".0.conv1", shape_of(n, c, 2 * c, first)});
    list.push_back({layer + ".0.downsample", shape_of(n, c, 2 * c, {size, 1, 2, 0})});
    size = first.out();
    list.push_back({layer, shape_of(n, 2 * c, 2 * c, {size, 3, 1, 1})});
  }
}

}  // namespace

const std::vector<DescribedDevice>& described_devices() {
  static const std::vector<DescribedDevice> devices = {
      {"sm_80", json_of({"NVIDIA A100-SXM4-80GB", 8, 108, 166912, 85'000'000'000, 41943040, 1410000,
                         1593000})},
      {"sm_90",
       json_of({"NVIDIA H200", 9, 132, 232448, 150'000'000'000, 62914560, 1980000, 3201000})}};
  return devices;
}

const std::vector<WorkloadConvolution>& workload_convolutions() {
  static const std::vector<WorkloadConvolution> all = [] {
    std::vector<WorkloadConvolution> list = {
        {"W1 conv1", shape_of(256, 1, 20, {28, 3})},
        {"W1 conv2", shape_of(256, 20, 50, {13, 5})},
        {"W2 conv1", shape_of(256, 1, 64, {28, 3, 1, 1})},
    };
    add_stages(list, "W2", 256, 28);
    list.push_back({"W3 conv1", shape_of(64, 3, 64, {32, 7, 2, 3})});
    add_stages(list, "W3", 64, 8);
    list.push_back({"W4 conv1", shape_of(16, 3, 64, {224, 7, 2, 3})});
    add_stages(list, "W4", 16, 56);
    return list;
  }();
  return all;
}

std::string why_no_cudnn() {
  try {
    ops::cudnn::CudnnLibrary::get();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace sardonyx::testing
