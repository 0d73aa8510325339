// Whether a plan fits into the memory that there is. Memory is reserved without being backed
// (huge_memory.h), so what doesn't fit would not fail: the system would end the process in a step.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace sardonyx::runtime {

struct MemoryLimit {
  double bytes = 0;
  std::string owner;  // "this machine has", "the control group of this process (FILE) allows"
};

// Of the memory of the machine and the limits of the process's control groups (version 1 and 2) the
// smallest. Files are looked for under `root`: tests bring their own.
MemoryLimit memory_limit(const std::filesystem::path& root = "/");

// Of one replica, all of which share the memory. `plan_bytes`: what plans keep beside the rest.
struct PlannedMemory {
  int replicas = 1;
  size_t state_bytes = 0, arena_bytes = 0, plan_bytes = 0;
};

// Throws Error: what is planned, what there is, what to do.
void require_memory(const PlannedMemory& planned, const MemoryLimit& limit);

}  // namespace sardonyx::runtime
