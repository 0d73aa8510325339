#include "runtime/finite.h"

#include <algorithm>
#include <cmath>

#include "ops/core/kernel.h"

namespace sardonyx::runtime {

bool all_finite(const void* data, const graph::TensorType& type) {
  bool finite = true;
  if (type.dtype != graph::DType::kFloat32 && type.dtype != graph::DType::kFloat64) return true;
  ops::dispatch_float(type.dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(data);
    finite = std::all_of(x, x + type.numel(), [](T value) { return std::isfinite(value); });
  });
  return finite;
}

}  // namespace sardonyx::runtime
