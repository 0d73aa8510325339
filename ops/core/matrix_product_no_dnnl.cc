// A build without oneDNN.
#include "ops/core/matrix_product.h"

namespace sardonyx::ops::matrix {

Multiply<float> dnnl_product() { return nullptr; }

}  // namespace sardonyx::ops::matrix
