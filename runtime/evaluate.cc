#include "runtime/evaluate.h"

#include <algorithm>

#include "graph/support/error.h"
#include "graph/support/log.h"
#include "runtime/data/prefetch.h"

namespace sardonyx::runtime {

void check_evaluation(const Feed& feed, const Dataset& data) {
  const int64_t baked = feed.baked_rows();
  if (baked <= 0 || data.size() % baked == 0) return;
  if (data.size() < baked) {
    throw Error(
        "{} has {} samples, fewer than the batch {} that is baked into the model; training "
        "works without evaluation, with --eval-every 0",
        data.info().name, data.size(), baked);
  }
  support::notice(
      "evaluation leaves out the last {} of {} samples: the model has the batch {} baked in",
      data.size() % baked, data.size(), baked);
}

EvalResult evaluate(Session& session, const Feed& feed, const std::shared_ptr<const Dataset>& data,
                    int64_t chunk) {
  const int64_t baked = feed.baked_rows();
  if (baked > 0) chunk = baked;
  chunk = std::min(std::max<int64_t>(chunk, 1), data->size());
  CHECK(chunk >= baked, "check_evaluation() lets nothing else through");
  const Tail tail = baked > 0 ? Tail::kDrop : Tail::kKeep;
  Sampler sampler(data->size(), {chunk, 0, SampleOrder::kSequential, tail});
  PrefetchOptions ahead;
  ahead.batches = sampler.batches_per_epoch();
  Prefetcher prefetcher(data, std::move(sampler), ahead);
  EvalResult sum;
  while (const LoadedBatch* loaded = prefetcher.next()) {
    const EvalResult part = session.evaluate(session_batch(feed, *data, *loaded), chunk);
    sum.loss_sum += part.loss_sum;
    sum.weight += part.weight;
    sum.correct += part.correct;
    sum.correct_top5 += part.correct_top5;
    sum.rows += part.rows;
    sum.has_classes = part.has_classes;
    sum.has_top5 = part.has_top5;
  }
  return sum;
}

double mean_loss(const EvalResult& result) {
  return result.weight > 0 ? result.loss_sum / result.weight : 0.0;
}

std::optional<double> accuracy(const EvalResult& result) {
  if (!result.has_classes || result.weight <= 0) return {};
  return result.correct / result.weight;
}

std::optional<double> top5_accuracy(const EvalResult& result) {
  if (!result.has_top5 || result.weight <= 0) return {};
  return result.correct_top5 / result.weight;
}

}  // namespace sardonyx::runtime
