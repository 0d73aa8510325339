#include "runtime/devices/kernel_clock.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "graph/support/error.h"
#include "runtime/devices/huge_memory.h"
#include "runtime/devices/omp_shim.h"
#include "runtime/devices/processor_time.h"

namespace sardonyx::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 3, kMostSets = 4;
// Of one set; its first round is always whole.
constexpr double kMostSeconds = 0.4;
// A set in which the threads got less of the processor than this isn't counted.
constexpr double kLeastShare = 0.8;
// How much slower than the fastest a kernel is that can't be the fastest after all.
constexpr double kBeaten = 1.5;
// What the rest of a step drives out of the caches, as much as any of them holds.
constexpr size_t kSweepBytes = size_t{48} << 20;

// Small numbers that are neither zero nor all alike; integers stay zero, which is an index and a
// class that there is.
void fill(const graph::TensorType& type, std::byte* data) {
  if (type.dtype != graph::DType::kFloat32 && type.dtype != graph::DType::kFloat64) return;
  ops::dispatch_float(type.dtype, [&]<class T>() {
    T* values = reinterpret_cast<T*>(data);
    for (int64_t i = 0; i < type.physical_numel(); ++i) {
      values[i] = static_cast<T>(0.01) * static_cast<T>(i % 101 - 50);
    }
  });
}

class Bench {
 public:
  Bench(ops::ThreadPool& pool, const ops::KernelRequest& request, passes::RunsOn runs_on)
      : pool_(pool), runs_on_(runs_on) {
    for (size_t i = 0; i < request.in.size(); ++i) {
      if (const graph::Tensor* constant = request.constant(static_cast<int>(i))) {
        context_.inputs.push_back(constant->aligned_data());
        continue;
      }
      context_.inputs.push_back(operand(request.in[i]));
    }
    for (const graph::TensorType& type : request.out) context_.outputs.push_back(operand(type));
    context_.pool = &pool;
    if (runs_on == passes::RunsOn::kAllThreads) sweep_ = HugeMemory(kSweepBytes);
  }

  void reserve_workspace(size_t bytes) {
    if (bytes > workspace_.size()) workspace_ = HugeMemory(bytes);
  }

  double seconds(const ops::Kernel& kernel) {
    drive_out();
    context_.workspace = {workspace_.data(), kernel.workspace_bytes()};
    const Clock::time_point start = Clock::now();
    run(kernel);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  std::byte* operand(const graph::TensorType& type) {
    if (type.dtype == graph::DType::kUndefined) return nullptr;
    operands_.emplace_back(std::max<size_t>(type.bytes(), 64));
    fill(type, operands_.back().data());
    return operands_.back().data();
  }

  // Inside a block operands come from the second-level cache: nothing is driven out.
  void drive_out() {
    std::byte* bytes = sweep_.data();
    ops::parallel_for(pool_, static_cast<int64_t>(sweep_.size() / 64), 1 << 10,
                      [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) bytes[i * 64] = std::byte{1};
                      });
  }

  void run(const ops::Kernel& kernel) {
    if (runs_on_ == passes::RunsOn::kAllThreads) {
      kernel.run(context_);
      return;
    }
    pool_.run(1, [&](int) {
      const ScopedOmpPool serial(nullptr);
      kernel.run(context_);
    });
  }

  ops::ThreadPool& pool_;
  passes::RunsOn runs_on_;
  ops::CpuContext context_;
  std::vector<HugeMemory> operands_;
  HugeMemory workspace_, sweep_;
};

}  // namespace

KernelTimes agreement(const std::vector<std::vector<double>>& sets) {
  KernelTimes times;
  if (sets.empty()) return times;
  std::vector<double> spreads;
  for (size_t kernel = 0; kernel < sets[0].size(); ++kernel) {
    std::vector<double> own;
    for (const std::vector<double>& set : sets) own.push_back(set[kernel]);
    std::sort(own.begin(), own.end());
    times.seconds.push_back(own[0]);
    spreads.push_back(own.size() > 1 ? own[1] / own[0] : HUGE_VAL);
  }
  const double best = *std::min_element(times.seconds.begin(), times.seconds.end());
  for (size_t kernel = 0; kernel < spreads.size(); ++kernel) {
    if (times.seconds[kernel] > kBeaten * best) continue;
    times.spread = std::max(times.spread, spreads[kernel]);
  }
  return times;
}

namespace {

// The least seconds of each kernel in some rounds.
std::vector<double> measure_set(Bench& bench,
                                const std::vector<std::unique_ptr<ops::Kernel>>& kernels) {
  std::vector<double> least(kernels.size(), HUGE_VAL);
  const Clock::time_point start = Clock::now();
  for (int round = 0; round < kRounds; ++round) {
    const std::chrono::duration<double> spent = Clock::now() - start;
    if (round > 0 && spent.count() > kMostSeconds) break;
    for (size_t i = 0; i < kernels.size(); ++i) {
      least[i] = std::min(least[i], bench.seconds(*kernels[i]));
    }
  }
  return least;
}

}  // namespace

KernelTimes measure_kernels(WorkerPool& pool, const std::vector<const ops::KernelDef*>& kernels,
                            const ops::KernelRequest& request, passes::RunsOn runs_on) {
  const ScopedOmpPool omp(&pool);
  std::vector<pid_t> threads = pool.worker_ids();
  threads.push_back(gettid());
  try {
    Bench bench(pool, request, runs_on);
    std::vector<std::unique_ptr<ops::Kernel>> made;
    for (const ops::KernelDef* kernel : kernels) {
      const ops::ScopedLibraryThreads alone(runs_on == passes::RunsOn::kOneThread ? 1
                                                                                  : pool.size());
      made.push_back(kernel->create(request));
      bench.reserve_workspace(made.back()->workspace_bytes());
    }
    for (const auto& kernel : made) bench.seconds(*kernel);
    std::vector<std::vector<double>> sets;
    KernelTimes times{std::vector<double>(kernels.size(), HUGE_VAL), HUGE_VAL};
    for (int i = 0; i < kMostSets && times.spread > kMostSpread; ++i) {
      const ProcessorClock clock(threads);
      std::vector<double> set = measure_set(bench, made);
      if (clock.elapsed().share() < kLeastShare) continue;
      sets.push_back(std::move(set));
      times = agreement(sets);
    }
    return times;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace sardonyx::runtime
