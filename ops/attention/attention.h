// Private to ops/attention.
#pragma once

#include "ops/core/composed.h"

namespace sardonyx::ops::attention {

// Slots of Attention.
enum Input : int { kQ, kK, kV, kMask, kPastKey, kPastValue, kNonpad };
enum Output : int { kY, kPresentKey, kPresentValue, kScores };

// Private attribute: 0 where a mask shorter than the keys is none of this opset (23).
inline constexpr const char* kPadMask = "pad_mask";

// What "qk_matmul_output_mode" may ask for.
enum class ScoresMode : int64_t { kProduct, kCapped, kBiased, kProbabilities };
ScoresMode scores_mode(const Node& node);

// Keys that position p may see: p - left <= j <= p + right; -1: all on that side.
struct Window {
  int64_t left = -1;
  int64_t right = -1;
  bool everything() const { return left < 0 && right < 0; }
  bool shows(int64_t position, int64_t key) const {
    return (left < 0 || key >= position - left) && (right < 0 || key <= position + right);
  }
  static Window of(const Node& node);
};

OpDef rotary_op();
void write_attention(ComposeContext& c);
void write_rotary(ComposeContext& c);

}  // namespace sardonyx::ops::attention
