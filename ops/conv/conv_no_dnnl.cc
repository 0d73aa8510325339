// A build without oneDNN: convolutions run on the room's own kernels.
#include "ops/conv/conv.h"

namespace sardonyx::ops::conv {

void register_conv_winograd(KernelRegistry&) {}
void register_conv_dnnl(KernelRegistry&) {}

}  // namespace sardonyx::ops::conv
