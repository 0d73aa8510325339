#include "ops/core/mode.h"

#include "graph/names.h"

namespace sardonyx::ops {

void take_over(graph::Graph& graph, Value* old, Value* replacement) {
  const std::string name = old->name;
  replacement->origin = old->origin;
  graph.replace_uses(old, replacement);
  graph.rename(old, graph::fresh_name(graph, name + "/inactive"));
  graph.rename(replacement, name);
}

}  // namespace sardonyx::ops
