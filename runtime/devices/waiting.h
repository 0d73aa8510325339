// How a thread waits for another one: it polls for a bounded time and then sleeps, or sleeps at
// once. Polling with more threads than cores keeps the core from the thread that is waited for.
#pragma once

#include <atomic>
#include <cstdint>

namespace sardonyx::runtime {

enum class Waiting : uint8_t { kSpin, kSleep };

// kSpin when so many threads of this process can run at once.
Waiting waiting_of(int threads);

// Returns when `value` no longer is `seen` (acquire). Who changes it must notify.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t seen, Waiting waiting);

}  // namespace sardonyx::runtime
