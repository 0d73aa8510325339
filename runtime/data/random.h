// Random numbers of the data side, over the counter-based generator of ops/core/random.h.
//
// A number is a pure function of (seed, epoch, purpose, index, position), so any thread or process
// can compute any of them. Orders and samples of saved runs depend on it: it must never change.
#pragma once

#include <array>
#include <cstdint>

#include "ops/core/random.h"

namespace sardonyx::runtime {

// What a stream is for; streams of different purposes are independent.
enum class Purpose : uint64_t {
  kOrder = 1,
  kSyntheticPattern = 2,
  kSyntheticNoise = 3,
  kSyntheticTarget = 4,
  kAugment = 5,
};

inline uint64_t data_stream(uint64_t seed, Purpose purpose, int64_t epoch) {
  return ops::stream_key(seed, static_cast<uint64_t>(epoch), static_cast<uint64_t>(purpose));
}

// The numbers of one index (a sample) of a stream, one after the other.
class RandomSequence {
 public:
  RandomSequence(uint64_t stream, int64_t index) : stream_(stream), index_(index) {}

  uint32_t next() {
    if (used_ == bits_.size()) {
      ops::random_chunk(stream_, index_, chunk_++, bits_.data());
      used_ = 0;
    }
    return bits_[used_++];
  }
  uint64_t next64() {
    uint64_t low = next();
    return uint64_t{next()} << 32 | low;
  }
  // In [0, bound), by the high half of a product; the bias, bound / 2^64, is beyond observation.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(next64()) * bound >> 64);
  }

 private:
  uint64_t stream_;
  int64_t index_;
  int64_t chunk_ = 0;
  std::array<uint32_t, ops::kRandomChunk> bits_;
  size_t used_ = ops::kRandomChunk;
};

}  // namespace sardonyx::runtime
