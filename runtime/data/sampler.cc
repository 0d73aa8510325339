// Fisher-Yates over a counter-based generator.
#include "runtime/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/support/error.h"
#include "runtime/data/labels.h"
#include "runtime/data/random.h"

namespace sardonyx::runtime {

std::vector<int64_t> epoch_order(int64_t samples, uint64_t seed, int64_t epoch, SampleOrder order) {
  std::vector<int64_t> result(static_cast<size_t>(samples));
  std::iota(result.begin(), result.end(), int64_t{0});
  if (order == SampleOrder::kSequential) return result;
  RandomSequence random(data_stream(seed, Purpose::kOrder, epoch), 0);
  for (uint64_t i = result.size(); i-- > 1;) {
    std::swap(result[i], result[random.below(i + 1)]);
  }
  return result;
}

Sampler::Sampler(int64_t samples, const SamplerOptions& options, SamplerPosition start)
    : samples_(samples), options_(options), position_(start) {
  check_not_empty(samples, "sampler");
  if (options.batch <= 0) throw Error("a batch of {} samples: expected at least 1", options.batch);
  if (epoch_samples() == 0) {
    throw Error(
        "{} samples are fewer than one batch of {}, and the tail is dropped: nothing would be "
        "trained. Use a smaller batch or keep the tail",
        samples, options.batch);
  }
  bool border =
      start.position == epoch_samples() ||
      (start.position % options.batch == 0 && start.position / options.batch < batches_per_epoch());
  if (start.epoch < 0 || start.position < 0 || !border) {
    throw Error(
        "cannot resume at sample {} of epoch {}: with {} samples in batches of {} no batch starts "
        "there. Were data or batch size changed?",
        start.position, start.epoch, samples, options.batch);
  }
  if (start.position == epoch_samples()) position_ = {start.epoch + 1, 0};
}

int64_t Sampler::epoch_samples() const {
  if (options_.tail != Tail::kDrop) return samples_;
  return samples_ / options_.batch * options_.batch;
}

int64_t Sampler::size_at(int64_t position) const {
  int64_t rest = epoch_samples() - position;
  bool join =
      options_.tail == Tail::kJoinSingle && options_.batch > 1 && rest == options_.batch + 1;
  return join ? rest : std::min(rest, options_.batch);
}

int64_t Sampler::batches_per_epoch() const {
  int64_t batches = (epoch_samples() + options_.batch - 1) / options_.batch;
  bool joined = options_.tail == Tail::kJoinSingle && options_.batch > 1 && batches > 1 &&
                epoch_samples() % options_.batch == 1;
  return joined ? batches - 1 : batches;
}

std::vector<int64_t> Sampler::batch_sizes() const {
  // Only the last batch of an epoch differs from the first.
  int64_t first = size_at(0);
  int64_t last = size_at((batches_per_epoch() - 1) * options_.batch);
  if (first == last) return {first};
  return {std::max(first, last), std::min(first, last)};
}

Draw Sampler::next() {
  if (permuted_epoch_ != position_.epoch) {
    order_ = epoch_order(samples_, options_.seed, position_.epoch, options_.order);
    permuted_epoch_ = position_.epoch;
  }
  Draw draw;
  draw.epoch = position_.epoch;
  draw.number = position_.position / options_.batch;
  int64_t size = size_at(position_.position);
  draw.indices = std::span<const int64_t>(order_).subspan(static_cast<size_t>(position_.position),
                                                          static_cast<size_t>(size));
  position_.position += size;
  draw.last_of_epoch = position_.position == epoch_samples();
  if (draw.last_of_epoch) position_ = {position_.epoch + 1, 0};
  draw.next = position_;
  return draw;
}

}  // namespace sardonyx::runtime
