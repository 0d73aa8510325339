// The six OpenMP entry points that oneDNN uses, on ops::ThreadPool. Defined in the executable, they
// come before libgomp's in symbol lookup.
#include "runtime/devices/omp_shim.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "runtime/devices/waiting.h"

namespace sardonyx::runtime {

namespace {

// The threads of one parallel region. Sense-reversing barrier: every thread waits for the round to
// change.
struct Team {
  int size = 1;
  Waiting waiting = Waiting::kSleep;
  std::atomic<int> arrived{0};
  std::atomic<uint32_t> round{0};

  void barrier() {
    const uint32_t now = round.load(std::memory_order_relaxed);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
      arrived.store(0, std::memory_order_relaxed);
      round.store(now + 1, std::memory_order_release);
      round.notify_all();
      return;
    }
    wait_for_change(round, now, waiting);
  }
};

thread_local ops::ThreadPool* current_pool = nullptr;
thread_local Team* current_team = nullptr;
thread_local int current_thread = 0;

}  // namespace

ScopedOmpPool::ScopedOmpPool(ops::ThreadPool* pool)
    : previous_(current_pool), threads_(pool != nullptr ? pool->size() : 1) {
  current_pool = pool;
}
ScopedOmpPool::~ScopedOmpPool() { current_pool = previous_; }

}  // namespace sardonyx::runtime

using sardonyx::runtime::current_pool;
using sardonyx::runtime::current_team;
using sardonyx::runtime::current_thread;
using sardonyx::runtime::Team;

extern "C" {

// While a kernel is made there is no pool yet, only the number that will run it. Never more than
// there are cores: oneDNN's own barriers spin, and a spinning thread keeps the core from the one it
// waits for.
int omp_get_max_threads() {
  static const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return current_team == nullptr ? std::clamp(sardonyx::ops::library_threads, 1, cores) : 1;
}
int omp_get_num_threads() { return current_team != nullptr ? current_team->size : 1; }
int omp_get_thread_num() { return current_team != nullptr ? current_thread : 0; }
int omp_in_parallel() { return current_team != nullptr ? 1 : 0; }

void GOMP_barrier() {
  if (current_team != nullptr) current_team->barrier();
}

void GOMP_parallel(void (*function)(void*), void* data, unsigned num_threads, unsigned) {
  const int most = current_pool != nullptr ? omp_get_max_threads() : 1;
  const int threads = num_threads == 0 || static_cast<int>(num_threads) > most
                          ? most
                          : static_cast<int>(num_threads);
  Team team;
  team.size = threads;
  team.waiting = sardonyx::runtime::waiting_of(threads);
  const auto member = [&](int thread) {
    Team* outer_team = current_team;
    const int outer_thread = current_thread;
    current_team = &team;
    current_thread = thread;
    function(data);
    current_team = outer_team;
    current_thread = outer_thread;
  };
  if (threads == 1) {
    member(0);
    return;
  }
  // One task per thread: barriers inside wait for every member.
  current_pool->run(threads, member);
}

}  // extern "C"
