// The two passes of resize_crop.h over one row: the table that resize_loops_isa.cc fills.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sardonyx::runtime {

// Weights are whole numbers in units of 2^-kWeightBits, which leaves room for the sum of bytes
// times all of them in 32 bits.
constexpr int kWeightBits = 22;

// Which pixels (or rows) make up one of the result: `count` from `begin` on, the first weight of
// them being number `weights`.
struct Window {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t weights = 0;
};

struct ResizeLoops {
  // A row of pixels of one or three bytes to one pixel per window. That of three may read and write
  // one byte behind the row.
  void (*across1)(const uint8_t* row, const Window* windows, size_t count, const int32_t* weights,
                  uint8_t* out);
  void (*across3)(const uint8_t* row, const Window* windows, size_t count, const int32_t* weights,
                  uint8_t* out);
  // `count` rows of `length` bytes, one below the other, to one row.
  void (*down)(const uint8_t* rows, size_t length, int64_t count, const int32_t* weights,
               uint8_t* out);
};

namespace baseline {
const ResizeLoops& resize_loops();
}
namespace avx2 {
const ResizeLoops& resize_loops();
}
namespace avx512 {
const ResizeLoops& resize_loops();
}

}  // namespace sardonyx::runtime
