// What runs: training steps and evaluations on all replicas, forward passes and gradients on the
// first one.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "graph/support/error.h"
#include "passes/pipelines.h"
#include "runtime/data/batch_cut.h"
#include "runtime/feed.h"
#include "runtime/session.h"

namespace sardonyx::runtime {

using graph::Tensor;
using passes::MicroBatch;

// --- feeding

// What one run is fed with. The arguments point into `converted`: feeds in the compute type.
struct Session::Fed {
  RunArguments arguments;
  std::vector<Tensor> converted;
};

namespace {

// Rows first to first + count, sharing the bytes of `tensor` without keeping them alive.
Tensor borrowed_rows(const Tensor& tensor, int64_t first, int64_t count) {
  std::vector<int64_t> shape = tensor.shape();
  const size_t row_bytes = shape[0] > 0 ? tensor.bytes().size() / static_cast<size_t>(shape[0]) : 0;
  shape[0] = count;
  const auto bytes = tensor.bytes().subspan(static_cast<size_t>(first) * row_bytes,
                                            static_cast<size_t>(count) * row_bytes);
  return Tensor::borrow(tensor.dtype(), std::move(shape), bytes, nullptr);
}

}  // namespace

Session::Fed Session::feed(const Run& run, const Batch& batch, double lr) const {
  const passes::PassContext& context = run.loaded->context;
  Fed fed;
  fed.arguments.staged = run.staged;
  fed.arguments.seed = options_.seed;
  fed.arguments.step = static_cast<uint64_t>(step_);
  fed.arguments.first_sample = run.first_row;
  fed.converted.reserve(batch.inputs.size() + 4);
  const auto take = [&](Tensor tensor) {
    fed.converted.push_back(std::move(tensor));
    fed.arguments.inputs.push_back(fed.converted.back().aligned_data());
  };
  for (const passes::PlanInput& input : run.loaded->plan->inputs) {
    const Tensor* tensor = nullptr;
    for (const auto& [name, value] : batch.inputs) {
      if (name == input.name || (name.empty() && batch.inputs.size() == 1)) tensor = &value;
    }
    if (input.name == context.labels) tensor = &batch.labels;
    if (input.name == context.learning_rate) {
      take(Tensor::scalar<double>(lr).cast(input.type.dtype));
      continue;
    }
    if (tensor == nullptr || !tensor->defined()) {
      throw Error("input '{}' of the model is not fed; it expects {}", input.name,
                  input.type.str());
    }
    const auto expected = input.type.shape();
    const bool cut = !expected.empty() && expected[0] == run.rows && tensor->rank() > 0 &&
                     tensor->shape()[0] == rows_of(batch);
    auto found = tensor->shape();
    if (cut) found[0] = run.rows;
    if (found != expected) {
      throw Error("input '{}' expects {}, but the data has shape {}", input.name, input.type.str(),
                  graph::shape_str(tensor->shape()));
    }
    if (tensor->dtype() != input.type.dtype) {
      const Tensor part = cut ? borrowed_rows(*tensor, run.first_row, run.rows) : *tensor;
      take(part.cast(input.type.dtype));
      continue;
    }
    const size_t row_bytes =
        run.rows > 0 && cut ? input.type.bytes() / static_cast<size_t>(run.rows) : 0;
    fed.arguments.inputs.push_back(tensor->aligned_data() +
                                   static_cast<size_t>(run.first_row) * row_bytes);
  }
  return fed;
}

void Session::execute(const Run& run, int replica, const Links& links, const Batch& batch,
                      double lr) const {
  const bool trains = run.loaded->context.options.mode == passes::Mode::kTrain;
  const ScopedSpan span(
      recorder_, {replica, 0},
      {trains ? Span::What::kMicroBatch : Span::What::kEvaluationPart, run.first_row, run.rows});
  Fed fed = feed(run, batch, lr);
  fed.arguments.communicator = links.host;
  fed.arguments.device_communicator = links.device;
  fed.arguments.replica = replica;
  fed.arguments.recorder = recorder_;
  run.loaded->executors[static_cast<size_t>(replica)]->run(fed.arguments);
}

// --- steps

namespace {

// Which plan runs part `i` of `count` micro-batches of a replica that has samples in `own` of them.
MicroBatch micro_batch_of(size_t i, size_t own, size_t count) {
  using enum MicroBatch;
  const bool samples = i < own;
  if (count == 1) return samples ? kOnly : kNone;
  if (i == 0) return samples ? kFirst : kNoneFirst;
  if (i + 1 < count) return samples ? kMiddle : kNoneMiddle;
  return samples ? kLast : kNoneLast;
}

// Without the micro-batches that have no samples: there is nothing to compute for them.
Cut without_empty(Cut cut) {
  for (std::vector<int64_t>& parts : cut) {
    for (const int64_t rows : parts) {
      if (rows < 0) throw Error("a micro-batch has {} rows, expected at least 0", rows);
    }
    std::erase(parts, 0);
  }
  return cut;
}

// Of the first micro-batch: a size that the model takes, for a replica that has none.
int64_t any_rows(const Cut& cut) {
  for (const auto& parts : cut) {
    if (!parts.empty()) return parts[0];
  }
  throw Error("a step needs at least one sample, the cut has none");
}

// Outputs of one element, by name; 0 for those that the plan doesn't have.
template <class... Names>
std::array<double, sizeof...(Names)> scalars(const Executor& executor, const Names&... names) {
  std::vector<int> which;
  std::array<bool, sizeof...(Names)> there = {};
  size_t position = 0;
  for (const std::string* name : {&names...}) {
    const int i = name->empty() ? -1 : executor.plan().output_index(*name);
    if (i >= 0) which.push_back(i);
    there[position++] = i >= 0;
  }
  const std::vector<Tensor> read = executor.outputs(which);
  std::array<double, sizeof...(Names)> values = {};
  for (size_t i = 0, next = 0; i < values.size(); ++i) {
    if (there[i]) values[i] = read[next++].as_double(0);
  }
  return values;
}

}  // namespace

std::vector<std::vector<Session::PlanKey>> Session::keys_of(const Cut& cut) const {
  const int64_t rows_of_none = any_rows(cut);
  std::vector<std::vector<PlanKey>> keys(cut.size());
  for (size_t r = 0; r < cut.size(); ++r) {
    const size_t own = cut[r].size(), count = micro_batches_of(cut, r);
    for (size_t i = 0; i < count; ++i) {
      const int64_t rows = i < own ? cut[r][i] : rows_of_none;
      keys[r].push_back({Kind::kTrain, micro_batch_of(i, own, count), rows, "",
                         replicas_->place_of(static_cast<int>(r))});
    }
  }
  return keys;
}

// A budget must know all states, which a last micro-batch's plan has; of the size that decides for
// all.
std::vector<Session::PlanKey> Session::keys_with_all_states(const Cut& cut) const {
  std::vector<PlanKey> keys;
  for (size_t r = 0; r < cut.size(); ++r) {
    if (cut[r].size() < 2) continue;
    keys.push_back({Kind::kTrain, MicroBatch::kLast, cut[r].front(), "",
                    replicas_->place_of(static_cast<int>(r))});
  }
  return keys;
}

void Session::note_wanted(const Cut& cut) {
  for (const auto& keys : keys_of(cut)) wanted_.insert(keys.begin(), keys.end());
  const std::vector<PlanKey> first = keys_with_all_states(cut);
  wanted_.insert(first.begin(), first.end());
}

Cut Session::checked(const Cut& whole_cut) const {
  Cut cut = without_empty(whole_cut);
  if (static_cast<int>(cut.size()) == replicas()) return cut;
  throw Error("the session has {} replica{}, the batch is cut for {}", replicas(),
              replicas() == 1 ? "" : "s", cut.size());
}

// The cut of a batch must not decide what is computed: a condition on its size is that of the
// whole.
void Session::check_branches_of_batch(const Cut& cut) {
  const int64_t rows = rows_in(cut);
  if (branches_.empty() || baked_rows(*this) >= 0 || !checked_batches_.insert(rows).second) return;
  passes::PassContext context = context_for({Kind::kTrain, MicroBatch::kOnly, rows, "", 0});
  const auto graph = imported_.graph->clone();
  passes::run_pipeline(*graph, context, passes::preparation_pipeline());
  check_branches(context);
}

// Makes the plans that are missing.
std::vector<std::vector<Session::Run>> Session::runs_of(const Cut& whole_cut) {
  const Cut cut = checked(whole_cut);
  const std::vector<std::vector<PlanKey>> keys = keys_of(cut);
  std::vector<std::vector<Run>> runs(cut.size());
  int64_t row = 0;
  if (options_.memory_budget > 0) {
    note_wanted(cut);
    for (const PlanKey& key : keys_with_all_states(cut)) plan_for(key);
  }
  for (size_t r = 0; r < cut.size(); ++r) {
    runs[r].resize(keys[r].size());
    for (size_t i = 0; i < runs[r].size(); ++i) {
      runs[r][i].first_row = row;
      if (i >= cut[r].size()) continue;
      runs[r][i] = {&plan_for(keys[r][i]), row, cut[r][i]};
      row += cut[r][i];
    }
  }
  // Last: a plan without a forward pass must not be the one that decides for the session.
  for (size_t r = 0; r < cut.size(); ++r) {
    for (size_t i = cut[r].size(); i < runs[r].size(); ++i) {
      runs[r][i].loaded = &plan_for(keys[r][i]);
    }
  }
  check_branches_of_batch(cut);
  if (shares_statistics()) check_shared_rows(cut, runs);
  return runs;
}

bool Session::shares_statistics() const {
  return options_.pipeline.sync_statistics && replicas() > 1;
}

// Of a replica in a step; where statistics are shared all take part in all.
size_t Session::micro_batches_of(const Cut& cut, size_t replica) const {
  size_t count = std::max<size_t>(cut[replica].size(), 1);
  for (const auto& parts : cut) {
    if (shares_statistics()) count = std::max(count, parts.size());
  }
  return count;
}

void Session::check_shared_rows(const Cut& cut, const std::vector<std::vector<Run>>& runs) {
  const std::vector<int64_t> rows = rows_over_replicas(cut);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= runs[0][i].loaded->context.least_rows) continue;
    throw Error(
        "micro-batch {} of {} has {} row over all replicas, one value per channel of a "
        "BatchNormalization, which always normalises to zero; cut the batch into larger parts",
        i + 1, rows.size(), rows[i]);
  }
}

void Session::prepare_training(const std::vector<Cut>& cuts) {
  // A refused budget is told what all of them need.
  for (const Cut& cut : cuts) {
    if (options_.memory_budget > 0) note_wanted(checked(cut));
  }
  for (const Cut& cut : cuts) runs_of(cut);
}

// The first micro-batch of each replica in a step to come; the others are copied while it computes.
// Without a plan where there is nothing to copy or the plan isn't made yet. An input that its own
// step will refuse is none.
std::vector<Session::Run> Session::first_runs(const StepInput& next) const {
  std::vector<Run> runs(static_cast<size_t>(replicas()));
  try {
    const Cut cut = checked(next.cut);
    if (rows_in(cut) != rows_of(next.batch)) return runs;
    const std::vector<std::vector<PlanKey>> keys = keys_of(cut);
    int64_t row = 0;
    for (size_t r = 0; r < cut.size(); ++r) {
      const auto plan = plans_.find(keys[r].front());
      const bool copies = replicas_->device(static_cast<int>(r)).device() != ops::Device::kCpu;
      if (copies && !cut[r].empty() && plan != plans_.end() && plan->second != nullptr) {
        runs[r] = {plan->second.get(), row, cut[r].front()};
      }
      for (const int64_t rows : cut[r]) row += rows;
    }
  } catch (const Error&) {
    runs.assign(runs.size(), {});
  }
  return runs;
}

// An input that can't be fed is told by its own step, a lost device by whoever asks it next.
void Session::stage(const Run& run, int replica, const StepInput& next) const noexcept {
  if (run.loaded == nullptr) return;
  try {
    const Fed fed = feed(run, next.batch, next.lr);
    run.loaded->executors[static_cast<size_t>(replica)]->stage(fed.arguments);
  } catch (const std::exception&) {
    // Nothing is staged then.
  }
}

StepResult Session::train_step(const Batch& batch, const Cut& cut, double lr,
                               NonFinite non_finite) {
  return train_step(std::make_shared<const StepInput>(StepInput{batch, cut, lr}), non_finite,
                    nullptr);
}

StepResult Session::train_step(const std::shared_ptr<const StepInput>& input, NonFinite non_finite,
                               const std::shared_ptr<const StepInput>& next) {
  const Batch& batch = input->batch;
  const Cut& cut = input->cut;
  const double lr = input->lr;
  if (!(lr >= 0) || !std::isfinite(lr)) {
    throw Error("the learning rate is {}, expected a number that is not negative", lr);
  }
  check_replicas_agree();
  const int64_t total = rows_in(cut);
  if (total != rows_of(batch)) {
    throw Error("the micro-batches have {} rows in all, the batch has {}", total, rows_of(batch));
  }
  std::vector<std::vector<Run>> runs = runs_of(cut);
  for (auto& of_replica : runs) of_replica.front().staged = staged_ == input ? stagings_ : 0;
  staged_ = next;
  std::vector<Run> ahead(runs.size());
  if (next != nullptr) {
    ahead = first_runs(*next);
    ++stagings_;
    for (Run& run : ahead) run.staged = stagings_;
  }
  try {
    const ScopedSpan span(recorder_, kLoopTrack, {Span::What::kTrainStep, step_ + 1, total});
    replicas_->run("running", [&](int replica, const Links& links) {
      for (const Run& run : runs[static_cast<size_t>(replica)]) {
        execute(run, replica, links, batch, lr);
      }
      if (next != nullptr) stage(ahead[static_cast<size_t>(replica)], replica, *next);
    });
  } catch (...) {
    note_split();
    throw;
  }
  const Loaded& last = *runs[0].back().loaded;
  const passes::PassContext& names = last.context;
  const auto [loss_sum, weight, correct, grad_norm, grad_scale] =
      scalars(*last.executors[0], names.loss_sum, names.loss_weight, names.correct, names.grad_norm,
              names.grad_scale);
  StepResult result{loss_sum, weight, correct, grad_norm, total};
  const bool mean = options_.pipeline.loss.mean;
  result.loss = !mean ? result.loss_sum : result.weight > 0 ? result.loss_sum / result.weight : 0.0;
  result.skipped = std::isnan(grad_scale);
  if (result.skipped) check_step_began_finite(result);
  if (result.skipped && non_finite == NonFinite::kStop) report_non_finite(batch, runs, result);
  ++step_;
  return result;
}

std::string Session::replica_difference() const { return replicas_->first_difference(states_); }

// Nearly always a step fails before any update. If not, the replicas are no longer copies of one
// model. Nothing that happens here may hide why the step failed.
void Session::note_split() noexcept {
  try {
    split_ = replicas_->in_doubt() ? "a sum between the devices broke off on its way to the updates"
                                   : replica_difference();
  } catch (...) {
    split_ = "unknown how";  // short enough to need no memory
  }
}

void Session::check_replicas_agree() const {
  if (split_.empty()) return;
  throw Error(
      "a step failed on some of the replicas while others applied it ({}); go on from a checkpoint",
      split_);
}

// --- evaluation, forward, gradients

void EvalResult::add_sums(const EvalResult& part) {
  loss_sum += part.loss_sum;
  weight += part.weight;
  correct += part.correct;
  correct_top5 += part.correct_top5;
}

EvalResult Session::evaluate(const Batch& batch, int64_t chunk) {
  check_replicas_agree();
  EvalResult result;
  result.rows = rows_of(batch);
  std::vector<Run> runs;
  for (int64_t row = 0; row < result.rows; row += runs.back().rows) {
    const int64_t rows = std::min(std::max<int64_t>(chunk, 1), result.rows - row);
    const int replica = static_cast<int>(runs.size()) % replicas();
    const PlanKey key{Kind::kEval, MicroBatch::kOnly, rows, "", replicas_->place_of(replica)};
    runs.push_back({&plan_for(key), row, rows});
  }
  std::vector<EvalResult> parts(runs.size());
  replicas_->run("running", [&](int replica, const Links&) {
    for (size_t i = static_cast<size_t>(replica); i < runs.size();
         i += static_cast<size_t>(replicas())) {
      execute(runs[i], replica, {}, batch, 0.0);
      const Loaded& loaded = *runs[i].loaded;
      const passes::PassContext& names = loaded.context;
      const auto [loss_sum, weight, correct, correct_top5] =
          scalars(*loaded.executors[static_cast<size_t>(replica)], names.loss_sum,
                  names.loss_weight, names.correct, names.correct_top5);
      parts[i] = {loss_sum, weight, correct, correct_top5};
    }
  });
  for (const EvalResult& part : parts) result.add_sums(part);
  if (!runs.empty()) {
    result.has_classes = !runs[0].loaded->context.correct.empty();
    result.has_top5 = !runs[0].loaded->context.correct_top5.empty();
  }
  return result;
}

namespace {

// The batch in the element types of the plan. An output may be an input handed on, so what is
// converted has to live until the outputs are read.
Batch in_types_of(const passes::Plan& plan, Batch batch) {
  for (auto& [name, tensor] : batch.inputs) {
    for (const passes::PlanInput& input : plan.inputs) {
      const bool same = input.name == name || name.empty();
      if (same && tensor.defined()) tensor = tensor.cast(input.type.dtype);
    }
  }
  return batch;
}

}  // namespace

std::vector<std::pair<std::string, Tensor>> Session::forward(const Batch& batch,
                                                             passes::Mode mode) {
  check_replicas_agree();
  forward_mode_ = mode;
  gradient_options_ = {};
  const int64_t rows = rows_of(batch);
  const char* extra = mode == passes::Mode::kTrain ? "train" : "";
  Loaded& loaded = plan_for({Kind::kForward, MicroBatch::kOnly, rows, extra, 0});
  const Batch fed = in_types_of(*loaded.plan, batch);
  execute({&loaded, 0, rows}, 0, {}, fed, 0.0);
  std::vector<int> all(loaded.plan->outputs.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<Tensor> values = loaded.executors[0]->outputs(all);
  std::vector<std::pair<std::string, Tensor>> outputs;
  for (size_t i = 0; i < values.size(); ++i) {
    outputs.emplace_back(loaded.plan->outputs[i].name, std::move(values[i]));
  }
  return outputs;
}

// What the first replica has moved alone.
void Session::share_statistics(const Loaded& loaded) {
  for (const auto& [name, next] : loaded.context.statistics) {
    if (replicas() > 1) replicas_->write_state(*states_.find(name), state(name).aligned_data());
  }
}

std::vector<std::pair<std::string, Tensor>> Session::gradients(
    const Batch& batch, const std::vector<std::pair<std::string, Tensor>>& seeds,
    const std::vector<std::string>& wrt, passes::Mode mode) {
  check_replicas_agree();
  forward_mode_ = mode;
  gradient_options_ = {};
  gradient_options_.wrt = wrt;
  std::string extra = mode == passes::Mode::kTrain ? "train" : "";
  Batch fed = batch;
  for (const auto& [name, seed] : seeds) {
    gradient_options_.seeds.push_back(name);
    fed.inputs.emplace_back("d" + name, seed);
    extra += "\n" + name;
  }
  for (const std::string& name : wrt) extra += "\r" + name;
  const int64_t rows = rows_of(batch);
  Loaded& loaded = plan_for({Kind::kGradient, MicroBatch::kOnly, rows, extra, 0});
  fed = in_types_of(*loaded.plan, std::move(fed));
  execute({&loaded, 0, rows}, 0, {}, fed, 0.0);
  share_statistics(loaded);
  std::vector<std::pair<std::string, Tensor>> result;
  for (const auto& [value, gradient] : loaded.context.gradients) {
    result.emplace_back(value, loaded.executors[0]->output(loaded.plan->output_index(gradient)));
  }
  return result;
}

}  // namespace sardonyx::runtime
