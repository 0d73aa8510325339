// The gradient rule that SoftmaxCrossEntropyLoss and CrossEntropyLoss share.
#pragma once

#include "ops/core/gradient.h"

namespace sardonyx::ops::cross_entropy {

// Sets the gradient of input 0 by CrossEntropyGrad with `attributes` (and LogSoftmaxGrad, when a
// gradient reaches the log-probabilities at output `log_prob_slot`). Adds that output to the
// forward node when it was left out.
void softmax_loss_gradient(GradientContext& g, int log_prob_slot, graph::Attributes attributes);

}  // namespace sardonyx::ops::cross_entropy
