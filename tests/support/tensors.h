// Tensors for tests: made from short lists or seeded random numbers, and compared with a message
// that names the first element that differs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace sardonyx::test {

using graph::DType;
using graph::Tensor;

// |got - want| <= atol + rtol |want|; NaN equals NaN, infinities must match exactly.
struct Tolerance {
  double rtol = 1e-5;
  double atol = 1e-6;
};

Tensor floats(std::vector<int64_t> shape, const std::vector<float>& values);
Tensor doubles(std::vector<int64_t> shape, const std::vector<double>& values);
Tensor ints(std::vector<int64_t> shape, const std::vector<int64_t>& values);  // int64
Tensor bools(std::vector<int64_t> shape, const std::vector<bool>& values);

// Uniform in [low, high]. The values are exactly representable in float32 whatever `dtype`, so that
// a float and a double run start from the same numbers. Integers: low, low + 1, ..., high.
Tensor random_tensor(DType dtype, std::vector<int64_t> shape, double low = -1, double high = 1,
                     uint64_t seed = 1);

// What differs first ("element 5 [1,2]: got 3, expected 4 (2 of 6 elements differ)"), or nullopt.
// Shapes must be equal; element types may differ.
std::optional<std::string> difference(const Tensor& got, const Tensor& want, Tolerance tolerance);

// Stored form of a plain tensor with axis 0 in lanes, and back. Padding lanes are poisoned (NaN,
// 0x7f bytes for integers).
Tensor to_lanes(const Tensor& plain, int64_t lanes);
Tensor from_lanes(const Tensor& stored, const std::vector<int64_t>& shape, int64_t lanes);

// Stored form of a plain tensor whose axes lie in this order, outermost first (empty: as they are),
// and back. The shape of both is that of the plain tensor.
Tensor to_order(const Tensor& plain, const std::vector<int32_t>& order);
Tensor from_order(const Tensor& stored, const std::vector<int32_t>& order);

// Rows [begin, end) of axis 0, and `count` rows taken cyclically from all rows.
Tensor rows_of(const Tensor& tensor, int64_t begin, int64_t end);
Tensor repeat_rows(const Tensor& tensor, int64_t count);

}  // namespace sardonyx::test
