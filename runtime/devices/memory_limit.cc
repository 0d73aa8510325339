#include "runtime/devices/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "graph/support/error.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

namespace fs = std::filesystem;

namespace {

double machine_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// The file holds a number of bytes, or "max". Version 1 says "no limit" with a huge number.
void take(MemoryLimit& limit, const fs::path& file) {
  std::ifstream stream(file);
  std::string text;
  if (!(stream >> text)) return;
  const auto bytes = parse_number(text);
  if (!bytes || *bytes >= limit.bytes) return;
  limit = {*bytes, fmt::format("the control group of this process ({}) allows", file.string())};
}

// The group's own limit and those of all groups that it lies in.
void take_groups(MemoryLimit& limit, const fs::path& mount, fs::path group, const char* name) {
  group = group.relative_path();
  while (true) {
    take(limit, mount / group / name);
    if (group.empty()) return;
    group = group.parent_path();
  }
}

}  // namespace

MemoryLimit memory_limit(const fs::path& root) {
  MemoryLimit limit{machine_bytes(), "this machine has"};
  // NUMBER:CONTROLLERS:GROUP; version 2 names no controllers.
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::vector<std::string> controllers =
        split(std::string_view(line).substr(first + 1, second - first - 1), ',');
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      take_groups(limit, root / "sys/fs/cgroup", group, "memory.max");
    } else if (std::ranges::find(controllers, "memory") != controllers.end()) {
      take_groups(limit, root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
    }
  }
  return limit;
}

void require_memory(const PlannedMemory& planned, const MemoryLimit& limit) {
  const auto states = static_cast<double>(planned.state_bytes);
  const auto arena = static_cast<double>(planned.arena_bytes);
  const auto plans = static_cast<double>(planned.plan_bytes);
  const double all = planned.replicas * (states + arena + plans);
  if (all <= limit.bytes) return;
  throw Error(
      "the plan takes {} of memory ({}{} of states{} and {} for a micro-batch), but {} {}; use a "
      "smaller --micro-batch, a larger --accumulate{}, or let --memory-budget keep less",
      bytes_str(all),
      planned.replicas > 1 ? fmt::format("{} replicas, each ", planned.replicas) : "",
      bytes_str(states),
      plans > 0 ? fmt::format(", {} for inputs and constants", bytes_str(plans)) : "",
      bytes_str(arena), limit.owner, bytes_str(limit.bytes),
      planned.replicas > 1 ? " or fewer --replicas" : " or a smaller --batch");
}

}  // namespace sardonyx::runtime
