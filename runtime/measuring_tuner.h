// The tuner of a session: measures what the cache doesn't know, on the threads of rank 0.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "passes/tuner.h"
#include "runtime/devices/kernel_clock.h"
#include "runtime/tuning_cache.h"

namespace sardonyx::runtime {

// As measure_kernels on the threads of a device.
using KernelClock =
    std::function<KernelTimes(const std::vector<const ops::KernelDef*>& kernels,
                              const ops::KernelRequest& request, passes::RunsOn runs_on)>;
// Whether measuring should end: what is left goes to the static table.
using StopWish = std::function<bool()>;

// What the choices of a plan, or of a step, change against the static table.
struct TuningGain {
  int nodes = 0, changed = 0;  // that several kernels can run; that take another one
  double seconds = 0;          // less, expected
};

// What a request looks like in the cache: operator, types, layouts, attributes, threads.
std::string tuning_key(const ops::KernelRequest& request, passes::RunsOn runs_on);

class MeasuringTuner final : public passes::Tuner {
 public:
  struct Choice {
    std::string node;  // the first that asked
    std::string table, chosen;
    double table_seconds = 0, chosen_seconds = 0;
    int nodes = 0;  // that asked
    friend bool operator==(const Choice&, const Choice&) = default;
  };

  MeasuringTuner(KernelClock clock, TuningCache cache, StopWish stop = {})
      : clock_(std::move(clock)), cache_(std::move(cache)), stop_(std::move(stop)) {}

  const ops::KernelDef* fastest(const std::vector<const ops::KernelDef*>& candidates,
                                const ops::KernelRequest& request, passes::RunsOn runs_on,
                                int64_t turns) override;

  // Keeps new times on disk, unless the machine turned out to be busy.
  void save() {
    if (!busy_) cache_.save();
  }

  void begin_plan() { gain_ = {}; }
  const TuningGain& gain() const { return gain_; }  // since begin_plan

  int measured() const { return measured_; }  // requests
  int known() const { return known_; }        // from the cache
  // To the static table: out of time, not measurable, or times that don't agree.
  int left() const { return left_; }
  int unsteady() const { return unsteady_; }  // of these, the last
  bool busy() const { return busy_; }         // too many of them in a row: measuring has ended
  double seconds() const { return seconds_; }
  std::vector<Choice> choices() const;  // for which there are times
  std::vector<Choice> changed() const;  // against the static table
  // "tuning: 12 requests measured in 3.2 s, 4 known from FILE, 2 left to the static table"
  std::string summary() const;

 private:
  TuningCache::Times times_of(const std::vector<const ops::KernelDef*>& candidates,
                              const ops::KernelRequest& request, passes::RunsOn runs_on,
                              const std::string& key);

  // Adds what the clock says of `kernels` to `times`; false: nothing that can be relied on.
  bool measure(const std::vector<const ops::KernelDef*>& kernels, const ops::KernelRequest& request,
               passes::RunsOn runs_on, TuningCache::Times& times);
  void note_unsteady(double spread);

  KernelClock clock_;
  TuningCache cache_;
  StopWish stop_;
  TuningGain gain_;
  std::map<std::string, Choice> choices_;  // by request and candidates
  int measured_ = 0, known_ = 0, left_ = 0, unsteady_ = 0, unsteady_in_row_ = 0;
  bool busy_ = false;
  double seconds_ = 0, told_ = 0;
};

}  // namespace sardonyx::runtime
