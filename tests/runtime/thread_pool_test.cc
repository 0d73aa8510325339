// The pool of a replica: which thread runs what, pools inside the tasks of another pool, and
// threads bound to cores.
#include "runtime/devices/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "graph/support/error.h"
#include "runtime/devices/cores.h"
#include "runtime/devices/processor_time.h"

namespace sardonyx::runtime {
namespace {

// Of threads that run only what is theirs.
TEST(WorkerPool, task_i_runs_on_thread_i_modulo_the_size) {
  WorkerPool pool(3, Waiting::kSleep, {}, Shares::kOwnThread);
  std::array<std::thread::id, 7> ids;
  pool.run(7, [&](int i) { ids[static_cast<size_t>(i)] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(ids[i], ids[i + 3]);
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[2], ids[1]);
}

TEST(WorkerPool, inside_a_task_its_own_pool_is_serial_and_another_pool_is_not) {
  WorkerPool outer(2, Waiting::kSleep, {}, Shares::kOwnThread);
  WorkerPool inner(2, Waiting::kSleep, {}, Shares::kOwnThread);
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

// A worker that sleeps takes longer to wake up than an empty task takes.
TEST(WorkerPool, the_caller_runs_the_share_of_a_worker_that_is_late) {
  WorkerPool pool(2, Waiting::kSleep, {});
  const std::thread::id caller = std::this_thread::get_id();
  int taken_over = 0;
  for (int i = 0; i < 1000; ++i) {
    std::thread::id second;
    pool.run(2, [&](int task) {
      if (task == 1) second = std::this_thread::get_id();
    });
    taken_over += second == caller ? 1 : 0;
  }
  EXPECT_GT(taken_over, 0);
}

TEST(WorkerPool, every_task_runs_once_and_a_share_in_order_whoever_runs_it) {
  for (const Waiting waiting : {Waiting::kSleep, Waiting::kSpin}) {
    WorkerPool pool(3, waiting, {});
    for (int round = 0; round < 2000; ++round) {
      const int count = 1 + round % 8;
      std::array<int, 8> runs{};
      std::array<int, 3> last{-1, -1, -1};  // by share; no lock: a share is never divided
      pool.run(count, [&](int task) {
        ++runs[static_cast<size_t>(task)];
        int& before = last[static_cast<size_t>(task % 3)];
        EXPECT_LT(before, task);
        before = task;
      });
      for (int task = 0; task < 8; ++task) {
        EXPECT_EQ(runs[static_cast<size_t>(task)], task < count ? 1 : 0);
      }
    }
  }
}

TEST(WorkerPool, tasks_may_wait_for_each_other) {
  WorkerPool pool(3, Waiting::kSleep, {});
  for (int round = 0; round < 300; ++round) {
    std::atomic<uint32_t> arrived{0};
    pool.run(3, [&](int) {
      arrived.fetch_add(1);
      arrived.notify_all();
      for (uint32_t now = arrived; now != 3; now = arrived) {
        wait_for_change(arrived, now, Waiting::kSpin);
      }
    });
    EXPECT_EQ(arrived, 3u);
  }
}

TEST(WorkerPool, workers_run_on_the_cores_they_are_given) {
  const int core = usable_cores().back();
  WorkerPool pool(3, Waiting::kSleep, {core, core, core}, Shares::kOwnThread);
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

// A thread that polls uses the processor; one that has to wait for long must not.
TEST(Waiting, polling_ends_and_the_thread_sleeps) {
  std::atomic<uint32_t> value{0};
  double used = 1;
  std::thread waits([&] {
    const auto before = processor_time({gettid()});
    wait_for_change(value, 0, Waiting::kSpin);
    const auto after = processor_time({gettid()});
    used = before && after ? after->ran - before->ran : 0;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  value = 1;
  value.notify_all();
  waits.join();
  EXPECT_LT(used, 0.02);
}

}  // namespace
}  // namespace sardonyx::runtime
