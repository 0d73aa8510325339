#include "runtime/devices/peak.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include "ops/core/kernel.h"
#include "ops/core/lanes.h"
#include "runtime/devices/thread_pool.h"

namespace sardonyx::runtime {

namespace {

constexpr int64_t kRounds = 1 << 15;  // some 0.1 ms
constexpr double kSeconds = 0.1;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of the calling thread.
template <class T>
double peak_of_thread() {
  std::vector<double> rates;
  const Clock::time_point first = Clock::now();
  do {
    T sink[4] = {0, T(0.5), T(0.25), 0};
    const Clock::time_point start = Clock::now();
    const int64_t flops = ops::lanes::lane_kernels<T>().peak_probe(kRounds, sink);
    rates.push_back(static_cast<double>(flops) / seconds_since(start));
  } while (seconds_since(first) < kSeconds);
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() - 1 - rates.size() / 10];
}

}  // namespace

double probed_peak_flops(int threads, graph::DType dtype) {
  WorkerPool pool(threads);
  std::vector<double> peaks(threads);
  pool.run(threads, [&](int thread) {
    ops::dispatch_float(dtype, [&]<class T>() { peaks[thread] = peak_of_thread<T>(); });
  });
  return std::accumulate(peaks.begin(), peaks.end(), 0.0);
}

}  // namespace sardonyx::runtime
