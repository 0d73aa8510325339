// The loop of training on synthetic data: which steps, which records, what can't be trained.
#include "runtime/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "graph/onnx_export.h"
#include "graph/support/error.h"
#include "graph/support/log.h"
#include "models/lenet.h"
#include "runtime/usage.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::runtime {
namespace {

using sardonyx::testing::error_of;

struct Recorder : TrainListener {
  RunInfo info;
  std::vector<StepRecord> steps;
  std::vector<EpochRecord> epochs;
  std::vector<RunState> borders;
  void begin(const RunInfo& run) override { info = run; }
  void step(const StepRecord& record) override { steps.push_back(record); }
  void epoch(const EpochRecord& record) override { epochs.push_back(record); }
  void border(const RunState& state) override { borders.push_back(state); }
};

Flags small_run() {
  Flags flags;
  flags.model = "lenet.onnx";
  flags.data = "synthetic:100";
  flags.batch = 32;
  flags.lr = 0.05;
  flags.threads = 1;
  return flags;
}

// A LeNet for 1 x 16 x 16 images; `rows`: a baked batch.
std::unique_ptr<Session> open_session(const Flags& flags, int64_t rows = -1) {
  models::ImageModel options;
  options.height = options.width = 16;
  options.init = graph::parse_init("kaiming", 3);
  auto graph = models::lenet(options);
  if (rows > 0) {
    graph->inputs()[0]->type.dims[0] = graph::Dim(rows);
    graph->outputs()[0]->type.dims[0] = graph::Dim(rows);
  }
  return std::make_unique<Session>(graph::Model::from_bytes(graph::to_onnx_bytes(*graph)),
                                   session_options(flags));
}

struct Result {
  Recorder recorder;
  RunSummary summary;
  std::unique_ptr<Session> session;
};

// `data`, but for some samples whose first element is NaN.
class Spoiled final : public Dataset {
 public:
  Spoiled(std::shared_ptr<const Dataset> data, std::set<int64_t> samples)
      : Dataset(data->info()), data_(std::move(data)), samples_(std::move(samples)) {}
  std::span<const std::byte> sample(const Pick& pick, std::span<std::byte> room) const override {
    const std::span<const std::byte> bytes = data_->sample(pick, room);
    if (!samples_.contains(pick.index)) return bytes;
    if (bytes.data() != room.data()) std::copy(bytes.begin(), bytes.end(), room.begin());
    const float nan = NAN;
    std::memcpy(room.data(), &nan, sizeof(nan));
    return room;
  }
  std::span<const std::byte> label(int64_t index, std::span<std::byte> room) const override {
    return data_->label(index, room);
  }

 private:
  std::shared_ptr<const Dataset> data_;
  std::set<int64_t> samples_;
};

struct Conditions {
  int64_t baked = -1;
  int64_t stop_after = INT64_MAX;  // steps of this run
  std::set<int64_t> spoiled = {};  // training samples that hold NaN
  const Result* left = nullptr;    // the run that goes on
};

void take_up(const Result& left, Session& session, Trainer& trainer) {
  trainer.prepare();
  std::vector<std::pair<std::string, graph::Tensor>> values;
  for (const SavedState& saved : left.session->saved_states()) {
    values.emplace_back(saved.name, left.session->state(saved.name));
  }
  const RunState& state = left.recorder.borders.back();
  session.restore(values, state.step);
  trainer.resume(state);
}

Result train_on(const Flags& flags, const Conditions& conditions) {
  Result result;
  result.session = open_session(flags, conditions.baked);
  const Feed feed = find_feed(*result.session, flags);
  const TrainerOptions options = trainer_options(flags, feed.baked_rows());
  const int64_t rows = cut_batch(options.batch.batch, options.batch.cut)[0][0];
  FedData data = open_data(*result.session, feed, flags, rows, DataUse::kTraining);
  if (!conditions.spoiled.empty()) {
    data.train = std::make_shared<Spoiled>(data.train, conditions.spoiled);
  }
  Trainer trainer(*result.session, feed, data, options);
  if (conditions.left != nullptr) take_up(*conditions.left, *result.session, trainer);
  result.summary = trainer.run({&result.recorder}, [&] {
    return static_cast<int64_t>(result.recorder.steps.size()) >= conditions.stop_after;
  });
  return result;
}

Result train(const Flags& flags, int64_t baked = -1, int64_t stop_after = INT64_MAX) {
  return train_on(flags, {.baked = baked, .stop_after = stop_after});
}

std::vector<double> losses(const Result& result) {
  std::vector<double> values;
  for (const StepRecord& record : result.recorder.steps) values.push_back(record.loss);
  return values;
}

TEST(Trainer, an_epoch_takes_every_sample_once_and_ends_with_an_evaluation) {
  Flags flags = small_run();
  flags.epochs = 2;
  const Result result = train(flags);
  const Recorder& seen = result.recorder;
  EXPECT_EQ(seen.info.steps_per_epoch, 4);  // 32 + 32 + 32 + 4
  EXPECT_EQ(seen.info.total_steps, 8);
  EXPECT_EQ(seen.info.samples, 100);
  ASSERT_EQ(seen.steps.size(), 8u);
  EXPECT_EQ(seen.steps[5].step, 6);
  EXPECT_EQ(seen.steps[5].epoch, 2);
  EXPECT_EQ(seen.steps[5].step_in_epoch, 2);
  ASSERT_EQ(seen.epochs.size(), 2u);
  EXPECT_EQ(seen.epochs[0].step, 4);
  EXPECT_TRUE(seen.epochs[0].test_accuracy.has_value());
  EXPECT_TRUE(seen.epochs[0].test_top5_accuracy.has_value());
  EXPECT_GT(seen.epochs[1].images_per_s, 0);
  EXPECT_TRUE(result.summary.done);
  EXPECT_EQ(result.summary.devices, std::vector<std::string>{"cpu"});
  EXPECT_GT(result.summary.planned_bytes, 0u);
}

TEST(Trainer, training_loss_of_an_epoch_is_the_mean_over_samples_not_over_steps) {
  const Result result = train(small_run());
  const std::vector<double> step = losses(result);
  const double mean = (32 * (step[0] + step[1] + step[2]) + 4 * step[3]) / 100;
  EXPECT_NEAR(result.recorder.epochs[0].train_loss, mean, 1e-6);
}

TEST(Trainer, learns_the_patterns_of_synthetic_data) {
  Flags flags = small_run();
  flags.data = "synthetic:500";
  flags.epochs = 10;
  const Result result = train(flags);
  EXPECT_LT(result.recorder.epochs.back().train_loss,
            0.5 * result.recorder.epochs.front().train_loss);
  EXPECT_GT(result.summary.best_test_accuracy.value_or(0), 0.5);
}

TEST(Trainer, steps_may_end_inside_an_epoch) {
  Flags flags = small_run();
  flags.steps = 6;
  const Result result = train(flags);
  ASSERT_EQ(result.recorder.epochs.size(), 2u);
  EXPECT_EQ(result.recorder.epochs[1].step, 6);
  EXPECT_TRUE(result.recorder.epochs[1].test_loss.has_value());
  EXPECT_TRUE(result.summary.done);
}

TEST(Trainer, accumulation_gives_the_step_of_the_whole_batch) {
  Flags flags = small_run();
  flags.dtype = "f64";
  flags.momentum = 0.9;
  const std::vector<double> whole = losses(train(flags));
  flags.accumulate = 3;
  const std::vector<double> pieces = losses(train(flags));
  ASSERT_EQ(whole.size(), pieces.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], pieces[i], 1e-12) << i;
}

TEST(Trainer, same_seed_same_bits_another_seed_another_order) {
  Flags flags = small_run();
  const std::vector<double> first = losses(train(flags));
  EXPECT_EQ(first, losses(train(flags)));
  flags.seed = 1;
  EXPECT_NE(first, losses(train(flags)));
}

TEST(Trainer, stops_after_the_step_in_progress) {
  const Result result = train(small_run(), -1, 2);
  EXPECT_FALSE(result.summary.done);
  EXPECT_EQ(result.summary.step, 2);
  EXPECT_EQ(result.recorder.steps.size(), 2u);
  EXPECT_TRUE(result.recorder.epochs.empty());
  EXPECT_EQ(result.session->steps(), 2);
}

TEST(Trainer, a_run_that_was_left_inside_an_epoch_goes_on_bit_for_bit) {
  Flags flags = small_run();
  flags.epochs = 3;
  flags.momentum = 0.9;
  flags.schedule = "cosine";
  const Result whole = train(flags);
  const Result left = train(flags, -1, 6);
  ASSERT_EQ(left.recorder.borders.size(), 6u);
  const RunState& state = left.recorder.borders.back();
  EXPECT_EQ(state.step, 6);
  EXPECT_EQ(state.position, (SamplerPosition{1, 64}));
  EXPECT_EQ(state.sums.steps, 2);

  const Result resumed = train_on(flags, {.left = &left});
  EXPECT_EQ(resumed.recorder.info.steps_before, 6);
  ASSERT_EQ(resumed.recorder.steps.size(), 6u);
  EXPECT_EQ(resumed.recorder.steps[0].step, 7);
  EXPECT_EQ(resumed.recorder.steps[0].step_in_epoch, 3);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(resumed.recorder.steps[i].loss, whole.recorder.steps[i + 6].loss) << i;
    EXPECT_EQ(resumed.recorder.steps[i].lr, whole.recorder.steps[i + 6].lr) << i;
  }
  ASSERT_EQ(resumed.recorder.epochs.size(), 2u);
  EXPECT_EQ(resumed.recorder.epochs[0].train_loss, whole.recorder.epochs[1].train_loss);
  EXPECT_EQ(resumed.summary.best_test_accuracy, whole.summary.best_test_accuracy);
  for (const SavedState& saved : whole.session->saved_states()) {
    EXPECT_TRUE(resumed.session->state(saved.name).identical(whole.session->state(saved.name)))
        << saved.name;
  }
}

TEST(Trainer, borders_lie_behind_steps_and_behind_the_records_of_an_epoch) {
  Flags flags = small_run();
  flags.steps = 6;  // 4 + 2
  const Result result = train(flags);
  const std::vector<RunState>& borders = result.recorder.borders;
  ASSERT_EQ(borders.size(), 6u);
  EXPECT_EQ(borders[3].position, (SamplerPosition{1, 0}));
  EXPECT_EQ(borders[3].sums, EpochSums{});
  EXPECT_EQ(borders[3].best.accuracy, result.recorder.epochs[0].test_accuracy);
  // The run's end evaluates inside an epoch; a longer run would not have done that.
  EXPECT_EQ(borders[5].sums.steps, 2);
  EXPECT_EQ(borders[5].best_regular, borders[3].best);
}

TEST(Trainer, an_evaluation_of_the_run_s_end_stays_the_best_when_the_run_goes_on) {
  Flags flags = small_run();
  flags.steps = 6;  // 4 + 2
  const Result first = train(flags);
  ASSERT_TRUE(first.recorder.epochs[1].best);
  EXPECT_EQ(first.recorder.borders[5].best.accuracy, first.recorder.epochs[1].test_accuracy);
  flags.steps = 12;
  flags.lr = 0;  // the epochs that follow are as good, not better
  const Result longer = train_on(flags, {.left = &first});
  ASSERT_EQ(longer.recorder.epochs.size(), 2u);
  for (const EpochRecord& epoch : longer.recorder.epochs) {
    EXPECT_EQ(epoch.test_accuracy, first.recorder.epochs[1].test_accuracy);
    EXPECT_FALSE(epoch.best);
  }
  EXPECT_EQ(longer.summary.best_epoch, 2);
}

TEST(Trainer, early_stop_goes_by_evaluations_that_a_longer_run_makes_too) {
  Flags flags = small_run();
  flags.steps = 6;
  const Result first = train(flags);
  flags.steps = 40;
  flags.lr = 0;
  flags.early_stop = 2;
  // As good as the end of the first run, so epoch 2 is better than epoch 1 and 4 is the last.
  EXPECT_EQ(train_on(flags, {.left = &first}).summary.step, 16);
}

TEST(Trainer, nothing_is_left_to_do_behind_the_last_step) {
  const Flags flags = small_run();
  const Result whole = train(flags);
  const auto session = open_session(flags);
  const Feed feed = find_feed(*session, flags);
  const FedData data = open_data(*session, feed, flags, 32, DataUse::kTraining);
  Trainer trainer(*session, feed, data, trainer_options(flags, -1));
  trainer.resume(whole.recorder.borders.back());
  Recorder recorder;
  const RunSummary summary = trainer.run({&recorder}, [] { return false; });
  EXPECT_TRUE(summary.done);
  EXPECT_EQ(summary.step, 4);
  EXPECT_TRUE(recorder.steps.empty());
  EXPECT_EQ(summary.best_test_accuracy, whole.summary.best_test_accuracy);
}

TEST(Trainer, stop_with_the_last_step_is_a_finished_run) {
  const Result result = train(small_run(), -1, 4);
  EXPECT_TRUE(result.summary.done);
  EXPECT_EQ(result.recorder.epochs.size(), 1u);
}

TEST(Trainer, rate_follows_schedule_warmup_and_scaling) {
  Flags flags = small_run();
  flags.epochs = 2;
  flags.schedule = "step:1,0.5";
  flags.warmup = "2steps";
  flags.lr_scaling = "linear";
  flags.base_batch = 64;  // lr 0.05 * 32 / 64
  const Result result = train(flags);
  std::vector<double> rates;
  for (const StepRecord& record : result.recorder.steps) rates.push_back(record.lr);
  const std::vector<double> expected = {0.0125, 0.025,  0.025,  0.025,
                                        0.0125, 0.0125, 0.0125, 0.0125};
  ASSERT_EQ(rates.size(), expected.size());
  for (size_t i = 0; i < rates.size(); ++i) EXPECT_NEAR(rates[i], expected[i], 1e-15) << i;
}

TEST(Trainer, evaluates_every_so_many_epochs_and_at_the_end) {
  Flags flags = small_run();
  flags.epochs = 3;
  flags.eval_every = 2;
  const Result result = train(flags);
  EXPECT_FALSE(result.recorder.epochs[0].test_loss);
  EXPECT_TRUE(result.recorder.epochs[1].test_loss);
  EXPECT_TRUE(result.recorder.epochs[2].test_loss);
  flags.eval_every = 0;
  EXPECT_FALSE(train(flags).recorder.epochs[2].test_loss);
}

Flags skipping_run(const std::string& on_nan) {
  Flags flags = small_run();
  flags.shuffle = false;  // batch n begins with sample 32 n
  flags.momentum = 0.9;
  flags.on_nan = on_nan;
  return flags;
}

TEST(Trainer, skipped_steps_count_as_steps_and_nowhere_else) {
  Flags flags = skipping_run("skip");
  flags.epochs = 2;
  const Result result = train_on(flags, {.spoiled = {40}});
  ASSERT_EQ(result.recorder.steps.size(), 8u);
  for (const StepRecord& step : result.recorder.steps) {
    EXPECT_EQ(step.skipped, step.step_in_epoch == 2) << step.step;
    EXPECT_EQ(std::isnan(step.loss), step.skipped) << step.step;
    EXPECT_EQ(step.accuracy.has_value(), !step.skipped) << step.step;
  }
  EXPECT_EQ(result.recorder.epochs[1].skipped_steps, 1);
  const auto loss = [&](size_t step) { return result.recorder.steps[step].loss; };
  EXPECT_NEAR(result.recorder.epochs[0].train_loss,
              (loss(0) * 32 + loss(2) * 32 + loss(3) * 4) / 68, 1e-6);
  EXPECT_EQ(result.summary.skipped_steps, 2);
  EXPECT_EQ(result.session->state("optimizer/step").as_double(0), 6);
}

TEST(Trainer, an_epoch_without_a_step_taken_has_no_loss) {
  Flags flags = skipping_run("skip");
  const Result result = train_on(flags, {.spoiled = {0, 32, 64, 96}});
  EXPECT_TRUE(std::isnan(result.recorder.epochs[0].train_loss));
  EXPECT_FALSE(result.recorder.epochs[0].train_accuracy);
  EXPECT_EQ(result.session->state("optimizer/step").as_double(0), 0);
}

TEST(Trainer, too_many_skipped_steps_in_a_row_are_an_error) {
  const Flags flags = skipping_run("skip:2");
  EXPECT_EQ(train_on(flags, {.spoiled = {0, 32, 96}}).summary.skipped_steps, 3);
  const std::string error = error_of([&] { train_on(flags, {.spoiled = {0, 32, 64}}); });
  EXPECT_TRUE(error.starts_with("step 3: the loss is not finite (nan)")) << error;
  EXPECT_TRUE(error.find("while going on behind 2 skipped steps in a row (--on-nan)") !=
              std::string::npos)
      << error;
  EXPECT_TRUE(error_of([&] {
                train_on(skipping_run("stop"), {.spoiled = {40}});
              }).starts_with("step 2: the loss is not finite (nan)"));
}

TEST(Trainer, skipped_steps_in_a_row_are_counted_across_a_stop) {
  const Flags flags = skipping_run("skip:2");
  const Result left = train_on(flags, {.stop_after = 2, .spoiled = {0, 32, 64}});
  EXPECT_EQ(left.recorder.borders.back().skipped_in_row, 2);
  const std::string error = error_of([&] {
    train_on(flags, {.spoiled = {0, 32, 64}, .left = &left});
  });
  EXPECT_TRUE(error.starts_with("step 3: the loss is not finite (nan)")) << error;
}

TEST(Trainer, averages_and_moments_go_on_bit_for_bit) {
  Flags flags = small_run();
  flags.epochs = 3;
  flags.optimizer = "adamw";
  flags.lr = 0.01;
  flags.groups = {"fc*:lr=0.02,wd=0.1"};
  flags.no_decay = {"bias"};
  flags.clip_norm = 1;
  flags.ema = 0.9;
  const Result whole = train(flags);
  const Result left = train(flags, -1, 6);
  const Result resumed = train_on(flags, {.left = &left});
  EXPECT_EQ(resumed.summary.best_test_accuracy, whole.summary.best_test_accuracy);
  EXPECT_EQ(resumed.recorder.epochs.back().test_loss, whole.recorder.epochs.back().test_loss);
  EXPECT_TRUE(whole.session->state("ema/conv1.weight").dtype() == graph::DType::kFloat32);
  for (const SavedState& saved : whole.session->saved_states()) {
    EXPECT_TRUE(resumed.session->state(saved.name).identical(whole.session->state(saved.name)))
        << saved.name;
  }
}

TEST(Trainer, stops_early_when_no_epoch_was_better_for_a_while) {
  Flags flags = small_run();
  flags.epochs = 10;
  flags.lr = 0;  // nothing gets better
  flags.early_stop = 2;
  const Result result = train(flags);
  EXPECT_TRUE(result.summary.done);
  EXPECT_EQ(result.summary.stopped, "early stop");
  EXPECT_EQ(result.summary.step, 12);
  EXPECT_EQ(result.summary.best_epoch, 1);
  ASSERT_EQ(result.recorder.epochs.size(), 3u);
  EXPECT_TRUE(result.recorder.epochs[0].best);
  EXPECT_FALSE(result.recorder.epochs[1].best);
  // It doesn't go on by itself, but with more patience it does.
  EXPECT_TRUE(train_on(flags, {.left = &result}).recorder.steps.empty());
  flags.early_stop = 3;
  EXPECT_EQ(train_on(flags, {.left = &result}).summary.step, 16);
}

TEST(Trainer, stops_early_only_at_an_evaluation) {
  Flags flags = small_run();
  flags.epochs = 10;
  flags.lr = 0;
  flags.early_stop = 1;
  flags.eval_every = 3;
  const Result result = train(flags);
  EXPECT_EQ(result.summary.step, 24);  // evaluated in epochs 3 and 6
  EXPECT_EQ(result.summary.best_epoch, 3);
}

TEST(Trainer, what_judges_epochs_needs_evaluations) {
  Flags flags = small_run();
  flags.early_stop = 2;
  flags.eval_every = 0;
  EXPECT_EQ(error_of([&] { trainer_options(flags, -1); }),
            "--early-stop judges by evaluations, and --eval-every 0 makes none");
  flags.save_best = "best.onnx";
  EXPECT_EQ(error_of([&] { trainer_options(flags, -1); }),
            "--early-stop and --save-best judge by evaluations, and --eval-every 0 makes none");
  flags.early_stop = 0;
  EXPECT_EQ(trainer_options(small_run(), -1).judged_by, "");
  flags.eval_every = 1;
  EXPECT_EQ(trainer_options(flags, -1).judged_by, "--save-best");
}

TEST(Trainer, a_baked_batch_is_the_default_and_needs_whole_batches) {
  Flags flags = small_run();
  flags.batch.reset();
  const auto run = [&] { train(flags, 24); };
  EXPECT_EQ(error_of(run).substr(0, 75),
            "the model has the batch 24 baked in, but the last batch of an epoch has 4 r");
  flags.drop_last = true;
  flags.data = "synthetic:500";
  std::vector<std::string> notices;
  const support::ScopedLogSink sink(
      [&](support::LogLevel, std::string_view line) { notices.emplace_back(line); });
  const Result result = train(flags, 24);
  EXPECT_EQ(result.recorder.info.steps_per_epoch, 20);
  EXPECT_TRUE(result.recorder.epochs[0].test_loss.has_value());
  EXPECT_NE(std::find(notices.begin(), notices.end(),
                      "evaluation leaves out the last 4 of 100 samples: the model has the batch "
                      "24 baked in; --set-batch takes them, too, where that is provably right"),
            notices.end())
      << (notices.empty() ? "" : notices.back());
}

TEST(Trainer, a_baked_batch_is_accumulated_when_the_batch_is_a_multiple) {
  Flags flags = small_run();
  flags.batch = 50;
  flags.micro_batch = 25;
  flags.eval_every = 0;
  EXPECT_EQ(train(flags, 25).recorder.steps.size(), 2u);
  flags.batch = 49;
  EXPECT_EQ(
      error_of([&] { train(flags, 25); }),
      "the model has the batch 25 baked in, but the batch of 49 is cut into pieces of 24; use "
      "--micro-batch 25 and a --batch that is a multiple of it, or export with a dynamic batch "
      "axis");
  flags.batch = 50;
  flags.micro_batch.reset();
  EXPECT_EQ(train(flags, 25).recorder.steps.size(), 2u) << "micro-batches of 25 by itself";
}

TEST(Trainer, a_test_part_smaller_than_a_baked_batch_is_refused_before_training) {
  Flags flags = small_run();
  flags.batch = 25;
  EXPECT_EQ(
      error_of([&] { train(flags, 25); }),
      "synthetic (test) has 20 samples, fewer than the batch 25 that is baked into the model; "
      "--set-batch takes any number where that is provably right, and training works without "
      "evaluation, with --eval-every 0");
}

TEST(Trainer, contradicting_flags_are_usage_errors) {
  Flags flags = small_run();
  flags.epochs = 1;
  flags.steps = 1;
  EXPECT_THROW(trainer_options(flags, -1), UsageError);
  flags.steps.reset();
  flags.epochs = 0;
  EXPECT_THROW(trainer_options(flags, -1), UsageError);
  flags.epochs = 1;
  flags.lr_scaling = "linear";
  EXPECT_EQ(error_of([&] { trainer_options(flags, -1); }),
            "--lr-scaling linear needs --base-batch: the batch that --lr is meant for");
}

TEST(Trainer, evaluation_counts_every_sample_once) {
  const Flags flags = small_run();
  const auto session = open_session(flags);
  const Feed feed = find_feed(*session, flags);
  const FedData data = open_data(*session, feed, flags, 32, DataUse::kEvaluateTrain);
  const EvalResult pieces = evaluate(*session, feed, data.train, 32);
  const EvalResult whole = evaluate(*session, feed, data.train, 100);
  EXPECT_EQ(pieces.rows, 100);
  EXPECT_EQ(pieces.weight, 100);
  EXPECT_EQ(pieces.correct, whole.correct);
  EXPECT_NEAR(mean_loss(pieces), mean_loss(whole), 1e-5);
}

}  // namespace
}  // namespace sardonyx::runtime
