#include "ops/core/random.h"

#include "ops/core/isa.h"
#include "ops/core/random_loops.h"

namespace sardonyx::ops {

namespace {

const RandomLoops& loops() {
  static const RandomLoops& best =
      best_copy(baseline::random_loops(), avx2::random_loops(), avx512::random_loops());
  return best;
}

// The finaliser of SplitMix64.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t stream_key(uint64_t seed, uint64_t step, uint64_t key) {
  constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
  return mix(mix(mix(seed + kGolden) ^ (step + kGolden)) ^ (key + kGolden));
}

int64_t name_key(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<int64_t>(hash);
}

uint32_t random_bits(uint64_t stream, int64_t sample, int64_t element) {
  const int64_t within = element % kRandomChunk;
  const uint64_t counter =
      static_cast<uint64_t>(element / kRandomChunk * kRandomLanes + within % kRandomLanes);
  const auto index = static_cast<uint64_t>(sample);
  uint32_t word[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                      static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32)};
  uint32_t key[2] = {static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53u} * word[0], b = uint64_t{0xcd9e8d57u} * word[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(b >> 32) ^ word[1] ^ key[0], static_cast<uint32_t>(b),
        static_cast<uint32_t>(a >> 32) ^ word[3] ^ key[1], static_cast<uint32_t>(a)};
    for (int i = 0; i < 4; ++i) word[i] = next[i];
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return word[within / kRandomLanes];
}

void random_chunk(uint64_t stream, int64_t sample, int64_t chunk, uint32_t* bits) {
  loops().chunk(stream, sample, chunk, bits);
}

void random_chunk_of_lanes(uint64_t stream, int64_t first_sample, int64_t chunk, uint32_t* bits) {
  loops().chunk_of_lanes(stream, first_sample, chunk, bits);
}

}  // namespace sardonyx::ops
