// What plans may take: the memory that there is, and --memory-budget: plans with more and more
// computed again, until one fits.
//
// The plans of a key are a fixed sequence, whatever the budget: as without one, then every rung of
// recompute. A budget picks one of them and is refused only when none fits, so any budget from the
// smallest of them on is accepted.
#include <algorithm>
#include <utility>

#include "graph/support/error.h"
#include "runtime/devices/memory_limit.h"
#include "runtime/session.h"

namespace sardonyx::runtime {

namespace {

std::map<std::string, int64_t> alive_in(const passes::Plan& plan) {
  std::map<std::string, int64_t> alive;
  for (const passes::Region& region : plan.regions) {
    for (const passes::Step& step : region.steps) {
      const graph::Value* first = step.node->output(0);
      if (first != nullptr) alive[first->name] = static_cast<int64_t>(step.alive_bytes);
    }
  }
  return alive;
}

}  // namespace

Session::Fit Session::fit(const PlanKey& key, const passes::PassContext& context,
                          passes::StateTable& states, int64_t budget) {
  Fit fit;
  const auto fits = [&](std::unique_ptr<Loaded> made) {
    const int64_t bytes =
        replicas() * static_cast<int64_t>(states.bytes() + made->plan->arena_bytes);
    if (fit.usual == 0) fit.usual = fit.least = bytes;
    fit.least = std::min(fit.least, bytes);
    fit.block = made->context.options.block;
    if (bytes <= budget) fit.plan = std::move(made);
    return fit.plan != nullptr;
  };
  if (fits(plan_once(key, context, states))) return fit;

  passes::PassContext next = context;
  next.options.recompute.cost = 0;
  const std::unique_ptr<Loaded> kept = plan_once(key, next, states);
  next.options.recompute.cost = context.options.recompute.cost;
  next.options.recompute.alive = alive_in(*kept->plan);
  next.options.recompute.rung = 0;
  std::unique_ptr<Loaded> first = plan_once(key, next, states);
  const std::vector<int64_t> rungs = first->context.recomputed.rungs;
  if (fits(std::move(first))) return fit;
  // The estimate says where to begin; only plans say what fits.
  const int64_t room = budget / replicas() - static_cast<int64_t>(states.bytes());
  const auto begin = std::ranges::find_if(rungs, [&](int64_t bytes) { return bytes <= room; });
  std::vector<int> order;
  for (size_t i = 1; i < rungs.size(); ++i) order.push_back(static_cast<int>(i));
  const auto skipped = std::max<std::ptrdiff_t>(begin - rungs.begin() - 1, 0);
  std::rotate(order.begin(), order.begin() + std::min(skipped, std::ssize(order)), order.end());
  for (const int rung : order) {
    next.options.recompute.rung = rung;
    if (fits(plan_once(key, next, states))) return fit;
  }
  return fit;
}

std::unique_ptr<Session::Loaded> Session::plan_in_budget(const PlanKey& key,
                                                         const passes::PassContext& context,
                                                         passes::StateTable& states) {
  Fit found = fit(key, context, states, options_.memory_budget);
  if (found.plan != nullptr) return std::move(found.plan);
  const bool smaller = key.rows > 1;
  throw Error(
      "--memory-budget {}: {} row{} at once{} need{} {} bytes, and {} is the least when results "
      "are computed again; give that much{}{}",
      options_.memory_budget, key.rows, smaller ? "s" : "",
      replicas() > 1 ? fmt::format(" on each of {} replicas", replicas()) : "", smaller ? "" : "s",
      found.usual, least_budget(key, found, states),
      smaller ? ", or use a smaller --micro-batch or a larger --accumulate" : "",
      replicas() > 1 ? ", or fewer --replicas" : "");
}

// With which all plans fit that are wanted together with the refused one, whose states `states`
// has.
int64_t Session::least_budget(const PlanKey& refused_key, const Fit& refused,
                              passes::StateTable states) {
  // Which states there are in all is known at the end only.
  const auto arenas = [&](const Fit& fit) {
    return fit.least - replicas() * static_cast<int64_t>(states.bytes());
  };
  int64_t least = arenas(refused);
  for (const PlanKey& key : wanted_) {
    if (key == refused_key) continue;
    passes::PassContext context = context_for(key);
    if (context.options.block < 0) context.options.block = refused.block;
    const Fit own = fit(key, context, states, 0);
    least = std::max(least, arenas(own));
  }
  return least + replicas() * static_cast<int64_t>(states.bytes());
}

MemoryLimit Session::room_per_replica() const {
  MemoryLimit least;
  for (int first = 0; first < replicas(); ++first) {
    if (replicas_->place_of(first) != first) continue;
    int sharing = 0;
    for (int r = first; r < replicas(); ++r) sharing += replicas_->place_of(r) == first;
    MemoryLimit limit = replicas_->device(first).free_memory();
    limit.bytes /= sharing;
    if (least.owner.empty() || limit.bytes < least.bytes) least = limit;
  }
  return least;
}

void Session::require_room(int place, const passes::Plan& plan, size_t state_bytes) const {
  for (int first = 0; first < replicas(); ++first) {
    if (replicas_->place_of(first) != first) continue;
    const Device& device = replicas_->device(first);
    PlannedMemory planned{0, state_bytes, 0, 0};
    size_t reserved = device.reserved_bytes();
    const auto add = [&](const passes::Plan& other) {
      planned.arena_bytes = std::max(planned.arena_bytes, other.arena_bytes);
      planned.plan_bytes += device.plan_bytes(other);
    };
    for (const auto& [key, loaded] : plans_) {
      if (key.place == first && loaded != nullptr) add(*loaded->plan);
    }
    reserved += planned.plan_bytes;
    if (place == first) add(plan);
    for (int r = first; r < replicas(); ++r) {
      if (replicas_->place_of(r) == first) ++planned.replicas;
    }
    MemoryLimit limit = device.free_memory();
    limit.bytes += static_cast<double>(planned.replicas) * static_cast<double>(reserved);
    require_memory(planned, limit);
  }
}

}  // namespace sardonyx::runtime
