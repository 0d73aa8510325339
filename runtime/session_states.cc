// What a session hands to a checkpoint and takes back: the states that live across steps, and the
// kernels of its training plans.
#include <algorithm>

#include "graph/support/error.h"
#include "graph/support/text.h"
#include "runtime/finite.h"
#include "runtime/session.h"

namespace sardonyx::runtime {

using graph::Tensor;
using support::in_quotes;

std::vector<SavedState> Session::saved_states() const {
  std::vector<SavedState> saved;
  for (const auto& entry : states_.entries()) {
    if (entry.role == graph::StateRole::kAccumulator) continue;  // lives inside one step
    saved.push_back({entry.name, entry.type});
  }
  return saved;
}

std::string Session::first_non_finite_state() const {
  for (const SavedState& saved : saved_states()) {
    const Tensor value = state(saved.name);
    if (!all_finite(value.aligned_data(), value.type())) return saved.name;
  }
  return "";
}

namespace {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

std::vector<std::string> differences(const std::vector<SavedState>& states,
                                     const NamedTensors& values) {
  std::map<std::string, const Tensor*> given;
  for (const auto& [name, value] : values) given[name] = &value;
  std::vector<std::string> lines;
  for (const SavedState& state : states) {
    const auto found = given.find(state.name);
    if (found == given.end()) {
      lines.push_back(fmt::format("{} {} is missing", in_quotes(state.name), state.type.str()));
      continue;
    }
    const Tensor& value = *found->second;
    if (value.dtype() != state.type.dtype || value.shape() != state.type.shape()) {
      lines.push_back(fmt::format("{} is {}, the model has {}", in_quotes(state.name),
                                  value.type().str(), state.type.str()));
    }
    given.erase(found);
  }
  for (const auto& [name, value] : given) {
    lines.push_back(fmt::format("{} {} is not in the model", in_quotes(name), value->type().str()));
  }
  return lines;
}

}  // namespace

void Session::restore(const NamedTensors& values, int64_t steps) {
  const std::vector<SavedState> states = saved_states();
  const std::vector<std::string> lines = differences(states, values);
  if (!lines.empty()) {
    std::string text;
    for (const std::string& line : lines) text += "\n  " + line;
    throw Error("the saved states don't fit this model and optimizer, {} of them differ{}:{}",
                lines.size(), lines.size() == 1 ? "s" : "", text);
  }
  for (const auto& [name, value] : values) set_state(name, value);
  step_ = steps;
  split_.clear();
}

namespace {

std::string plan_name(passes::MicroBatch micro_batch, int64_t rows) {
  constexpr const char* kNames[] = {"only", "first",      "middle",      "last",
                                    "none", "none first", "none middle", "none last"};
  return fmt::format("{} {}", kNames[static_cast<size_t>(micro_batch)], rows);
}

}  // namespace

// Of training, on the same device.
bool Session::has_larger_plan(const PlanKey& key) const {
  return std::any_of(plans_.begin(), plans_.end(), [&](const auto& plan) {
    return plan.first.kind == Kind::kTrain && plan.second != nullptr &&
           plan.first.rows > key.rows && plan.first.place == key.place;
  });
}

// The table of the plan, for a key that a checkpoint may know.
KernelChoices::Table Session::replayed_kernels(const PlanKey& key) const {
  if (key.place != 0) return {};  // a table of another device
  const KernelChoices& choices = options_.replay;
  KernelChoices::Table table = choices.kernels;
  if (tuner_ != nullptr && has_larger_plan(key)) table = kernel_choices().kernels;
  const auto own = choices.others.find(plan_name(key.micro_batch, key.rows));
  if (own == choices.others.end()) return table;
  for (const auto& [node, kernel] : own->second) table[node] = kernel;
  return table;
}

KernelChoices Session::kernel_choices() const {
  KernelChoices choices{options_.pipeline.block, options_.pipeline.lanes, {}, {}};
  int64_t most = -1;
  for (const auto& [key, loaded] : plans_) {
    if (key.kind != Kind::kTrain || key.place != 0 || loaded == nullptr) continue;
    if (key.rows <= most) continue;
    choices.kernels = loaded->plan->kernels;
    most = key.rows;
  }
  for (const auto& [key, loaded] : plans_) {
    if (key.kind != Kind::kTrain || key.place != 0 || loaded == nullptr) continue;
    KernelChoices::Table different;
    for (const auto& [node, kernel] : loaded->plan->kernels) {
      const auto common = choices.kernels.find(node);
      if (common == choices.kernels.end() || common->second != kernel) different[node] = kernel;
    }
    if (!different.empty()) {
      choices.others[plan_name(key.micro_batch, key.rows)] = std::move(different);
    }
  }
  return choices;
}

}  // namespace sardonyx::runtime
