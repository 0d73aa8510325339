#include "passes/plan.h"

#include <algorithm>

#include "graph/print.h"
#include "graph/support/text.h"
#include "passes/arena.h"
#include "passes/buckets.h"

namespace sardonyx::passes {

void StateTable::add(const graph::Graph& graph) {
  for (const graph::Value* state : graph.states()) {
    const auto it = index_.find(state->name);
    if (it != index_.end()) {
      CHECK(entries_[it->second].type.same_storage(state->type),
            "state '{}' has type {} here and {} in an earlier plan", state->name, state->type.str(),
            entries_[it->second].type.str());
      continue;
    }
    index_[state->name] = entries_.size();
    entries_.push_back({state->name, state->type, state->role, state->data, state->origin, bytes_});
    bytes_ += align_up(state->type.bytes());
  }
}

const StateTable::Entry* StateTable::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &entries_[it->second];
}

int Plan::input_index(std::string_view name) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int Plan::output_index(std::string_view name) const {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int64_t Plan::steps() const {
  size_t count = 0;
  for (const Region& region : regions) count += region.steps.size();
  return static_cast<int64_t>(count);
}

int64_t Plan::blocked_regions() const { return std::ranges::count_if(regions, &Region::blocked); }

namespace {

std::string counted(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// What would be 0.0 MiB is told in KiB.
std::string mib(size_t bytes) {
  const double kib = static_cast<double>(bytes) / 1024;
  return kib < 51.2 ? fmt::format("{:.1f} KiB", kib) : fmt::format("{:.1f} MiB", kib / 1024);
}

std::string location_str(const Location& location) {
  static constexpr const char* kNames[] = {"-", "state", "arena", "local", "constant", "input"};
  const auto* name = kNames[static_cast<int>(location.space)];
  if (location.space == Space::kNone) return name;
  const std::string stride =
      location.block_stride > 0 ? fmt::format("/{}", location.block_stride) : "";
  return fmt::format("{}+{}{}", name, location.offset, stride);
}

std::string operands(const std::vector<Location>& locations) {
  std::string text;
  for (const Location& location : locations) {
    text += (text.empty() ? "" : ", ") + location_str(location);
  }
  return text;
}

}  // namespace

std::string states_in_words(const Plan& plan) {
  using graph::StateRole;
  static constexpr std::pair<StateRole, const char*> kWords[] = {
      {StateRole::kParameter, "parameters"},
      {StateRole::kStatistic, "statistics"},
      {StateRole::kOptimizer, "state of the optimizer"},
      {StateRole::kAccumulator, "sums of gradients"}};
  const std::vector<graph::Value*> states = plan.graph->states();
  std::string text;
  for (const auto& [role, word] : kWords) {
    if (std::ranges::find(states, role, &graph::Value::role) == states.end()) continue;
    text += (text.empty() ? "" : ", ") + std::string(word);
  }
  return text.empty() ? "none" : text;
}

std::string summary(const Plan& plan) {
  const MemoryReport& memory = plan.memory;
  std::string text = fmt::format(
      "summary\n  batch {}, {}: {} in {}, {} of which {} block by block\n"
      "  memory {}: states {} ({}), arena {} (everything else)\n"
      "  of the arena {} must be there at once{}; without reuse it would be {}\n",
      plan.batch, counted(plan.threads, "thread"), counted(plan.steps(), "step"),
      counted(std::ssize(plan.regions), "region"), plan.blocked_regions(),
      plan.blocked_regions() == 1 ? "runs" : "run", mib(memory.state_bytes + memory.arena_bytes),
      mib(memory.state_bytes), states_in_words(plan), mib(memory.arena_bytes),
      mib(memory.liveness_bound_bytes),
      memory.peak_node.empty() ? "" : ", at node " + memory.peak_node, mib(memory.sum_bytes));
  for (const std::string& remark : plan.remarks) {
    text += "  " + support::printable(remark) + "\n";
  }
  return text;
}

std::string print(const Plan& plan) {
  std::string text = fmt::format(
      "plan: batch {}, {} threads, arena {} bytes (liveness bound {}, without reuse {}), state {} "
      "bytes\n",
      plan.batch, plan.threads, plan.arena_bytes, plan.memory.liveness_bound_bytes,
      plan.memory.sum_bytes, plan.memory.state_bytes);
  text += print_buckets(plan);
  for (size_t r = 0; r < plan.regions.size(); ++r) {
    const Region& region = plan.regions[r];
    if (region.blocked()) {
      text += fmt::format("region {}: {} blocks of {} rows{}, {} local bytes per thread\n", r,
                          region.blocks, region.block_rows,
                          region.tail_rows > 0 ? fmt::format(" (last {})", region.tail_rows) : "",
                          region.local_bytes);
    } else {
      text += fmt::format("region {}: whole batch\n", r);
    }
    for (const Step& step : region.steps) {
      text += fmt::format("  {:<24} {}\n      ({}) -> ({}){}\n", step.def->name,
                          graph::print(*step.node), operands(step.inputs), operands(step.outputs),
                          step.accumulate ? " accumulating" : "");
    }
    for (const Reduction& sum : region.sums) {
      text += fmt::format("  sum of {} partials at local+{} {} {}\n", sum.count, sum.partial_offset,
                          sum.accumulate ? "added to" : "into", location_str(sum.target));
    }
  }
  for (const StateCopy& copy : plan.copies) {
    text += fmt::format("copy {} bytes: {} -> state+{}\n", copy.bytes, location_str(copy.from),
                        copy.state_offset);
  }
  return text;
}

}  // namespace sardonyx::passes
