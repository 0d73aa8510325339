// How a thread waits for another one: it polls for a bounded time, lets others run, and then
// sleeps; or sleeps at once. Everything that waits inside a step waits here (pool, OpenMP shim,
// sums), but for the barriers inside oneDNN. Polling longer than a wake-up takes would only keep
// the processor from the thread that is waited for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace sardonyx::runtime {

enum class Waiting : uint8_t { kSpin, kSleep };

// kSpin when so many threads of this process can run at once.
Waiting waiting_of(int threads);

// Returns when `value` no longer is `seen` (acquire). Who changes it must notify.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t seen, Waiting waiting);

// For who asks again and again something that can't notify, as a CUDA device: pause() lets others
// run between two questions, and sleeps once the wait has been a long one.
class Polling {
 public:
  void pause() const;
  std::chrono::steady_clock::duration since_begin() const;

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace sardonyx::runtime
