#include "runtime/measuring_tuner.h"

#include <algorithm>
#include <chrono>

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
                                         const ops::KernelRequest& request,
                                         passes::RunsOn runs_on) {
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
  ++it->second.nodes;
  return *std::find_if(candidates.begin(), candidates.end(),
                       [&](const KernelDef* kernel) { return kernel->name == it->second.chosen; });
}

// Empty: not measured.
TuningCache::Times MeasuringTuner::times_of(const std::vector<const KernelDef*>& candidates,
                                            const ops::KernelRequest& request,
                                            passes::RunsOn runs_on, const std::string& key) {
  const TuningCache::Times* known = cache_.find(key);
  const auto is_known = [&](const KernelDef* kernel) { return known->contains(kernel->name); };
  if (known != nullptr && std::all_of(candidates.begin(), candidates.end(), is_known)) {
    ++known_;
    return *known;
  }
  std::vector<double> seconds;
  if (seconds_ < kMostSeconds) {
    const auto start = std::chrono::steady_clock::now();
    seconds = clock_(candidates, request, runs_on);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (seconds.empty()) {
    ++left_;
    return {};
  }
  ++measured_;
  if (seconds_ - told_ > kQuietSeconds) {
    told_ = seconds_;
    support::notice("tuning: {} requests measured in {:.1f} s ...", measured_, seconds_);
  }
  TuningCache::Times times;
  for (size_t i = 0; i < candidates.size(); ++i) times[candidates[i]->name] = seconds[i];
  cache_.put(key, times);
  return times;
}

std::vector<MeasuringTuner::Choice> MeasuringTuner::changed() const {
  std::vector<Choice> changed;
  for (const auto& [question, choice] : choices_) {
    if (choice.chosen != choice.table) changed.push_back(choice);
  }
  return changed;
}

std::string MeasuringTuner::summary() const {
  int nodes = 0;
  for (const Choice& choice : changed()) nodes += choice.nodes;
  std::string text = fmt::format("tuning: {} requests measured in {:.1f} s", measured_, seconds_);
  if (known_ > 0) text += fmt::format(", {} known from {}", known_, cache_.file().string());
  if (left_ > 0) text += fmt::format(", {} left to the static table", left_);
  return text + fmt::format("; {} nodes take another kernel than by the static table", nodes);
}

}  // namespace sardonyx::runtime
