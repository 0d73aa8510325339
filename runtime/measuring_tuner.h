// The tuner of a session: measures what the cache doesn't know, on the threads of rank 0.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "passes/tuner.h"
#include "runtime/tuning_cache.h"

namespace sardonyx::runtime {

// Seconds of each kernel for a request, in their order; empty: they can't be measured.
using KernelClock =
    std::function<std::vector<double>(const std::vector<const ops::KernelDef*>& kernels,
                                      const ops::KernelRequest& request, passes::RunsOn runs_on)>;

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

  MeasuringTuner(KernelClock clock, TuningCache cache)
      : clock_(std::move(clock)), cache_(std::move(cache)) {}

  const ops::KernelDef* fastest(const std::vector<const ops::KernelDef*>& candidates,
                                const ops::KernelRequest& request, passes::RunsOn runs_on) override;

  // Keeps new times on disk.
  void save() { cache_.save(); }

  int measured() const { return measured_; }  // requests
  int known() const { return known_; }        // from the cache
  int left() const { return left_; }          // to the static table: out of time, or not measurable
  double seconds() const { return seconds_; }
  std::vector<Choice> changed() const;  // against the static table
  // "tuning: 12 requests measured in 3.2 s, 4 known from FILE; 5 nodes don't take the kernel of the
  // table"
  std::string summary() const;

 private:
  TuningCache::Times times_of(const std::vector<const ops::KernelDef*>& candidates,
                              const ops::KernelRequest& request, passes::RunsOn runs_on,
                              const std::string& key);

  KernelClock clock_;
  TuningCache cache_;
  std::map<std::string, Choice> choices_;  // by request and candidates
  int measured_ = 0, known_ = 0, left_ = 0;
  double seconds_ = 0, told_ = 0;
};

}  // namespace sardonyx::runtime
