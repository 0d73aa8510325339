#include "runtime/measuring_tuner.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "graph/print.h"
#include "graph/support/error.h"
#include "graph/support/log.h"

namespace sardonyx::runtime {

namespace {

using ops::KernelDef;

// All measurements of a session; what comes later is left to the static table.
constexpr double kMostSeconds = 60;
// Between two lines about the progress.
constexpr double kQuietSeconds = 3;
// A smaller gain is noise: the choice of the table stays, and with it the bits of other runs.
constexpr double kLeastGain = 1.03;
// Requests in a row whose times don't agree, before the machine counts as busy.
constexpr int kMostUnsteady = 3;

std::string types_text(const std::vector<graph::TensorType>& types) {
  std::string text;
  for (const graph::TensorType& type : types) {
    if (!text.empty()) text += ", ";
    if (type.dtype == graph::DType::kUndefined) {
      text += "-";
    } else {
      text += fmt::format("{}{}{}", graph::dtype_name(type.dtype), graph::shape_str(type.shape()),
                          type.layout.str());
    }
  }
  return text;
}

}  // namespace

std::string tuning_key(const ops::KernelRequest& request, passes::RunsOn runs_on) {
  const graph::Node& node = *request.node;
  std::string attributes;
  for (const auto& [name, value] : node.attributes) {
    attributes += fmt::format(" {}={}", name, graph::print(value));
  }
  return fmt::format("{}{}{}({}) -> {}{}{}", node.domain, node.domain.empty() ? "" : ".", node.op,
                     types_text(request.in), types_text(request.out), attributes,
                     runs_on == passes::RunsOn::kOneThread ? " on one thread" : "");
}

const KernelDef* MeasuringTuner::fastest(const std::vector<const KernelDef*>& candidates,
                                         const ops::KernelRequest& request, passes::RunsOn runs_on,
                                         int64_t turns) {
  const std::string key = tuning_key(request, runs_on);
  std::string question = key;
  for (const KernelDef* kernel : candidates) question += "|" + kernel->name;
  auto it = choices_.find(question);
  if (it == choices_.end()) {
    const TuningCache::Times times = times_of(candidates, request, runs_on, key);
    Choice choice{request.node->label(), candidates[0]->name, candidates[0]->name};
    if (!times.empty()) {
      choice.table_seconds = choice.chosen_seconds = times.at(choice.table);
      for (const KernelDef* kernel : candidates) {
        const double seconds = times.at(kernel->name);
        if (seconds >= choice.chosen_seconds || seconds * kLeastGain > choice.table_seconds) {
          continue;
        }
        choice.chosen = kernel->name;
        choice.chosen_seconds = seconds;
      }
    }
    it = choices_.emplace(question, std::move(choice)).first;
  }
  const Choice& choice = it->second;
  ++it->second.nodes;
  ++gain_.nodes;
  if (choice.chosen != choice.table) ++gain_.changed;
  gain_.seconds += static_cast<double>(turns) * (choice.table_seconds - choice.chosen_seconds);
  return *std::find_if(candidates.begin(), candidates.end(),
                       [&](const KernelDef* kernel) { return kernel->name == choice.chosen; });
}

// Empty: the static table decides. Only kernels without a time are measured.
TuningCache::Times MeasuringTuner::times_of(const std::vector<const KernelDef*>& candidates,
                                            const ops::KernelRequest& request,
                                            passes::RunsOn runs_on, const std::string& key) {
  const TuningCache::Times* known = cache_.find(key);
  TuningCache::Times times = known == nullptr ? TuningCache::Times{} : *known;
  std::vector<const KernelDef*> unknown;
  for (const KernelDef* kernel : candidates) {
    if (!times.contains(kernel->name)) unknown.push_back(kernel);
  }
  if (unknown.empty()) {
    ++known_;
    return times;
  }
  const bool stops = busy_ || seconds_ >= kMostSeconds || (stop_ && stop_());
  if (stops || !measure(unknown, request, runs_on, times)) {
    ++left_;
    return {};
  }
  ++measured_;
  if (seconds_ - told_ > kQuietSeconds) {
    told_ = seconds_;
    support::notice("tuning: {} requests measured in {:.1f} s ...", measured_, seconds_);
  }
  cache_.put(key, times);
  return times;
}

bool MeasuringTuner::measure(const std::vector<const KernelDef*>& kernels,
                             const ops::KernelRequest& request, passes::RunsOn runs_on,
                             TuningCache::Times& times) {
  const auto start = std::chrono::steady_clock::now();
  const KernelTimes measured = clock_(kernels, request, runs_on);
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (measured.seconds.empty()) return false;
  if (measured.spread > kMostSpread) {
    note_unsteady(measured.spread);
    return false;
  }
  unsteady_in_row_ = 0;
  for (size_t i = 0; i < kernels.size(); ++i) times[kernels[i]->name] = measured.seconds[i];
  return true;
}

void MeasuringTuner::note_unsteady(double spread) {
  ++unsteady_;
  if (++unsteady_in_row_ < kMostUnsteady) return;
  busy_ = true;
  const std::string how_far =
      std::isfinite(spread) ? fmt::format(" (the last differ by a factor of {:.2f})", spread) : "";
  support::notice(
      "tuning: the machine is too busy with other programs to measure{}: {} requests in a row gave "
      "no two alike times. Nothing is written to the tuning cache, the rest is left to the static "
      "table; tune again when the machine is idle",
      how_far, unsteady_in_row_);
}

std::vector<MeasuringTuner::Choice> MeasuringTuner::choices() const {
  std::vector<Choice> all;
  for (const auto& [question, choice] : choices_) {
    if (choice.table_seconds > 0) all.push_back(choice);
  }
  return all;
}

std::vector<MeasuringTuner::Choice> MeasuringTuner::changed() const {
  std::vector<Choice> changed;
  for (const auto& [question, choice] : choices_) {
    if (choice.chosen != choice.table) changed.push_back(choice);
  }
  return changed;
}

std::string MeasuringTuner::summary() const {
  std::string text = fmt::format("tuning: {} request{} measured in {:.1f} s", measured_,
                                 measured_ == 1 ? "" : "s", seconds_);
  if (known_ > 0) text += fmt::format(", {} known from {}", known_, cache_.file().string());
  if (left_ > 0) text += fmt::format(", {} left to the static table", left_);
  if (unsteady_ > 0) text += fmt::format(" ({} because their times didn't agree)", unsteady_);
  return text;
}

}  // namespace sardonyx::runtime
