// A Dropout of the training form, decoded once: which samples and elements are drawn. Private to
// ops/dropout; not for *_isa.cc files.
#pragma once

#include <algorithm>

#include "ops/core/kernel.h"
#include "ops/core/random.h"

namespace sardonyx::ops::dropout {

// What is kept is multiplied with it.
inline double scale_of(double ratio) { return ratio < 1 ? 1 / (1 - ratio) : 0; }

struct Drop {
  explicit Drop(const KernelRequest& request)
      : ratio(request.node->get_float("ratio", 0.5)),
        key(static_cast<uint64_t>(request.node->get_int("key", 0))) {
    const std::vector<int64_t> shape = request.in_shape(0);
    const graph::Graph& graph = *request.node->graph();
    const bool by_row = !shape.empty() && (graph.batch_symbol.empty() ||
                                           carries_batch(*request.node, request.node->input(0)));
    rows = by_row ? shape[0] : 1;
    for (size_t i = by_row ? 1 : 0; i < shape.size(); ++i) elements *= shape[i];
  }

  double ratio;
  uint64_t key;
  int64_t rows = 1, elements = 1;

  int64_t chunks() const { return (elements + kRandomChunk - 1) / kRandomChunk; }
  int64_t chunk_size(int64_t chunk) const {
    return std::min(kRandomChunk, elements - chunk * kRandomChunk);
  }
  // Bits below it drop an element; 2^32 drops all.
  uint64_t threshold() const { return static_cast<uint64_t>(ratio * 4294967296.0 + 0.5); }
};

}  // namespace sardonyx::ops::dropout
