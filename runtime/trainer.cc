#include "runtime/trainer.h"
#include "runtime/single_rows.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <tuple>

#include "graph/support/error.h"
#include "runtime/data/prefetch.h"
#include "runtime/text.h"
#include "runtime/usage.h"

namespace sardonyx::runtime {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

bool counts_classes(const passes::LossOptions& loss) {
  return loss.loss_output.empty() && passes::takes_classes(loss.kind);
}

// Steps in a row that --on-nan skip leaves out before it stops.
constexpr int64_t kDefaultSkips = 10;

// Of --on-nan stop | skip[:N].
int64_t most_skips(const Flags& flags) {
  const size_t colon = flags.on_nan.find(':');
  const std::string kind = flags.on_nan.substr(0, colon);
  check_choice("--on-nan", kind, {"stop", "skip"});
  if (colon == std::string::npos) return kind == "stop" ? 0 : kDefaultSkips;
  const auto count = parse_whole(flags.on_nan.substr(colon + 1));
  if (kind == "stop" || !count || *count < 1) {
    throw UsageError("--on-nan {}: expected stop, skip, or skip:N with N from 1", flags.on_nan);
  }
  return *count;
}

// Takes the evaluation of `record` as the best one if it is better; says whether it did.
bool take(BestEvaluation& best, const EpochRecord& record) {
  const BestEvaluation now{record.epoch, record.test_loss.value_or(NAN), record.test_accuracy};
  const bool first = !best.epoch;
  const bool better = now.accuracy ? first || *now.accuracy > best.accuracy.value_or(0.0)
                                   : now.loss < (first ? HUGE_VAL : best.loss);
  if (better) best = now;
  return better;
}

// The first piece that hasn't the number of rows that the file demands; nullopt: there is none.
std::optional<int64_t> odd_piece(const Cut& pieces, int64_t baked) {
  for (const auto& sizes : pieces) {
    for (const int64_t rows : sizes) {
      if (rows != baked) return rows;
    }
  }
  return {};
}

void check_baked(int64_t baked, int64_t first_size, const std::vector<int64_t>& sizes,
                 const CutOptions& cut) {
  if (baked < 0) return;
  for (const int64_t size : sizes) {
    const auto rows = odd_piece(cut_batch(size, cut), baked);
    if (!rows) continue;
    if (size == first_size) {
      throw Error(
          "the model has the batch {} baked in, but the batch of {} is cut into pieces of {}; use "
          "--micro-batch {} and a --batch that is a multiple of it, or export with a dynamic batch "
          "axis",
          baked, size, *rows, baked);
    }
    throw Error(
        "the model has the batch {} baked in, but the last batch of an epoch has {} rows; add "
        "--drop-last, or --set-batch, or export with a dynamic batch axis",
        baked, size);
  }
}

}  // namespace

TrainerOptions trainer_options(const Flags& flags, int64_t baked) {
  if (flags.epochs && flags.steps) {
    throw UsageError("--epochs {} and --steps {}: give one of them", *flags.epochs, *flags.steps);
  }
  for (const auto& [flag, value, least] :
       {std::tuple{"--epochs", flags.epochs, 1}, {"--steps", flags.steps, 0}}) {
    if (value) check_count(flag, *value);
    if (value && *value < least) {
      throw UsageError("{} {}: expected at least {}", flag, *value, least);
    }
  }
  if (flags.check_replicas < 0) {
    throw UsageError("--check-replicas {}: expected a number of steps, or 0 for never",
                     flags.check_replicas);
  }
  if (flags.eval_every < 0) {
    throw UsageError("--eval-every {}: expected a number of epochs, or 0 for never",
                     flags.eval_every);
  }
  TrainerOptions options;
  options.batch = batch_setup(flags, baked);
  options.epochs = flags.epochs.value_or(1);
  options.steps = flags.steps;
  options.lr = base_lr(flags, options.batch.batch);
  options.schedule = lr_schedule(flags);
  options.seed = flags.seed;
  options.order = flags.shuffle ? SampleOrder::kShuffled : SampleOrder::kSequential;
  options.tail = flags.drop_last ? Tail::kDrop : Tail::kKeep;
  options.eval_every = flags.eval_every;
  options.check_replicas = flags.check_replicas;
  options.most_skips = most_skips(flags);
  options.early_stop = flags.early_stop;
  if (flags.early_stop < 0) {
    throw UsageError("--early-stop {}: expected a number of epochs, or 0 for never",
                     flags.early_stop);
  }
  std::vector<std::string> judges;
  if (flags.early_stop > 0) judges.emplace_back("--early-stop");
  if (!flags.save_best.empty()) judges.emplace_back("--save-best");
  options.judged_by = join(judges, " and ");
  if (!judges.empty() && options.eval_every == 0) {
    throw UsageError("{} judge{} by evaluations, and --eval-every 0 makes none", options.judged_by,
                     judges.size() == 1 ? "s" : "");
  }
  return options;
}

Trainer::Trainer(Session& session, const Feed& feed, const FedData& data, TrainerOptions options)
    : session_(session), feed_(feed), data_(data), options_(std::move(options)) {
  CHECK(data_.train != nullptr, "there is nothing to train on");
  const std::vector<int64_t> batches =
      Sampler(data_.train->size(), sampler_options()).batch_sizes();
  if (join_singles(session_, batches, options_.batch.cut) && options_.tail == Tail::kKeep) {
    options_.tail = Tail::kJoinSingle;
  }
  const Sampler sampler(data_.train->size(), sampler_options());
  check_baked(feed_.baked_rows(), options_.batch.batch, sampler.batch_sizes(), options_.batch.cut);
  if (data_.test != nullptr && options_.eval_every > 0) check_evaluation(feed_, *data_.test);
  if (data_.test == nullptr && !options_.judged_by.empty()) {
    throw Error("{}: {} has no test part to judge an epoch by", options_.judged_by, data_.name);
  }
  info_.model = session_.model().path().filename().string() + " on " + data_.name;
  info_.steps_per_epoch = sampler.batches_per_epoch();
  info_.total_steps = options_.steps.value_or(options_.epochs * info_.steps_per_epoch);
  info_.epochs = (info_.total_steps + info_.steps_per_epoch - 1) / info_.steps_per_epoch;
  info_.samples = data_.train->size();
  info_.parameters = data_.parameters;
  info_.unit = sample_word(*data_.train);
  options_.schedule.set_length(info_.steps_per_epoch, info_.total_steps);
}

void Trainer::resume(const RunState& state) {
  state_ = state;
  info_.steps_before = state.step;
}

SamplerOptions Trainer::sampler_options() const {
  return {options_.batch.batch, options_.seed, options_.order, options_.tail};
}

void Trainer::prepare() {
  std::vector<Cut> cuts;
  for (const int64_t size : Sampler(data_.train->size(), sampler_options()).batch_sizes()) {
    cuts.push_back(cut_batch(size, options_.batch.cut));
  }
  session_.prepare_training(cuts);
}

bool Trainer::wants_evaluation(int64_t epoch) const {
  if (data_.test == nullptr || options_.eval_every == 0) return false;
  return epoch == info_.epochs || epoch % options_.eval_every == 0;
}

RunSummary Trainer::run(const std::vector<TrainListener*>& listeners,
                        const std::function<bool()>& stop) {
  listeners_ = listeners;
  next_ = nullptr;
  PrefetchOptions ahead;
  ahead.batches = std::max<int64_t>(info_.total_steps - state_.step, 0);
  Prefetcher prefetcher(data_.train,
                        Sampler(data_.train->size(), sampler_options(), state_.position), ahead);
  prepare();
  tell([&](TrainListener& listener) { listener.begin(info_); });
  RunSummary summary;
  summary.done = is_over() || !stop();
  for (int64_t epoch = state_.position.epoch + 1; !is_over() && summary.done; ++epoch) {
    summary.done = train_epoch(epoch, prefetcher, stop);
    if (!summary.done) break;
    close_epoch(epoch, summary);
    summary.done = is_over() || !stop();
  }
  if (summary.done && state_.step < info_.total_steps) summary.stopped = "early stop";
  summary.step = state_.step;
  summary.best_test_accuracy = state_.best.accuracy;
  summary.best_epoch = state_.best.epoch;
  summary.skipped_steps = state_.skipped;
  summary.devices = session_.options().devices;
  summary.planned_bytes = session_.planned_bytes();
  summary.peak_bytes = peak_rss_bytes();
  return summary;
}

// From the state alone, so that a run that has stopped early doesn't go on when it is resumed.
bool Trainer::is_over() const {
  if (state_.step >= info_.total_steps) return true;
  const auto [epoch, position] = state_.position;
  if (options_.early_stop == 0 || position != 0 || epoch % options_.eval_every != 0) return false;
  return epoch - state_.best_regular.epoch.value_or(0) >= options_.early_stop;
}

// False: stopped before the epoch's end.
bool Trainer::train_epoch(int64_t epoch, Prefetcher& prefetcher,
                          const std::function<bool()>& stop) {
  last_ = Clock::now();
  for (bool more = true; more;) {
    const LoadedBatch* loaded = next_batch(prefetcher);
    CHECK(loaded != nullptr, "the loader ended before step {}", state_.step + 1);
    StepRecord record = step(*loaded, prefetcher.peek());
    record.epoch = epoch;
    tell([&](TrainListener& listener) { listener.step(record); });
    more = !loaded->last_of_epoch && state_.step < info_.total_steps;
    if (more) border();
    if (more && stop()) return false;
  }
  return true;
}

const LoadedBatch* Trainer::next_batch(Prefetcher& prefetcher) const {
  const ScopedSpan span(session_.recorder(), kLoopTrack, {Span::What::kLoad});
  return prefetcher.next();
}

// What listeners do here, such as writing a checkpoint, is no training time.
void Trainer::border() {
  const Clock::time_point before = Clock::now();
  tell([&](TrainListener& listener) { listener.border(state_); });
  last_ += Clock::now() - before;
}

std::shared_ptr<const StepInput> Trainer::input_of(const LoadedBatch& loaded, int64_t step) const {
  return std::make_shared<const StepInput>(StepInput{
      session_batch(feed_, *data_.train, loaded), cut_batch(loaded.slice.count, options_.batch.cut),
      options_.schedule.rate(options_.lr, step)});
}

StepResult Trainer::take_step(const std::shared_ptr<const StepInput>& input) {
  const auto step = [&](NonFinite non_finite) {
    return session_.train_step(input, non_finite, next_);
  };
  if (state_.skipped_in_row < options_.most_skips) return step(NonFinite::kSkip);
  if (state_.skipped_in_row == 0) return step(NonFinite::kStop);
  return with_context(
      [&] {
        return fmt::format("going on behind {} skipped steps in a row (--on-nan)",
                           state_.skipped_in_row);
      },
      [&] { return step(NonFinite::kStop); });
}

StepRecord Trainer::step(const LoadedBatch& loaded, const LoadedBatch* upcoming) {
  EpochSums& sums = state_.sums;
  const auto input = next_ != nullptr ? next_ : input_of(loaded, state_.step);
  next_ = upcoming != nullptr ? input_of(*upcoming, state_.step + 1) : nullptr;
  const double lr = input->lr;
  const StepResult result = take_step(input);
  const Clock::time_point now = Clock::now();
  const double seconds = seconds_between(last_, now);
  last_ = now;
  ++state_.step;
  if (options_.check_replicas > 0 && state_.step % options_.check_replicas == 0) check_replicas();
  state_.position = loaded.next;
  sums.seconds += seconds;
  if (result.skipped) {
    ++sums.skipped;
    ++state_.skipped;
    ++state_.skipped_in_row;
  } else {
    state_.skipped_in_row = 0;
    sums.loss += result.loss_sum;
    sums.weight += result.weight;
    sums.correct += result.correct;
  }
  sums.rows += result.rows;
  sums.lr = lr;
  StepRecord record;
  record.step = state_.step;
  record.step_in_epoch = ++sums.steps;
  record.loss = result.loss;
  record.lr = lr;
  record.grad_norm = result.grad_norm;
  record.skipped = result.skipped;
  if (!result.skipped && counts_classes(session_.options().pipeline.loss) && result.weight > 0) {
    record.accuracy = result.correct / result.weight;
  }
  record.images_per_s = static_cast<double>(result.rows) / std::max(seconds, 1e-9);
  return record;
}

void Trainer::check_replicas() const {
  const std::string difference = session_.replica_difference();
  if (!difference.empty()) {
    throw Error("the replicas are no longer copies of one model after step {}: {}", state_.step,
                difference);
  }
}

// The epoch is over, or the run ends inside it.
void Trainer::close_epoch(int64_t epoch, RunSummary& summary) {
  EpochRecord record = epoch_record(epoch);
  summary.seconds_per_epoch = (state_.seconds + record.seconds) / static_cast<double>(epoch);
  const bool whole = state_.position.position == 0;
  if (wants_evaluation(epoch)) {
    record.best = take(state_.best, record);
    if (whole && epoch % options_.eval_every == 0) take(state_.best_regular, record);
  }
  if (whole) {
    state_.seconds += record.seconds;
    state_.sums = {};
  }
  tell([&](TrainListener& listener) { listener.epoch(record); });
  border();
}

EpochRecord Trainer::epoch_record(int64_t epoch) {
  const EpochSums& sums = state_.sums;
  EpochRecord record;
  record.epoch = epoch;
  record.step = state_.step;
  record.lr = sums.lr;
  record.skipped_steps = sums.skipped;
  if (sums.skipped == sums.steps) record.train_loss = NAN;
  if (sums.weight > 0) {
    record.train_loss = sums.loss / sums.weight;
    const bool classes = counts_classes(session_.options().pipeline.loss);
    if (classes) record.train_accuracy = sums.correct / sums.weight;
  }
  record.seconds = sums.seconds;
  record.images_per_s = static_cast<double>(sums.rows) / std::max(record.seconds, 1e-9);
  if (!wants_evaluation(epoch)) return record;
  tell([](TrainListener& listener) { listener.evaluation_begins(); });
  const ScopedSpan span(session_.recorder(), kLoopTrack, {Span::What::kEvaluation, epoch});
  const EvalResult result =
      evaluate(session_, feed_, data_.test, largest_micro_batch(options_.batch));
  record.test_loss = mean_loss(result);
  warn_unless_finite(result);
  record.test_accuracy = accuracy(result);
  record.test_top5_accuracy = top5_accuracy(result);
  return record;
}

}  // namespace sardonyx::runtime
