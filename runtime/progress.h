// What a person watches during a run: one line per epoch, and on a terminal a bar below it.
//
// The bar goes to stderr and is wiped before anything else is printed; the lines go to stdout.
// Where there is no terminal a long epoch gives a plain line now and then instead.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "runtime/metrics.h"

namespace sardonyx::runtime {

// Means since the epoch began, and what is left of the run.
struct Progress {
  RunInfo info;
  StepRecord last;
  double loss = 0;  // mean over the epoch's steps so far, skipped ones left out
  std::optional<double> accuracy;
  double images_per_s = 0;
  double seconds_left = 0;  // of the run, evaluations included
};

// "epoch 2/10 [====>     ] 120/235  loss 0.3412  ..." in at most `width` columns.
std::string bar_line(const Progress& progress, int width);
std::string epoch_line(const RunInfo& info, const EpochRecord& record);

class ProgressBar final : public TrainListener {
 public:
  explicit ProgressBar(std::FILE* terminal) : terminal_(terminal) {}
  ~ProgressBar() override { wipe(); }
  void begin(const RunInfo& info) override;
  void step(const StepRecord& record) override;
  void evaluation_begins() override;
  void epoch(const EpochRecord&) override { wipe(); }
  void end(const RunSummary&) override { wipe(); }

 private:
  using Clock = std::chrono::steady_clock;
  void wipe();
  void draw(const std::string& line);

  std::FILE* terminal_;
  Progress progress_;
  Clock::time_point began_, drawn_;
  double loss_sum_ = 0, accuracy_sum_ = 0, speed_sum_ = 0;
  // Steps; fewer than the epoch's in a run that was resumed inside it. taken_: not skipped.
  int64_t summed_ = 0, taken_ = 0;
  bool visible_ = false;
};

// Plain lines. `quiet_seconds`: after so long without one, a step's line is printed; 0: never.
class EpochLines final : public TrainListener {
 public:
  EpochLines(std::FILE* file, double quiet_seconds) : file_(file), quiet_seconds_(quiet_seconds) {}
  void begin(const RunInfo& info) override;
  void step(const StepRecord& record) override;
  void epoch(const EpochRecord& record) override;

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* file_;
  double quiet_seconds_;
  RunInfo info_;
  Clock::time_point printed_;
};

}  // namespace sardonyx::runtime
