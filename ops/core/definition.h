// What definitions of operators begin with, and nearly all have; rooms fill in the rest.
#pragma once

#include <string>
#include <vector>

#include "ops/core/op.h"

namespace sardonyx::ops {

using InferRule = void (*)(InferContext&);

// An operator of the standard.
OpDef standard_op(std::string name, std::string doc, std::vector<int> since,
                  std::vector<Port> inputs, std::vector<Port> outputs, InferRule infer);
// One of the sardonyx domain.
OpDef own_op(std::string name, std::string doc, std::vector<Port> inputs, std::vector<Port> outputs,
             InferRule infer);
// The same: the gradient of another operator, without one of its own.
// `forward`: in words, "the second derivative of" which that would be.
OpDef gradient_op(std::string name, std::string doc, const std::string& forward,
                  std::vector<Port> inputs, std::vector<Port> outputs, InferRule infer);

}  // namespace sardonyx::ops
