#include "runtime/devices/waiting.h"

#include <thread>

#include "runtime/devices/cores.h"

namespace sardonyx::runtime {

namespace {

// About as long as the serial gaps inside a step and as a thread takes to fall asleep and wake up.
constexpr std::chrono::microseconds kPolling(50);
// Between two looks at the clock.
constexpr int kPolls = 32;
// Longer than what a step of a small model takes: a sleep is late by some 50 us.
constexpr std::chrono::milliseconds kAwake(10);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Waiting waiting_of(int threads) {
  return threads <= static_cast<int>(usable_cores().size()) ? Waiting::kSpin : Waiting::kSleep;
}

void wait_for_change(const std::atomic<uint32_t>& value, uint32_t seen, Waiting waiting) {
  using Clock = std::chrono::steady_clock;
  if (value.load(std::memory_order_acquire) != seen) return;
  if (waiting == Waiting::kSpin) {
    const Clock::time_point end = Clock::now() + kPolling;
    do {
      for (int i = 0; i < kPolls; ++i) {
        if (value.load(std::memory_order_acquire) != seen) return;
        pause();
      }
    } while (Clock::now() < end);
  }
  // wait() yields a few times before it sleeps.
  while (value.load(std::memory_order_acquire) == seen) {
    value.wait(seen, std::memory_order_acquire);
  }
}

void Polling::pause() const {
  if (since_begin() < kAwake) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(kPolling);
  }
}

std::chrono::steady_clock::duration Polling::since_begin() const {
  return std::chrono::steady_clock::now() - begin_;
}

}  // namespace sardonyx::runtime
