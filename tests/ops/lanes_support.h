// What the tests of the lane kernels share: the instruction sets to try, seeded values, poisoned
// blocks, comparisons.
//
// Kernels get float or double values; the references run in double on the same values.
#pragma once

#include "ops/core/lanes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace sardonyx::ops::lanes {

using Values = std::vector<double>;

template <typename T>
std::vector<const LaneKernels<T>*> all_kernels() {
  std::vector<const LaneKernels<T>*> all;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (supported(isa)) all.push_back(&lane_kernels<T>(isa));
  }
  return all;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  // Multiples of 1/64 in [-1, 1], so that ties happen and floats hold them.
  double value() { return between(-64, 64) / 64.0; }

 private:
  std::mt19937 engine_;
};

template <typename T>
std::vector<T> random_values(Random& random, size_t count) {
  std::vector<T> values(count);
  for (T& v : values) v = static_cast<T>(random.value());
  return values;
}

// [count][16] with NaN in the lanes >= valid.
template <typename T>
std::vector<T> random_block(Random& random, size_t count, int valid) {
  std::vector<T> values = random_values<T>(random, count * kLanes);
  for (size_t i = 0; i < values.size(); ++i) {
    if (static_cast<int>(i % kLanes) >= valid) values[i] = std::numeric_limits<T>::quiet_NaN();
  }
  return values;
}

template <typename T>
double tolerance(int terms) {
  return sizeof(T) == 4 ? 2e-7 * (4 + terms) : 1e-13;
}

// Compares the lanes < valid of a block.
template <typename T>
void expect_block(const std::vector<T>& got, const Values& want, int valid, double bound,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (static_cast<int>(i % kLanes) >= valid) continue;
    ASSERT_LE(std::abs(got[i] - want[i]), bound)
        << what << " at " << i << ": " << got[i] << " for " << want[i];
  }
}

template <typename T>
void expect_all(const std::vector<T>& got, const Values& want, double bound,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - want[i]), bound)
        << what << " at " << i << ": " << got[i] << " for " << want[i];
  }
}

inline int out_size(int in, int pads, int taps, int dilation, int stride) {
  return (in + pads - (taps - 1) * dilation - 1) / stride + 1;
}

}  // namespace sardonyx::ops::lanes
