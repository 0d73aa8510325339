// A build without oneDNN.
#include "ops/core/dnnl.h"

namespace sardonyx::ops::dnnl {

std::string version() { return ""; }

}  // namespace sardonyx::ops::dnnl
