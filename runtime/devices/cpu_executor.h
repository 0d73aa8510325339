// Walks a plan on the CPU: unblocked regions step by step with all threads inside each kernel,
// blocked regions depth-first with one thread per share of the blocks.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ops/core/kernel.h"
#include "runtime/devices/cpu_device.h"

namespace sardonyx::runtime {

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const passes::Plan& plan, CpuDevice& device);

  const passes::Plan& plan() const override { return plan_; }
  void run(const RunArguments& arguments) override;
  graph::Tensor output(int i) const override;
  void set_observer(Observer observer) override { observer_ = std::move(observer); }
  void set_timing(Timing timing) override;
  std::vector<StepTime> times() const override;

 private:
  void run_whole(const passes::Region& region);
  void run_blocked(const passes::Region& region);
  void run_blocks(const passes::Region& region, int thread, int64_t begin, int64_t end);
  void run_timed(const passes::Step& step, ops::CpuContext& context, int64_t block,
                 int64_t first_row, std::byte* local);
  void run_step(const passes::Step& step, ops::CpuContext& context, int64_t block,
                int64_t first_row, std::byte* local);
  void add_partials(const passes::Region& region);
  std::byte* address(const passes::Location& location, int64_t block, std::byte* local) const;
  std::byte* local_memory(const passes::Region& region, int thread) const;

  const passes::Plan& plan_;
  CpuDevice& device_;
  RunArguments arguments_;
  std::vector<ops::CpuContext> contexts_;  // one per thread, reused
  Observer observer_;
  struct Measured {
    double seconds = 0;
    int64_t runs = 0;
  };
  // Per thread, so that measuring shares no memory. Empty: off.
  std::vector<std::unordered_map<const passes::Step*, Measured>> measured_;
};

}  // namespace sardonyx::runtime
