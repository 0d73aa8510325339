// The table that random_isa.cc fills and random.cc reads.
#pragma once

#include <cstdint>

namespace sardonyx::ops {

struct RandomLoops {
  void (*chunk)(uint64_t stream, int64_t sample, int64_t chunk, uint32_t* bits);
  void (*chunk_of_lanes)(uint64_t stream, int64_t first_sample, int64_t chunk, uint32_t* bits);
};

namespace baseline {
const RandomLoops& random_loops();
}
namespace avx2 {
const RandomLoops& random_loops();
}
namespace avx512 {
const RandomLoops& random_loops();
}

}  // namespace sardonyx::ops
