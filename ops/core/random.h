// A counter-based generator: the number for (seed, step, key, sample, element) is a function of
// these and of nothing else, so masks don't depend on the cut of the batch, on threads or layout.
//
// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, 2011).
// Elements of a sample come in chunks of 64: element 64 c + 16 w + i is word w of the block with
// counter 16 c + i, so that neighbouring elements and neighbouring samples are neighbouring lanes.
#pragma once

#include <cstdint>
#include <string_view>

namespace sardonyx::ops {

inline constexpr int64_t kRandomChunk = 64;
inline constexpr int kRandomLanes = 16;

// The 64-bit key of a stream, from the run's seed, the step and the stream's own key.
uint64_t stream_key(uint64_t seed, uint64_t step, uint64_t key);
// The stream's own key from a name; never changes, since checkpoints rely on it.
int64_t name_key(std::string_view name);

// 32 random bits.
uint32_t random_bits(uint64_t stream, int64_t sample, int64_t element);
// The bits of elements [64 chunk, 64 chunk + 64) of one sample.
void random_chunk(uint64_t stream, int64_t sample, int64_t chunk, uint32_t* bits);
// The same elements of samples first .. first + 15: bits[element * 16 + lane].
void random_chunk_of_lanes(uint64_t stream, int64_t first_sample, int64_t chunk, uint32_t* bits);

}  // namespace sardonyx::ops
