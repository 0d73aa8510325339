// A node that came from a local function may be of another opset than the model: inlining notes it
// on the node, canonicalize reads and removes the note.
#pragma once

namespace sardonyx::passes {

inline constexpr const char* kOpsetOfNode = "sardonyx.opset";

}  // namespace sardonyx::passes
