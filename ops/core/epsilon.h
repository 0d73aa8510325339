// The number that keeps a normalisation from dividing by zero.
#pragma once

#include <string>

#include "ops/core/infer.h"

namespace sardonyx::ops {

// Throws ConstraintError unless the attribute is a finite number of 0 or more, and names what comes
// of it otherwise.
void require_epsilon(const InferContext& context, const char* constraint,
                     const char* attribute = "epsilon");
// Of OpDef::hint: what 0 means; empty otherwise. `fallback`: the attribute's default.
std::string hint_at_zero(const Node& node, const char* attribute, double fallback);
std::string hint_at_epsilon(const Node& node);

}  // namespace sardonyx::ops
