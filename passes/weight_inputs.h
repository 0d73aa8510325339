// Inputs of a file that are weights without values: what an export without parameters leaves.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace sardonyx::passes {

// Float inputs of known shape, the first input never among them, that fill the slot of a parameter
// (also through Transpose, Reshape, Cast or Identity). Where there is one, so are all others whose
// axis 0 isn't the batch: class tokens, position embeddings, biases of a MatMul. Of a graph as it
// was imported.
std::vector<graph::Value*> weight_inputs(const graph::Graph& graph);

// Whether an input fills the slot of a parameter so, whatever its type.
bool fills_parameter_slot(const graph::Value& input);

// The first use that says what a value is, seen through operators of one operand and other shapes
// of it; `node` is null when there is none.
graph::Use defining_use(const graph::Value& value);

}  // namespace sardonyx::passes
