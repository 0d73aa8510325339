// What the operators of the room ask of types. Private to ops/batch_norm; not for *_isa.cc files.
#pragma once

#include "ops/core/kernel.h"

namespace sardonyx::ops::batch_norm {

// Rows of a tensor [N, C, ...]: `rows` times `channels` planes of `plane` elements. In lanes of 16
// a row is a block of images, and of the last one only `valid` lanes hold images.
struct Planes {
  int64_t rows = 0, channels = 1, plane = 1;
  int64_t lanes = 1, valid = 1;
  int64_t row_size() const { return channels * plane; }
  int64_t numel() const { return rows * row_size(); }
  // Rows without padding lanes.
  int64_t whole_rows() const { return valid == lanes ? rows : rows - 1; }
  // Values per channel.
  int64_t count() const {
    return whole_rows() * plane + (rows - whole_rows()) * (plane / lanes) * valid;
  }
};

// Attribute of BatchNormApply.
inline constexpr const char* kActivation = "activation";

// Elements per image and channel of a type with static axes.
int64_t positions_of(const TensorType& x);
Planes planes_of(const TensorType& x);

// kRows (kSum) when the first input carries the batch: per-channel operands don't.
BatchRole rows_of_first(const Node& node, int slot);
BatchRole sum_of_first(const Node& node, int slot);

// All inputs of the kernels of the room.
Refusal unless_float_operands();

// The operators that apply_mode makes of the training form (statistics.cc).
void register_statistics(OpRegistry& ops);

}  // namespace sardonyx::ops::batch_norm
