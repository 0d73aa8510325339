// Which axes of a sample become which axes of a model's input.
//
// Nothing is ever reshaped on a guess. Axes move only when the source knows what they are (CIFAR,
// image files, or the user's word for it); a channel axis of one is added or dropped; one-channel
// images of a source that knows them as such flatten. What the user might not have meant is noted.
// Anything else is an Error with both shapes.
#pragma once

#include <string>
#include <vector>

#include "graph/type.h"
#include "runtime/data/dataset.h"

namespace sardonyx::runtime {

struct ModelInput {
  std::string name;
  graph::TensorType type;  // the first dimension is the batch
};

enum class AxisMove : uint8_t { kNone, kChwToHwc, kHwcToChw };

// How samples reach the shape of the input.
struct Fit {
  std::vector<int64_t> shape;  // of one sample, as the model takes it
  ImageAxes axes = ImageAxes::kUnknown;
  AxisMove move = AxisMove::kNone;
  std::string note;  // one sentence when something was done, else ""
};

// Throws Error with both shapes when there is no single reading.
Fit fit_sample(const DatasetInfo& data, const ModelInput& input);

}  // namespace sardonyx::runtime
