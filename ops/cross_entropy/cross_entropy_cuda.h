// What cross_entropy.cu launches. Private to ops/cross_entropy.
//
// A label out of range can't be refused while the device works: where it comes from the host, that
// is done there (OpDef::value_check), else it makes its loss and its gradient NaN.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda.h"

namespace sardonyx::ops::cross_entropy {

// Scores [rows][classes][inner] of `dtype`, their labels [rows][inner] and what each counts.
struct Scored {
  graph::DType dtype = graph::DType::kFloat32;
  int64_t rows = 0, classes = 0, inner = 1;
  const void* labels = nullptr;
  graph::DType label_dtype = graph::DType::kInt64;
  const void* weights = nullptr;  // of the classes; null: all 1
  int has_ignore = 0;
  int64_t ignore = 0;
  double smoothing = 0;
  double* workspace = nullptr;

  int64_t positions() const { return rows * inner; }
  static size_t workspace_bytes();
};

enum class Scores : uint8_t { kAny, kLogProbabilities };
enum class Reduce : uint8_t { kNone, kSum, kMean };

// All but x may be null. `loss`: one per position (kNone) or one.
struct LossOperands {
  Scores scores = Scores::kAny;
  Reduce reduce = Reduce::kSum;
  const void* x = nullptr;
  void *loss = nullptr, *weight = nullptr, *log_prob = nullptr;
};
void launch_loss(cuda::Stream stream, const Scored& scored, const LossOperands& operands);

// dx of the loss of any scores; without log_prob, of that of log-probabilities. `reduce` says what
// dy belongs to.
void launch_gradient(cuda::Stream stream, const Scored& scored, Reduce reduce, const void* dy,
                     const void* log_prob, void* dx);

// Positions whose label is among the k best scores.
void launch_count(cuda::Stream stream, const Scored& scored, int64_t k, const void* x, void* count);

}  // namespace sardonyx::ops::cross_entropy
