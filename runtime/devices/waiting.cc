#include "runtime/devices/waiting.h"

#include "runtime/devices/cores.h"

namespace sardonyx::runtime {

namespace {

// About 50 microseconds: longer than the serial gaps inside a step.
constexpr int kSpins = 20000;

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
  for (int i = waiting == Waiting::kSpin ? kSpins : 0; i > 0; --i) {
    if (value.load(std::memory_order_acquire) != seen) return;
    pause();
  }
  while (value.load(std::memory_order_acquire) == seen) {
    value.wait(seen, std::memory_order_acquire);
  }
}

}  // namespace sardonyx::runtime
