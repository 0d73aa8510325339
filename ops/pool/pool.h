// PoolGeometry: shapes and attributes of a pooling operator, decoded once; the same for the forward
// operators and their gradients. Private to the room.
#pragma once

#include <cmath>
#include <cstdint>
#include "ops/core/kernel.h"
#include "ops/core/window.h"

namespace sardonyx::ops::pool {

// Whether cells of the declared pads count in the divisor of an average. Cells that only ceil_mode
// adds never do.
enum class PadCells : uint8_t { kLeftOut, kCounted };

struct PoolGeometry {
  int64_t batch = 0, channels = 0;
  Window window;
  PadCells pad_cells = PadCells::kLeftOut;

  int64_t planes() const { return batch * channels; }
  // Cells that an average divides by, along one axis, for output coordinate `out`.
  int64_t counted(int axis, int64_t out) const;
  // The same for a cell of y.
  int64_t divisor(int64_t cell) const;

  // x and y are the types of the forward operator's operands, wherever they stand.
  static PoolGeometry of(const Node& node, const TensorType& x, const TensorType& y);
  static PoolGeometry forward(const KernelRequest& request);   // x in 0, y out 0
  static PoolGeometry max_grad(const KernelRequest& request);  // x in 0, dy in 1
  static PoolGeometry avg_grad(const KernelRequest& request);  // dy in 0, dx out 0
  static PoolGeometry lp_grad(const KernelRequest& request);   // x in 0, y in 1
};

// The numbers of LpPool: y = root(sum of term(x)), dx = slope(x) * sum of share(y, dy). Where y is
// 0, so is the gradient; that of the 1-norm is 0 where x is.
struct LpNorm {
  double p = 2;

  static LpNorm of(const Node& node);

  template <class T>
  T term(T x) const {
    return p == 1 ? std::abs(x) : p == 2 ? x * x : std::pow(std::abs(x), static_cast<T>(p));
  }
  template <class T>
  T root(T sum) const {
    return p == 1 ? sum : p == 2 ? std::sqrt(sum) : std::pow(sum, static_cast<T>(1 / p));
  }
  template <class T>
  T slope(T x) const {
    if (p == 2) return x;
    return x == 0 ? T{0} : std::copysign(std::pow(std::abs(x), static_cast<T>(p - 1)), x);
  }
  template <class T>
  T share(T y, T dy) const {
    if (y == 0) return T{0};
    return p == 2 ? dy / y : dy / std::pow(y, static_cast<T>(p - 1));
  }
};

Refusal finding_indices();  // the second output of MaxPool

void register_pool_plain(KernelRegistry& kernels);
void register_pool_lanes(KernelRegistry& kernels);

}  // namespace sardonyx::ops::pool
