#include "runtime/devices/cores.h"

#include <sched.h>

namespace sardonyx::runtime {

namespace {

// One set of the C library is too small for the largest machines.
constexpr int kSets = 8;

}  // namespace

struct ScopedCore::Mask {
  cpu_set_t sets[kSets] = {};
};

const std::vector<int>& usable_cores() {
  static const std::vector<int> cores = [] {
    std::vector<int> usable;
    cpu_set_t sets[kSets] = {};
    if (sched_getaffinity(0, sizeof(sets), sets) == 0) {
      for (int core = 0; core < kSets * CPU_SETSIZE; ++core) {
        if (CPU_ISSET_S(static_cast<size_t>(core), sizeof(sets), sets)) usable.push_back(core);
      }
    }
    if (usable.empty()) usable.push_back(0);
    return usable;
  }();
  return cores;
}

// Where the system refuses, the thread runs as before: binding changes speed only.
ScopedCore::ScopedCore(int core) {
  if (core < 0) return;
  auto previous = std::make_unique<Mask>();
  if (sched_getaffinity(0, sizeof(previous->sets), previous->sets) != 0) return;
  Mask mask;
  CPU_SET_S(static_cast<size_t>(core), sizeof(mask.sets), mask.sets);
  if (sched_setaffinity(0, sizeof(mask.sets), mask.sets) == 0) previous_ = std::move(previous);
}

ScopedCore::~ScopedCore() {
  if (previous_ != nullptr) sched_setaffinity(0, sizeof(previous_->sets), previous_->sets);
}

}  // namespace sardonyx::runtime
