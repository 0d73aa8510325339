// The loop of training: batches from a data set through a session's steps, an evaluation after each
// epoch, records to listeners. What a step is stands in runtime/session.h; how results are shown,
// in the listeners.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/batch_cut.h"
#include "runtime/data/sampler.h"
#include "runtime/evaluate.h"
#include "runtime/feed.h"
#include "runtime/lr_schedule.h"
#include "runtime/metrics.h"
#include "runtime/run_state.h"
#include "runtime/session.h"

namespace sardonyx::runtime {

class Prefetcher;

struct TrainerOptions {
  BatchSetup batch;
  // One of the two: whole epochs, or steps (the last epoch may stay unfinished).
  int64_t epochs = 1;
  std::optional<int64_t> steps;
  double lr = 0.01;
  LrSchedule schedule;
  uint64_t seed = 0;
  SampleOrder order = SampleOrder::kShuffled;
  Tail tail = Tail::kKeep;
  int64_t eval_every = 1;      // epochs; the last one is always evaluated; 0: none is
  int64_t early_stop = 0;      // epochs without a better evaluation that end the run; 0: none do
  std::string judged_by;       // the flags that need evaluations, for messages; "": none does
  int64_t most_skips = 0;      // steps in a row that --on-nan skip leaves out; then it is an error
  int64_t check_replicas = 0;  // steps between two comparisons of all states; 0: never
};

// From flags; throws UsageError. `baked`: as Feed::baked_rows().
TrainerOptions trainer_options(const Flags& flags, int64_t baked);

class Trainer {
 public:
  // The session, the data and the listeners outlive the trainer. Throws Error for lengths that make
  // no sense, and for a short last batch that a baked batch can't take.
  Trainer(Session& session, const Feed& feed, const FedData& data, TrainerOptions options);

  const RunInfo& info() const { return info_; }
  // As they are used: the model may ask for another cut, the data set the schedule's length.
  const TrainerOptions& options() const { return options_; }
  const RunState& state() const { return state_; }
  // Before run(): goes on where another run was left; its values must be in the session already.
  void resume(const RunState& state);
  // Builds all plans. Called by run(); earlier for reports without a step.
  void prepare();
  // Until the end, or until `stop` gives true after a step (then done is false). Everything is
  // reported except end(): the caller adds to the summary what it saved.
  RunSummary run(const std::vector<TrainListener*>& listeners, const std::function<bool()>& stop);

 private:
  SamplerOptions sampler_options() const;
  bool train_epoch(int64_t epoch, Prefetcher& prefetcher, const std::function<bool()>& stop);
  const LoadedBatch* next_batch(Prefetcher& prefetcher) const;
  std::shared_ptr<const StepInput> input_of(const LoadedBatch& loaded, int64_t step) const;
  // `upcoming`: of the step behind, null when it isn't there yet.
  StepRecord step(const LoadedBatch& loaded, const LoadedBatch* upcoming);
  StepResult take_step(const std::shared_ptr<const StepInput>& input);
  void close_epoch(int64_t epoch, RunSummary& summary);
  EpochRecord epoch_record(int64_t epoch);
  void border();
  bool wants_evaluation(int64_t epoch) const;
  void check_replicas() const;
  bool is_over() const;  // at its length, or by --early-stop
  template <class Call>
  void tell(Call&& call) const {
    for (TrainListener* listener : listeners_) call(*listener);
  }

  Session& session_;
  const Feed& feed_;
  const FedData& data_;
  TrainerOptions options_;
  RunInfo info_;
  std::vector<TrainListener*> listeners_;
  RunState state_;
  std::shared_ptr<const StepInput> next_;       // that the session was told; null: none
  std::chrono::steady_clock::time_point last_;  // end of the last step
};

}  // namespace sardonyx::runtime
