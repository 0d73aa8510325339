// Arithmetic on sizes that a file gives: what no tensor could have throws instead of wrapping
// around. The sizes of one value need no care among each other: infer_node lets no value through
// whose known sizes (those of 0 aside) multiply to more than graph::kMaxElements.
#pragma once

#include <cstdint>

namespace sardonyx::ops {

// Throw Error "4 + 9223372036854775807 is beyond the largest size, 2^62" when the result lies
// outside of [-2^62, 2^62].
int64_t checked_sum(int64_t a, int64_t b);
int64_t checked_product(int64_t a, int64_t b);

}  // namespace sardonyx::ops
