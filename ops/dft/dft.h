// The sizes of a transform, decoded once. Private to ops/dft.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/op.h"

namespace sardonyx::ops::dft {

enum class Direction : uint8_t { kForward, kInverse };
// Which side holds half of a spectrum, whose other half is its mirror image.
enum class Half : uint8_t { kNone, kOutput, kInput };

Direction direction_of(const Node& node);
Half half_of(const Node& node);

// Numbers of x and y along the axis, and of the transform between them.
struct Sizes {
  int64_t in = 0, length = 0, out = 0;
};
// `asked`: the input dft_length; -1: none.
Sizes sizes_of(const Node& node, int64_t in, int64_t asked);

}  // namespace sardonyx::ops::dft
