// Random numbers of the data side: Philox4x32-10, a counter-based generator (Salmon, Moraes, Dror,
// Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).
//
// A number is a pure function of (seed, purpose, index), so any thread or process can compute any
// of them. Orders and synthetic samples of saved runs depend on these bits: they must never change.
#pragma once

#include <array>
#include <cstdint>

namespace sardonyx::runtime {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

inline PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// What a stream is for; streams of different purposes are independent.
enum class Purpose : uint32_t {
  kOrder = 1,
  kSyntheticPattern = 2,
  kSyntheticNoise = 3,
  kSyntheticTarget = 4,
  kAugment = 5,
};

// 128 random bits: block `index` of the stream (seed, purpose, stream).
inline PhiloxCounter random_block(uint64_t seed, Purpose purpose, uint64_t stream, uint32_t index) {
  return philox({index, static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32),
                 static_cast<uint32_t>(purpose)},
                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// Number `index` (below 2^33) of a stream; two numbers share a block.
inline uint64_t random_u64(uint64_t seed, Purpose purpose, uint64_t stream, uint64_t index) {
  PhiloxCounter block = random_block(seed, purpose, stream, static_cast<uint32_t>(index / 2));
  int half = index % 2 == 0 ? 0 : 2;
  return uint64_t{block[half + 1]} << 32 | block[half];
}

// Below `bound`, by the high half of a product; the bias, bound / 2^64, is far below anything
// observable.
inline uint64_t scale_to(uint64_t bits, uint64_t bound) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * bound >> 64);
}

}  // namespace sardonyx::runtime
