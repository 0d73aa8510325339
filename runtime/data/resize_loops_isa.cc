// A pixel of three bytes is handled as four lanes; what the fourth one writes, the next pixel
// overwrites. Whole numbers, so every copy gives the same bytes.
#include "runtime/data/resize_loops.h"

namespace sardonyx::runtime::SARDONYX_ISA {

namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

typedef uint8_t Bytes4 __attribute__((vector_size(4)));
typedef uint8_t Bytes16 __attribute__((vector_size(16)));
typedef int32_t Sums4 __attribute__((vector_size(16)));
typedef int32_t Sums16 __attribute__((vector_size(64)));

template <class Bytes, class Sums>
[[gnu::always_inline]] inline void add(Sums& sums, const uint8_t* from, int32_t weight) {
  Bytes bytes;
  __builtin_memcpy(&bytes, from, sizeof bytes);
  sums += __builtin_convertvector(bytes, Sums) * weight;
}

// Rounded weights may come to a little more than 1 in all.
template <class Bytes, class Sums>
[[gnu::always_inline]] inline void store(const Sums& sums, uint8_t* to) {
  Sums values = sums >> kWeightBits;
  values = values > 255 ? Sums{} + 255 : values;
  const Bytes bytes = __builtin_convertvector(values, Bytes);
  __builtin_memcpy(to, &bytes, sizeof bytes);
}

uint8_t to_byte(int32_t sum) {
  sum >>= kWeightBits;
  return static_cast<uint8_t>(sum > 255 ? 255 : sum);
}

void across1(const uint8_t* row, const Window* windows, size_t count, const int32_t* weights,
             uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* pixel = row + windows[i].begin;
    const int32_t* weight = weights + windows[i].weights;
    int32_t sum = kHalf;
    for (int64_t x = 0; x < windows[i].count; ++x) sum += pixel[x] * weight[x];
    out[i] = to_byte(sum);
  }
}

void across3(const uint8_t* row, const Window* windows, size_t count, const int32_t* weights,
             uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* pixel = row + windows[i].begin * 3;
    const int32_t* weight = weights + windows[i].weights;
    Sums4 sums = Sums4{} + kHalf;
    for (int64_t x = 0; x < windows[i].count; ++x) add<Bytes4>(sums, pixel + 3 * x, weight[x]);
    store<Bytes4>(sums, out + 3 * i);
  }
}

void down(const uint8_t* rows, size_t length, int64_t count, const int32_t* weights, uint8_t* out) {
  size_t i = 0;
  for (; i + 16 <= length; i += 16) {
    Sums16 sums = Sums16{} + kHalf;
    const uint8_t* from = rows + i;
    for (int64_t y = 0; y < count; ++y, from += length) add<Bytes16>(sums, from, weights[y]);
    store<Bytes16>(sums, out + i);
  }
  for (; i < length; ++i) {
    int32_t sum = kHalf;
    const uint8_t* from = rows + i;
    for (int64_t y = 0; y < count; ++y, from += length) sum += *from * weights[y];
    out[i] = to_byte(sum);
  }
}

constexpr ResizeLoops kLoops = {across1, across3, down};

}  // namespace

const ResizeLoops& resize_loops() { return kLoops; }

}  // namespace sardonyx::runtime::SARDONYX_ISA
