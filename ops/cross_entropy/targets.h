// The labels of one run, read whatever their integer type, with what decides how much each counts.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/cross_entropy/cross_entropy.h"

namespace sardonyx::ops::cross_entropy {

template <class T>
class Targets {
 public:
  // Checks all labels.
  Targets(const KernelRequest& request, const CpuContext& context, const Geometry& geometry,
          int labels_input, int weights_input)
      : labels_{context.inputs[labels_input], request.in[labels_input].dtype},
        weights_(request.has_in(weights_input) ? context.in<T>(weights_input) : nullptr),
        ignore_(ignore_index_of(*request.node)),
        geometry_(geometry) {
    check_labels(labels_, geometry, ignore_, context.first_sample);
  }

  // Of position n * inner + i.
  int64_t label(int64_t position) const { return labels_.at(position); }
  bool ignored(int64_t label) const { return ignore_ && *ignore_ == label; }
  const T* weights() const { return weights_; }  // nullptr: all 1
  double weight(int64_t label) const {
    return weights_ == nullptr ? 1.0 : static_cast<double>(weights_[label]);
  }
  // Sum of the weights of all labels that count.
  double total() const {
    double sum = 0;
    for (int64_t i = 0; i < geometry_.positions(); ++i) {
      if (const int64_t y = label(i); !ignored(y)) sum += weight(y);
    }
    return sum;
  }
  // Sum of the weights of all classes.
  double class_total() const {
    if (weights_ == nullptr) return static_cast<double>(geometry_.classes);
    double sum = 0;
    for (int64_t c = 0; c < geometry_.classes; ++c) sum += static_cast<double>(weights_[c]);
    return sum;
  }

 private:
  Labels labels_;
  const T* weights_;
  std::optional<int64_t> ignore_;
  Geometry geometry_;
};

}  // namespace sardonyx::ops::cross_entropy
