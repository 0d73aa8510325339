#include "ops/core/flags.h"

#include <algorithm>

#include "graph/support/error.h"

namespace sardonyx::ops {

namespace {

constexpr std::string_view kNames[] = {"align_corners",
                                       "allowzero",
                                       "antialias",
                                       "ceil_mode",
                                       "center_point_box",
                                       "count_include_pad",
                                       "detect_negative",
                                       "detect_positive",
                                       "exclude_outside",
                                       "exclusive",
                                       "fmod",
                                       "input_forget",
                                       "interleaved",
                                       "inverse",
                                       "is_causal",
                                       "keepdims",
                                       "largest",
                                       "layout",
                                       "linear_before_reset",
                                       "noop_with_empty_axes",
                                       "onesided",
                                       "reverse",
                                       "saturate",
                                       "select_last_index",
                                       "sorted",
                                       "storage_order",
                                       "transA",
                                       "transB",
                                       "upper"};

}  // namespace

std::span<const std::string_view> flag_names() { return kNames; }

void require_flags(const OpDef& op, const Node& node) {
  for (const AttributeDef& attribute : op.attributes) {
    if (!node.has(attribute.name) || !std::ranges::binary_search(kNames, attribute.name)) continue;
    const int64_t value = node.get_int(attribute.name, 0);
    if (value == 0 || value == 1) continue;
    throw Error("node {}: attribute '{}' is {}, expected 0 or 1", node.label(), attribute.name,
                value);
  }
}

}  // namespace sardonyx::ops
