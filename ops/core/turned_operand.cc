#include "ops/core/turned_operand.h"

#include <numeric>

#include "graph/support/error.h"
#include "ops/core/axis_order.h"

namespace sardonyx::ops {

Value* turned_right_operand(const Node& node) {
  if (!node.domain.empty() || node.op != "MatMul" || node.input(0)->type.rank() < 2) return nullptr;
  const Node* transpose = node.input(1)->producer;
  if (transpose == nullptr) return nullptr;
  const std::optional<Permutation> perm = permutation_of(*transpose);
  if (!perm || perm->size() < 2) return nullptr;
  Permutation swapped(perm->size());
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped.end()[-1], swapped.end()[-2]);
  return *perm == swapped ? transpose->input(0) : nullptr;
}

void read_turned_right_operand(graph::Graph& graph, Node& node) {
  Value* stored = turned_right_operand(node);
  CHECK(stored != nullptr, "{} reads no transposed matrix", node.label());
  if (node.get_int("trans_b", 0) != 0) {
    node.attributes.erase("trans_b");
  } else {
    node.attributes["trans_b"] = int64_t{1};
  }
  graph.set_input(&node, 1, stored);
}

}  // namespace sardonyx::ops
