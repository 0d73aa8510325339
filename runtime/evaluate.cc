#include "runtime/evaluate.h"

#include <algorithm>
#include <cmath>

#include "graph/support/error.h"
#include "graph/support/log.h"
#include "runtime/data/prefetch.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

void check_evaluation(const Feed& feed, const Dataset& data) {
  const int64_t baked = feed.baked_rows();
  if (baked <= 0 || data.size() % baked == 0) return;
  if (data.size() < baked) {
    throw Error(
        "{} has {} samples, fewer than the batch {} that is baked into the model; --set-batch "
        "takes "
        "any number where that is provably right, and training works without evaluation, with "
        "--eval-every 0",
        data.info().name, data.size(), baked);
  }
  support::notice(
      "evaluation leaves out the last {} of {} samples: the model has the batch {} baked in; "
      "--set-batch takes them, too, where that is provably right",
      data.size() % baked, data.size(), baked);
}

namespace {

// Rows of one run: what was asked for, unless the file demands a number.
int64_t chunk_of(const Feed& feed, int64_t chunk) {
  return feed.baked_rows() > 0 ? feed.baked_rows() : std::max<int64_t>(chunk, 1);
}

// Calls use(batch) for every sample once, in order, in batches of at most `rows` rows. Samples that
// don't fill a batch which is baked in are left out.
template <class Use>
void for_each_batch(const Feed& feed, const std::shared_ptr<const Dataset>& data, int64_t rows,
                    Use&& use) {
  const int64_t baked = feed.baked_rows();
  const int64_t samples = baked > 0 ? data->size() / baked * baked : data->size();
  CHECK(samples > 0, "check_evaluation() lets nothing else through");
  Sampler sampler(samples, {std::min(rows, samples), 0, SampleOrder::kSequential, Tail::kKeep});
  PrefetchOptions ahead;
  ahead.batches = sampler.batches_per_epoch();
  Prefetcher prefetcher(data, std::move(sampler), ahead);
  while (const LoadedBatch* loaded = prefetcher.next()) use(session_batch(feed, *data, *loaded));
}

const std::pair<std::string, graph::Tensor>& choose_output(
    const std::vector<std::pair<std::string, graph::Tensor>>& outputs, const std::string& wanted) {
  std::string names;
  for (const auto& output : outputs) {
    const bool fits = graph::is_floating(output.second.dtype()) && output.second.rank() > 0;
    if (wanted.empty() ? fits : output.first == wanted) return output;
    names += (names.empty() ? "" : ", ") + output.first;
  }
  throw Error("the model has no output '{}' to predict; its outputs: {}", wanted, names);
}

}  // namespace

EvalResult evaluate(Session& session, const Feed& feed, const std::shared_ptr<const Dataset>& data,
                    int64_t chunk) {
  EvalResult sum;
  chunk = chunk_of(feed, chunk);
  for_each_batch(feed, data, chunk * session.replicas(), [&](const Batch& batch) {
    const EvalResult part = session.evaluate(batch, chunk);
    sum.add_sums(part);
    sum.rows += part.rows;
    sum.has_classes = part.has_classes;
    sum.has_top5 = part.has_top5;
  });
  return sum;
}

graph::Tensor predict(Session& session, const Feed& feed,
                      const std::shared_ptr<const Dataset>& data, int64_t chunk,
                      const std::string& name) {
  std::vector<std::byte> bytes;
  std::vector<int64_t> shape;
  graph::DType dtype = graph::DType::kUndefined;
  for_each_batch(feed, data, chunk_of(feed, chunk), [&](const Batch& batch) {
    const auto outputs = session.forward(batch, passes::Mode::kEval);
    const graph::Tensor& piece = choose_output(outputs, name).second;
    const int64_t rows = shape.empty() ? 0 : shape[0];
    dtype = piece.dtype();
    shape = piece.shape();
    shape[0] += rows;
    bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
  });
  graph::Tensor all(dtype, shape);
  std::copy(bytes.begin(), bytes.end(), all.mutable_bytes().begin());
  return all;
}

void warn_unless_finite(const EvalResult& result) {
  if (std::isfinite(result.loss_sum)) return;
  support::warning(
      "the loss of the evaluation is not finite ({}): look for such values in the data or the "
      "parameters",
      number_str(result.loss_sum));
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
