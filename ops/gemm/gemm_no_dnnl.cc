// A build without oneDNN: products of floats run on Eigen.
#include "ops/gemm/gemm.h"

namespace sardonyx::ops::gemm {

std::optional<Backend> dnnl_backend() { return std::nullopt; }

}  // namespace sardonyx::ops::gemm
