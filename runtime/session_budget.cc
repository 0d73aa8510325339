// --memory-budget: plans again, with more computed twice, until what is planned fits.
#include <algorithm>
#include <optional>

#include "graph/support/error.h"
#include "runtime/session.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

namespace {

constexpr int kRounds = 8;  // nearly always one is enough

std::map<std::string, int64_t> workspaces_of(const passes::Plan& plan) {
  std::map<std::string, int64_t> workspaces;
  for (const passes::Region& region : plan.regions) {
    if (region.blocked()) continue;
    for (const passes::Step& step : region.steps) {
      const graph::Value* first = step.node->output(0);
      if (first != nullptr && step.workspace_bytes > 0) {
        workspaces[first->name] = static_cast<int64_t>(step.workspace_bytes);
      }
    }
  }
  return workspaces;
}

}  // namespace

std::unique_ptr<Session::Loaded> Session::plan_in_budget(const PlanKey& key,
                                                         const passes::PassContext& context,
                                                         passes::StateTable& states) {
  std::unique_ptr<Loaded> best = plan_once(key, context, states);
  const auto planned = [&](const Loaded& loaded) {
    return replicas() * static_cast<int64_t>(states.bytes() + loaded.plan->arena_bytes);
  };
  const int64_t needed = planned(*best);
  passes::PassContext next = context;
  next.options.recompute.workspaces = workspaces_of(*best->plan);
  // The pass estimates what is alive: it is asked for less by as much as the plan is too large.
  int64_t most = options_.memory_budget / replicas() - static_cast<int64_t>(states.bytes());
  for (int round = 0; round < kRounds && planned(*best) > options_.memory_budget; ++round) {
    next.options.recompute.most_bytes = std::max<int64_t>(most, 1);
    std::unique_ptr<Loaded> made = plan_once(key, next, states);
    const int64_t excess = (planned(*made) - options_.memory_budget) / replicas();
    const bool went_as_low_as_it_can = made->context.live_bytes > most;
    if (planned(*made) < planned(*best)) best = std::move(made);
    if (went_as_low_as_it_can) break;
    most -= std::max<int64_t>(excess, 0);
  }
  if (planned(*best) <= options_.memory_budget) return best;
  throw Error(
      "--memory-budget {}: {} rows at once need {} bytes, and {} when all is computed again that "
      "saves something; use a smaller --micro-batch or a larger --accumulate",
      options_.memory_budget, key.rows, needed, planned(*best));
}

}  // namespace sardonyx::runtime
