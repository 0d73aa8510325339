// The parts of the text form below a node: types, tensor data, attributes. Each reads from the
// lexer and throws Error with line, column, found and expected.
#pragma once

#include "graph/attribute.h"
#include "graph/lexer.h"
#include "graph/type.h"

namespace sardonyx::graph {

int64_t parse_int(Lexer& lexer);
// `word` is the element type, already taken; reads dimensions and layout.
TensorType parse_type(Lexer& lexer, const Token& word);
// "{1, 2}" or "{...}" (zeros).
Tensor parse_data(Lexer& lexer, const TensorType& type);
Attribute parse_attribute(Lexer& lexer);

}  // namespace sardonyx::graph
