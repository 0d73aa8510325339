// Micro-batches of one sample, which a normalisation over the batch can't take alone.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/batch_cut.h"

namespace sardonyx::runtime {

class Session;

// When some of these global batches would be cut into one and the model needs two rows at least:
// the cut joins them from now on, the session gets a notice, and true is returned. A model whose
// file demands its rows keeps them.
bool join_singles(Session& session, const std::vector<int64_t>& batches, CutOptions& cut);

}  // namespace sardonyx::runtime
