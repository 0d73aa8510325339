// Operands that can be made again anywhere: ((37 i + 11 seed) mod 17 - 8) / 8 at element i.
#pragma once

#include "tests/support/tensors.h"

namespace sardonyx::test {

inline Tensor wave(const std::vector<int64_t>& shape, int64_t seed) {
  Tensor tensor(DType::kFloat64, shape);
  const auto numbers = tensor.mutable_data<double>();
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<double>((static_cast<int64_t>(i) * 37 + seed * 11) % 17 - 8) / 8;
  }
  return tensor;
}

}  // namespace sardonyx::test
