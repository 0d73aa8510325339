// What threads got of the processor, and when a run says so.
#include "runtime/shared_processor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/devices/cores.h"

namespace sardonyx::runtime {
namespace {

void compute_for(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(ProcessorTime, two_threads_on_one_core_get_about_half_of_it_each) {
  std::atomic<pid_t> ids[2] = {0, 0};
  std::atomic<int> begun{0};
  std::thread threads[2];
  ProcessorTime time;
  for (int i = 0; i < 2; ++i) {
    threads[i] = std::thread([&, i] {
      const ScopedCore core(usable_cores().back());
      ids[i] = gettid();
      for (++begun; begun < 2;) std::this_thread::yield();
      compute_for(std::chrono::milliseconds(500));
      if (i == 0) time = processor_time({ids[0]}).value_or(ProcessorTime{});
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (time.ran == 0) GTEST_SKIP() << "this system doesn't say";
  EXPECT_GT(time.waited, 0.1);
  EXPECT_LT(time.share(), 0.75);
  EXPECT_GT(time.share(), 0.05);
}

TEST(ProcessorTime, an_unknown_thread_is_not_known) {
  EXPECT_FALSE(processor_time({gettid(), 0}).has_value());
  const ProcessorClock clock({0});
  EXPECT_EQ(clock.elapsed().waited, 0);
  EXPECT_EQ(clock.elapsed().share(), 1);
}

// Threads of this process are no other program.
TEST(ProcessorClock, what_own_threads_take_is_no_waiting) {
  const ScopedCore core(usable_cores().back());
  const ProcessorClock clock({gettid()});
  std::thread loader([] { compute_for(std::chrono::milliseconds(300)); });
  compute_for(std::chrono::milliseconds(300));
  loader.join();
  const auto whole = processor_time({gettid()});
  if (!whole) GTEST_SKIP() << "this system doesn't say";
  EXPECT_GT(whole->waited, 0.1);
  EXPECT_LT(clock.elapsed().waited, whole->waited - 0.05);
}

TEST(SharedProcessor, the_notice_says_what_threads_got_and_how_many_may_be_faster) {
  EXPECT_EQ(shared_processor_text(1, 1, {9, 1}), "");
  EXPECT_EQ(shared_processor_text(1, 1, {}), "");
  EXPECT_EQ(shared_processor_text(1, 1, {1, 1}),
            "other programs use the processor: 1 thread got 50 % of the time it could have run");
  if (usable_cores().size() < 2) return;
  EXPECT_EQ(shared_processor_text(2, 1, {3, 1}),
            "other programs use the processor: 2 threads got 75 % of the time they could have run; "
            "--threads 1 may be faster");
  EXPECT_EQ(shared_processor_text(2, 2, {3, 1}),
            "other programs use the processor: 2 threads got 75 % of the time they could have run");
  // More threads than cores keep each other waiting.
  EXPECT_EQ(shared_processor_text(static_cast<int>(usable_cores().size()) + 1, 1, {1, 9}), "");
}

}  // namespace
}  // namespace sardonyx::runtime
