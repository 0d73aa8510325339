// Attributes of standard operators that are a yes or a no.
#pragma once

#include <span>
#include <string_view>

#include "ops/core/op.h"

namespace sardonyx::ops {

// The names of all of them; each means one thing, whichever operators have it.
std::span<const std::string_view> flag_names();
// Throws Error unless every flag that the operator knows and the node has is 0 or 1.
void require_flags(const OpDef& op, const Node& node);

}  // namespace sardonyx::ops
