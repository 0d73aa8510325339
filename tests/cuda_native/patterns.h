// Operation graphs of several operations around a convolution that cuDNN may run as one: what
// ops/conv/cudnn_patterns.def has an entry for. Channels last; sums and statistics in float.
#pragma once

#include <string>
#include <vector>

#include "ops/core/cuda_native/cudnn_convolution.h"

namespace sardonyx::testing {

struct Pattern {
  const char* name;  // as in the table
  ops::cudnn::Pass pass;
  std::vector<ops::cudnn::Descriptor> (*operations)(const ops::cudnn::ConvolutionDesc& desc);
};
const std::vector<Pattern>& patterns();

}  // namespace sardonyx::testing
