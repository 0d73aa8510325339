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
// "{1, 2}" or "{...}", which stands for zeros: of kMostZeros bytes at most, since nothing else says
// that they are meant.
inline constexpr int64_t kMostZeros = int64_t{1} << 28;
Tensor parse_data(Lexer& lexer, const TensorType& type);
Attribute parse_attribute(Lexer& lexer);

}  // namespace sardonyx::graph
