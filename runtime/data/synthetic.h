// Samples without files: for benchmarks, for tests and for trying a model before its data is there.
//
// A sample is a pattern of its class plus noise, so a loss falls; it is computed when asked for
// (uint8, from runtime/data/random.h), so the set costs no memory whatever its size. The same seed
// gives the same bytes for ever.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace sardonyx::runtime {

struct SyntheticTask {
  int64_t samples = 10000;
  std::vector<int64_t> sample_shape;  // in the order of the model's input
  int64_t classes = 10;
  // Undefined: none. Integer: class numbers (element e of a label holds (class + e) mod classes).
  // Floating: a target vector per class, in [-1, 1).
  RowType label = {graph::DType::kInt64, {}};
  uint64_t seed = 0;
  ImageAxes axes = ImageAxes::kUnknown;  // of samples with three of them
  enum class Values : uint8_t { kPixels, kBits } values = Values::kPixels;  // 0..254, or 0 and 1
};

// Training and test sets share the patterns but no sample. Throws Error for sizes that are not
// positive.
std::shared_ptr<const Dataset> make_synthetic(const SyntheticTask& task, Split split);

}  // namespace sardonyx::runtime
