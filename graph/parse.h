// Reads the text form written by print.h. Throws Error with line, column, found and expected.
//
//   graph       [header] NAME values "=>" values [initializers] "{" {node | NAME ":=" NAME} "}"
//   header      "<" "ir_version" ":" INT | "opset_import" ":" "[" NAME ":" INT, ... "]"
//               | "batch" ":" NAME, ... ">"
//   values      "(" [type] NAME, ... ")"
//   initializers "<" type NAME "=" data | "state" "(" role ")" [type] NAME ["=" data], ... ">"
//   node        ["[" [words] ["of" words] "]"] [NAME, ... "="] op ["<" NAME "=" attribute, ... ">"]
//               "(" NAME, ... ")" ["#" types of the outputs]
//   op          IDENTIFIER | domain "." IDENTIFIER | STRING "." STRING
//   type        DTYPE ["[" INT | NAME [":" INT] | "?", ... "]"] ["@" layout]
//   data        "{" number | STRING, ... "}" | "{...}" (zeros)
//   attribute   number | STRING | "[" ... "]" | ints[] | floats[] | strings[] | type data
//               | "graph" "(" STRING "," "[" STRING, ... "]" ")" | "@" NAME
//
// NAME is an identifier or a string. "#" starts a comment. Nodes may stand in any order.
#pragma once

#include <memory>
#include <string_view>

#include "graph/graph.h"

namespace sardonyx::graph {

std::unique_ptr<Graph> parse(std::string_view text);

}  // namespace sardonyx::graph
