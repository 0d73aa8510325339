// Checks of samples and labels before the first step. A message gives index, value, expectation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "runtime/data/dataset.h"

namespace sardonyx::runtime {

// Throws Error "NAME: no samples (0 samples ...)" when `count` is 0.
void check_not_empty(int64_t count, const std::string& name);
void check_same_count(int64_t samples, const std::string& samples_name, int64_t labels,
                      const std::string& labels_name);

// Refuses floats where class numbers are wanted, even whole numbers; the message names the first
// that is not, if any. Throws Error.
void check_not_floating(const graph::Tensor& labels, const std::string& name);

struct ClassLabels {
  int64_t samples = 0;
  std::vector<int64_t>
      sample_shape;     // of one sample's labels: {} for a class, {H,W} for one per pixel
  int64_t classes = 0;  // labels are 0..classes-1
  std::optional<int64_t> ignore_index;
  std::vector<std::string> names = {};  // of the classes, where the model has others than numbers
};

// Class numbers: shape [samples, sample_shape...], integer type, range, in this order. Throws
// Error.
void check_class_labels(const graph::Tensor& labels, const ClassLabels& expected,
                        const std::string& name);
// The same for a data set, whose number of samples counts; labels that are computed (synthetic) are
// right by construction.
void check_class_labels(const Dataset& dataset, ClassLabels expected);

// Targets of a regression: any numeric type, shape [samples, sample_shape...], no NaN or infinity.
void check_targets(const graph::Tensor& targets, int64_t samples,
                   const std::vector<int64_t>& sample_shape, const std::string& name);

// Targets that are probabilities: 0 to 1.
void check_shares(const graph::Tensor& targets, const std::string& name);

// No NaN or infinity among the values, nor after conversion to `to` (1e39 is no float). Integers
// pass.
void check_finite(const graph::Tensor& values, graph::DType to, const std::string& name);

}  // namespace sardonyx::runtime
