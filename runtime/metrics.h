// What a run reports, and the machine-readable form of it: one JSON document per line.
//
// The trainer calls every listener in turn: the progress bar, --json on stdout, the file of --log
// and the curves of --plot are such listeners. Numbers are printed so that they read back to the
// same bits; what is not finite or not known is null. The keys are a promise to scripts: more may
// come, none goes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace sardonyx::runtime {

struct RunState;

// Known before the first step.
struct RunInfo {
  std::string model;  // for titles
  int64_t epochs = 1;
  int64_t steps_per_epoch = 0, total_steps = 0;
  int64_t steps_before = 0;  // done when a resumed run begins
  int64_t samples = 0;       // of the training set
  int64_t parameters = 0;
  std::string unit = "images";  // what a sample is called in "images/s"
};

struct StepRecord {
  int64_t step = 0;           // from 1, over the whole run
  int64_t epoch = 1;          // from 1
  int64_t step_in_epoch = 0;  // from 1
  double loss = 0, lr = 0, grad_norm = 0;
  bool skipped = false;            // its loss or gradient is not finite
  std::optional<double> accuracy;  // of this step's batch
  double images_per_s = 0;
};

struct EpochRecord {
  int64_t epoch = 1, step = 0;
  double lr = 0;              // of its last step
  int64_t skipped_steps = 0;  // not in the numbers of training
  double train_loss = 0;
  std::optional<double> train_accuracy, test_loss, test_accuracy;
  std::optional<double> test_top5_accuracy;  // with more than five classes
  bool best = false;                         // the best evaluation so far
  double images_per_s = 0, seconds = 0;      // of training, evaluation aside
};

struct RunSummary {
  bool done = true;     // false: stopped before its end
  std::string stopped;  // "SIGINT", "SIGTERM", "SIGHUP"; "early stop" of a run that is done
  int64_t step = 0, skipped_steps = 0;
  std::optional<double> best_test_accuracy;
  std::optional<int64_t> best_epoch;
  double seconds_per_epoch = 0;
  std::vector<std::string> devices;
  size_t peak_bytes = 0, planned_bytes = 0;              // of the process; of states and arena
  std::string saved, saved_best;                         // "" when nothing was
  std::vector<std::string> saved_data, saved_best_data;  // the data files of each
  std::string checkpoint;                                // the newest; "" when there is none
};

class TrainListener {
 public:
  virtual ~TrainListener() = default;
  virtual void begin(const RunInfo&) {}
  virtual void step(const StepRecord&) {}
  virtual void evaluation_begins() {}
  virtual void epoch(const EpochRecord&) {}
  // Behind each step, or behind the records of the epoch that it ends: where a run may be left and
  // taken up again.
  virtual void border(const RunState&) {}
  virtual void end(const RunSummary&) {}
};

std::string to_json(const StepRecord& record);
std::string to_json(const EpochRecord& record);
std::string to_json(const RunSummary& summary);

// Epoch lines and the summary, to a stream that is already open (stdout). A write that fails is a
// warning: it ends the lines, not the run; the stream keeps its error flag.
class JsonLines : public TrainListener {
 public:
  explicit JsonLines(std::FILE* file) : file_(file) {}
  void epoch(const EpochRecord& record) override { try_line(to_json(record)); }
  void end(const RunSummary& summary) override { try_line(to_json(summary)); }

 protected:
  void try_line(const std::string& text);
  std::FILE* file_;
  std::string name_ = "standard output";

 private:
  bool broken_ = false;
};

// The same and a line per step, to a file.
class LogFile final : public JsonLines {
 public:
  enum class Begin : uint8_t { kAnew, kAtItsEnd };
  // Throws Error when the file can't be made.
  explicit LogFile(const std::string& path, Begin begin = Begin::kAnew);
  ~LogFile() override;
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  void step(const StepRecord& record) override { try_line(to_json(record)); }
};

// The most memory this process has had resident so far.
size_t peak_rss_bytes();

}  // namespace sardonyx::runtime
