// The pool of a replica: which thread runs what, pools inside the tasks of another pool, and
// threads bound to cores.
#include "runtime/devices/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <thread>

#include "graph/support/error.h"
#include "runtime/devices/cores.h"

namespace sardonyx::runtime {
namespace {

TEST(WorkerPool, task_i_runs_on_thread_i_modulo_the_size) {
  WorkerPool pool(3, Waiting::kSleep, {});
  std::array<std::thread::id, 7> ids;
  pool.run(7, [&](int i) { ids[static_cast<size_t>(i)] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(ids[i], ids[i + 3]);
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[2], ids[1]);
}

TEST(WorkerPool, inside_a_task_its_own_pool_is_serial_and_another_pool_is_not) {
  WorkerPool outer(2, Waiting::kSleep, {});
  WorkerPool inner(2, Waiting::kSleep, {});
  std::atomic<int> own{0}, others{0};
  outer.run(2, [&](int i) {
    const auto here = std::this_thread::get_id();
    outer.run(2, [&](int) { own += std::this_thread::get_id() == here ? 1 : 0; });
    if (i == 1) inner.run(2, [&](int) { others += std::this_thread::get_id() == here ? 0 : 1; });
    outer.run(2, [&](int) { own += std::this_thread::get_id() == here ? 1 : 0; });
  });
  EXPECT_EQ(own, 8);
  EXPECT_EQ(others, 1);
}

TEST(WorkerPool, the_first_error_of_a_task_is_thrown_and_the_pool_goes_on) {
  WorkerPool pool(2, Waiting::kSpin, {});
  EXPECT_THROW(pool.run(2,
                        [](int i) {
                          if (i == 1) throw Error("no");
                        }),
               Error);
  std::atomic<int> runs{0};
  pool.run(2, [&](int) { ++runs; });
  EXPECT_EQ(runs, 2);
}

TEST(WorkerPool, workers_run_on_the_cores_they_are_given) {
  const int core = usable_cores().back();
  WorkerPool pool(3, Waiting::kSleep, {core, core, core});
  std::array<int, 3> cores{};
  pool.run(3, [&](int i) { cores[static_cast<size_t>(i)] = sched_getcpu(); });
  EXPECT_EQ(cores[1], core);
  EXPECT_EQ(cores[2], core);
}

TEST(ScopedCore, binds_the_thread_and_gives_back_what_it_had) {
  cpu_set_t before, inside, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  {
    const ScopedCore bound(usable_cores().front());
    ASSERT_EQ(sched_getaffinity(0, sizeof(inside), &inside), 0);
    EXPECT_EQ(CPU_COUNT(&inside), 1);
    EXPECT_TRUE(CPU_ISSET(usable_cores().front(), &inside));
  }
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(Waiting, more_threads_than_cores_sleep_at_once) {
  const int cores = static_cast<int>(usable_cores().size());
  EXPECT_EQ(waiting_of(cores), Waiting::kSpin);
  EXPECT_EQ(waiting_of(cores + 1), Waiting::kSleep);
}

}  // namespace
}  // namespace sardonyx::runtime
