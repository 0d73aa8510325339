// The order of training: a seeded permutation per epoch, cut into batches.
//
// The order is a function of (seed, epoch, size of the set) alone, so a run resumes from (epoch,
// position) exactly. Every sample comes once per epoch, but for what `Tail` says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sardonyx::runtime {

enum class SampleOrder : uint8_t { kShuffled, kSequential };

// kJoinSingle: a last batch of one sample joins the batch before it (a BatchNorm can't take it
// alone).
enum class Tail : uint8_t { kKeep, kDrop, kJoinSingle };

struct SamplerOptions {
  int64_t batch = 1;
  uint64_t seed = 0;
  SampleOrder order = SampleOrder::kShuffled;
  Tail tail = Tail::kKeep;
};

// Samples of `epoch` (from 0) that were given out so far.
struct SamplerPosition {
  int64_t epoch = 0;
  int64_t position = 0;
  friend bool operator==(const SamplerPosition&, const SamplerPosition&) = default;
};

// Sample numbers of one batch.
struct Draw {
  int64_t epoch = 0;
  int64_t number = 0;  // of the batch in its epoch
  bool last_of_epoch = false;
  std::span<const int64_t> indices;  // valid until the next call
  SamplerPosition next;              // where a run that stops after this batch resumes
};

class Sampler {
 public:
  // Throws Error when no batch can ever come: no samples, a batch that is not positive, fewer
  // samples than a batch with kDrop; and when `start` is no border between batches of this set.
  Sampler(int64_t samples, const SamplerOptions& options, SamplerPosition start = {});

  // The next batch; epochs follow one another without end.
  Draw next();
  SamplerPosition position() const { return position_; }

  int64_t batches_per_epoch() const;
  // The sizes that occur, largest first: plans are built for these.
  std::vector<int64_t> batch_sizes() const;

 private:
  // Samples that one epoch gives out.
  int64_t epoch_samples() const;
  int64_t size_at(int64_t position) const;

  int64_t samples_;
  SamplerOptions options_;
  SamplerPosition position_;
  int64_t permuted_epoch_ = -1;
  std::vector<int64_t> order_;
};

// The permutation of one epoch.
std::vector<int64_t> epoch_order(int64_t samples, uint64_t seed, int64_t epoch, SampleOrder order);

}  // namespace sardonyx::runtime
