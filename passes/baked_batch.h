// Where a file whose number of rows is fixed has written that number down, and which of these
// places are the batch. With B rows in the file, faults name the rule that a node breaks:
//
// R1 Sizes follow. The graph is typed with the file's B rows and with P rows, node by node. Every
//    size must be the file's own, or k * P where the file has k * B. P is a prime above the rows
//    that are wanted, all sizes and all integers of the file up to 2^30 (what lists more than 2^20
//    of them aside): no size looks like rows by chance, and where the file cuts or pads rows at a
//    number it shows. What is wanted is then typed, too (set_batch): its sizes must follow alike.
// R2 Order stays. A view keeps the elements in order, so the batch must stay at its place among
//    them: as many elements before it, as many behind it. That decides between the entries of a
//    target whatever numbers they are, and that [B*T, D] is [N*T, D]. Operands that meet have it at
//    the same place.
// R3 One constant. Where a node doesn't follow, one of its constants is the batch, and exactly one
//    such change must make it follow: an integer k * B of it (one row less must be another result),
//    or an operand that gets the batch on an axis of size B: a constant whose B slices there are
//    equal is one slice, repeated; what Expand, Tile or Gather make of constants is asked in turn,
//    and all its readers must then need it so.
// R4 Samples stay apart, if B = 1. There R2 leaves a choice: several axes of size one, or an axis
//    beside the batch that it is merged with. As long as it is open, an operator may read the batch
//    only if it can't mix what stands along that axis; so the result is the file's for each row,
//    whatever was chosen. With more rows, and without a choice, the file itself mixes what it
//    mixes.
//    An operand of which only the type is read has no rows in all of this.
// R5 The batch stays. A float result that loses it may be an output only: a number behind it may be
//    the count of rows. If it is the loss, it is no sum, since a factor in front may be 1 / B.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
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

// A copy whose inputs have this number of rows, whatever the file says.
std::unique_ptr<graph::Graph> bound_to_rows(const graph::Graph& graph, const PassContext& context,
                                            int64_t rows);

// Of a graph in canonical form before bind_batch.
BakedBatch find_baked_batch(const graph::Graph& graph, const PassContext& context);

}  // namespace sardonyx::passes
