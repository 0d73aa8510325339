// A wish to stop must not disturb the kernels that are running.
#include "runtime/stop_signal.h"

#include <gtest/gtest.h>

#include "runtime/devices/thread_pool.h"

namespace sardonyx::runtime {
namespace {

bool takes(int signal) {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, signal) == 0;
}

TEST(StopSignal, is_received_on_a_stack_of_its_own) {
  stack_t before, during, after;
  sigaltstack(nullptr, &before);
  {
    const StopSignal signal;
    sigaltstack(nullptr, &during);
    EXPECT_EQ(during.ss_flags & SS_DISABLE, 0);
    EXPECT_GE(during.ss_size, 65536u);
    struct sigaction action;
    sigaction(SIGTERM, nullptr, &action);
    EXPECT_NE(action.sa_flags & SA_ONSTACK, 0);
    EXPECT_EQ(StopSignal::received(), 0);
    raise(SIGTERM);
    EXPECT_EQ(StopSignal::received(), SIGTERM);
  }
  sigaltstack(nullptr, &after);
  EXPECT_EQ(after.ss_sp, before.ss_sp);
  EXPECT_EQ(after.ss_flags, before.ss_flags);
}

TEST(StopSignal, hangup_is_a_wish_to_stop_and_a_second_one_is_no_other) {
  const StopSignal signal;
  raise(SIGHUP);
  raise(SIGHUP);
  EXPECT_EQ(StopSignal::received(), SIGHUP);
  EXPECT_STREQ(StopSignal::name(SIGHUP), "SIGHUP");
  EXPECT_EXIT(raise(SIGTERM), ::testing::ExitedWithCode(143), "");
}

TEST(StopSignal, hangup_that_is_ignored_stays_ignored) {
  struct sigaction ignore = {}, before, during, after;
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &before);
  {
    const StopSignal signal;
    sigaction(SIGHUP, nullptr, &during);
    raise(SIGHUP);
    EXPECT_EQ(StopSignal::received(), 0);
  }
  sigaction(SIGHUP, &before, &after);
  EXPECT_EQ(during.sa_handler, SIG_IGN);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
}

TEST(StopSignal, threads_of_a_pool_leave_signals_to_the_caller) {
  WorkerPool pool(3, Waiting::kSleep, {}, Shares::kOwnThread);
  bool taken[3] = {false, true, true};
  pool.run(3, [&](int task) { taken[task] = takes(SIGTERM); });
  EXPECT_TRUE(taken[0]);  // the caller's own share
  EXPECT_FALSE(taken[1]);
  EXPECT_FALSE(taken[2]);
}

}  // namespace
}  // namespace sardonyx::runtime
