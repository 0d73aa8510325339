// How matrix products and convolutions of float data are computed.
#pragma once

#include <cstdint>

namespace sardonyx::ops {

// kTf32: products of 10-bit mantissas, added up in float (tensor cores). Data of other types are
// computed as they are.
enum class ProductMath : uint8_t { kFloat32, kTf32 };

}  // namespace sardonyx::ops
