// Notes on nodes, from inlining to who reads and removes them. No file can say them.
#pragma once

namespace sardonyx::passes {

// A node that came from a local function may be of another opset than the model: for canonicalize,
// and for what stands in a branch.
inline constexpr const char* kOpsetOfNode = "sardonyx.opset";
// Of a node with graphs inside: its label as Origin::path spells it, behind the path of the node.
// Such a node reads what they read from around them as its last inputs: the outer values of its
// graphs, attribute after attribute.
inline constexpr const char* kPathOfNode = "sardonyx.path";

}  // namespace sardonyx::passes
