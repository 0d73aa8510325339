// Brings a data set to the form of a model's input: axes (fit.h), type, scale, normalisation.
//
// uint8 data for a floating input is divided by 255 unless kRaw is asked for; other types are only
// converted. Integers that a narrower type can't hold are found here, not during training. Labels
// keep their stored type unless the loss asks for another.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/element.h"
#include "runtime/data/fit.h"

namespace sardonyx::runtime {

struct Normalize {
  std::vector<float> mean;  // one for all channels or one per channel; in units after scaling
  std::vector<float> std;
};

struct AdaptOptions {
  PixelScale scale =
      PixelScale::kUnit;         // uint8 data for a floating input: divided by 255, or as it is
  Normalize normalize;           // empty: none
  std::optional<RowType> label;  // what the loss takes; nothing: as stored
};

// The data set as the model takes it; throws Error for shapes, types or normalisation that don't
// fit.
std::shared_ptr<const Dataset> adapt(std::shared_ptr<const Dataset> data, const ModelInput& input,
                                     const AdaptOptions& options);

// "MEAN,STD", or the means of C channels followed by their C standard deviations. Throws Error.
Normalize parse_normalize(const std::string& text);

}  // namespace sardonyx::runtime
