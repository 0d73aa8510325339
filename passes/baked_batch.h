// Where a file whose number of rows is fixed has written that number down, and which of these
// places are the batch.
//
// The graph is typed twice: with the file's B rows, and with a prime number P of rows that divides
// no size and no integer of the graph. An axis whose size P divides is then k rows per row of the
// batch, and never looks like one by chance. Node by node, every size must be the file's own or
// k * P where the file has k * B: with P := B all types are those of the file, and the same holds
// for any other number of rows. Where a node doesn't follow (it can't be typed, an axis follows
// neither rule, or the batch is lost), one of its constants is the batch:
//  * one integer k * B of it (a Reshape target, an Expand shape, an end of a Slice) becomes k rows,
//    if the node then follows. A view keeps the elements in order, so its result is right only if
//    the batch stays at its place among them: as many elements before it, as many behind it. That
//    decides between a target's entries whatever numbers they are, and that [B*T, D] is [N*T, D];
//  * an operand without the batch gets it on an axis of size B: a constant whose B slices there are
//    equal is one slice, repeated; what Expand, Tile or Gather make of constants is asked in turn.
// Exactly one such change must make the node follow. None or several (a batch of one row) are a
// fault of the node, as is a float result that loses the batch but is read by others: a number
// behind it may be the count of rows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "passes/pass.h"

namespace sardonyx::passes {

struct BakedConstant {
  int node = 0, slot = 0;  // position in the graph's list of nodes, input
  // With B rows; of `axis` >= 0: one slice, to be repeated along it.
  graph::Tensor data;
  int axis = -1;
  // Else: elements that are this many times the number of rows.
  std::vector<std::pair<int64_t, int64_t>> counts;
};

struct BakedBatch {
  int64_t rows = -1;  // B; -1: not baked in
  std::vector<BakedConstant> constants;
  std::vector<std::pair<int, std::string>> faults;  // node, why
  // Of the values that have the batch: its axis, and that axis' size per row.
  std::map<std::string, std::pair<int, int64_t>> axes;
};

// Of a graph in canonical form before bind_batch.
BakedBatch find_baked_batch(const graph::Graph& graph, const PassContext& context);

}  // namespace sardonyx::passes
