// *** Read this first ***: what happens to a graph, in order. Each line says why it stands where it
// stands.
#pragma once

#include "passes/pass_manager.h"

namespace sardonyx::passes {

// From the imported graph to typed, canonical, bound nodes in the form of the mode; parameters are
// marked.
const Pipeline& preparation_pipeline();
// The whole training step: preparation, loss, backward, accumulation, update.
const Pipeline& training_pipeline();
// Forward in evaluation form, with the loss and the number of correct rows when labels are given.
const Pipeline& evaluation_pipeline();
// Forward and gradients of chosen outputs with respect to chosen values; no loss, no update.
const Pipeline& gradient_pipeline();

}  // namespace sardonyx::passes
