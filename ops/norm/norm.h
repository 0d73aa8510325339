// What is normalised, decoded from the node. Private to the room; the loops are in norm_loops.h.
//
// All operators of the room see x as [rows][params][span]: a row falls into `groups` equal parts,
// each normalised alone, and every span has one number of scale and bias.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/op.h"
#include "ops/norm/norm_loops.h"

namespace sardonyx::ops::norm {

enum class Form : uint8_t {
  kLayer,  // a group is all axes from `axis` on
  kRms,    // the same, and the mean stays
  kGroup,  // a group is some channels (axis 1) of one row, with all axes behind
};

// The gradient operators hold the form of their forward operator in this attribute.
inline constexpr const char* kForm = "form";
// Private to GroupNormalization, which had one scale per group before opset 21.
inline constexpr const char* kPerGroup = "per_group";

Form form_of(const Node& node);
// Parts of the channels of a Form::kGroup.
int64_t groups_of(const Node& node, int64_t channels);

// The first axis that a group reaches over. Throws ConstraintError (N2).
int first_axis(const Node& node, int rank);

struct NormGeometry {
  int64_t rows = 1, groups = 1, params = 1, span = 1;
  Centring centring = Centring::kMean;
  double epsilon = 1e-5;

  // `params`: numbers in scale.
  static NormGeometry of(const Node& node, const std::vector<int64_t>& x, int64_t params);
  int64_t group_params() const { return params / groups; }
  int64_t group_length() const { return params * span / groups; }
};

}  // namespace sardonyx::ops::norm
