// The vector loops of the room (float and double). Private to ops/arithmetic.
#pragma once

#include <cstdint>

namespace sardonyx::ops::arithmetic {

enum class Unary : uint8_t { kNeg, kAbs, kSqrt, kReciprocal, kExp, kLog, kSquare, kCount };
enum class Binary : uint8_t { kAdd, kSub, kMul, kDiv, kPow, kMax, kMin, kPRelu, kAbsGrad, kCount };
// Operands as on the plates: (x, e, dy), (x, slope, dy), (dy, x, other).
enum class Ternary : uint8_t {
  kPowGradBase,
  kPowGradExponent,
  kPReluGrad,
  kMaxGrad,
  kMinGrad,
  kCount,
};

// rows x cols elements of y, one behind the other; operand strides in elements, col strides 0 or 1.
struct Block {
  int64_t rows, cols;
  int64_t a_row, a_col, b_row, b_col;
  int64_t c_row = 0, c_col = 0;  // of the third operand, where there is one
};

template <class T>
struct Loops {
  // y may be x.
  void (*unary[static_cast<int>(Unary::kCount)])(const T* x, T* y, int64_t n);
  // y may be a or b where that is not broadcast.
  void (*binary[static_cast<int>(Binary::kCount)])(const Block& block, const T* a, const T* b,
                                                   T* y);
  // Likewise with three.
  void (*ternary[static_cast<int>(Ternary::kCount)])(const Block& block, const T* a, const T* b,
                                                     const T* c, T* y);
  // y[i] = scale * (x[0][i] + ... + x[count - 1][i]), added in this order. y may be any x[k].
  void (*sum)(const T* const* x, int64_t count, int64_t begin, int64_t end, T scale, T* y);
};

// The copies of arithmetic_isa.cc.
namespace baseline {
template <class T>
const Loops<T>& loops();
}
namespace avx2 {
template <class T>
const Loops<T>& loops();
}
namespace avx512 {
template <class T>
const Loops<T>& loops();
}

}  // namespace sardonyx::ops::arithmetic
