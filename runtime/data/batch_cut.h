// How one global batch is cut into micro-batches on replicas.
//
// The sampler's order is cut contiguously, replica 0's micro-batches first, as evenly as possible
// with larger parts first. The step doesn't depend on the cut (semantics: it equals the big-batch
// step), so uneven parts are fine and a replica may have none. Also here: what the user's numbers
// (batch, micro-batch, accumulation) amount to.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace sardonyx::runtime {

// Sizes of micro-batches, [replica][micro-batch]; a replica without samples has an empty list.
using BatchCut = std::vector<std::vector<int64_t>>;

// kJoin: a micro-batch of one sample joins the one before it, since a BatchNorm can't take it
// alone: first among the micro-batches of its replica (several ones join in pairs), then across
// replicas. The very first stays.
enum class Singles : uint8_t { kKeep, kJoin };

struct CutOptions {
  int64_t replicas = 1;
  // At most one of the two: micro-batches per replica, or the largest micro-batch. Neither: one per
  // replica.
  std::optional<int64_t> accumulate = {};
  std::optional<int64_t> micro_batch = {};
  std::vector<double> shares = {};  // one weight per replica; empty: equal
  // Rows that every micro-batch has, because the model's file demands them; 0: any number. A batch
  // that is no multiple is cut as if this were 0. Not with `accumulate`.
  int64_t baked = 0;
  Singles singles = Singles::kKeep;
};

// Throws Error for numbers that make no sense. Shares are rounded by largest remainder, ties to
// lower replicas.
BatchCut cut_batch(int64_t batch, const CutOptions& options);

int64_t rows_in(const BatchCut& cut);
// Of each micro-batch, all replicas together.
std::vector<int64_t> rows_over_replicas(const BatchCut& cut);
int64_t largest_micro_batch(const BatchCut& cut);

// Rows [begin, begin + count) of a global batch.
struct BatchSlice {
  int64_t begin = 0;
  int64_t count = 0;
};

// The numbers as the user gave them.
struct BatchFlags {
  std::optional<int64_t> batch = {};
  std::optional<int64_t> micro_batch = {};
  std::optional<int64_t> accumulate = {};
  int64_t replicas = 1;
  std::vector<double> shares = {};
};
struct BatchSetup {
  int64_t batch = 0;
  CutOptions cut;
};
// The global batch (given, or micro-batch x replicas x accumulation) and its cut. Throws Error with
// all numbers when they contradict each other, are not positive, or have too large a product.
// CHECK: the batch or the micro-batch is given.
BatchSetup resolve_batch(const BatchFlags& flags);
int64_t largest_micro_batch(const BatchSetup& setup);

}  // namespace sardonyx::runtime
