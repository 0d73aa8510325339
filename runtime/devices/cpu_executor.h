// Walks a plan on the CPU: unblocked regions step by step with all threads inside each kernel,
// blocked regions depth-first with one thread per share of the blocks.
#pragma once

#include <memory>
#include <vector>

#include "ops/core/kernel.h"
#include "runtime/devices/cpu_device.h"

namespace sardonyx::runtime {

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const passes::Plan& plan, CpuDevice& device);

  const passes::Plan& plan() const override { return plan_; }
  void run(const RunArguments& arguments) override;
  std::vector<graph::Tensor> outputs(const std::vector<int>& which) const override;
  void set_observer(Observer observer) override { observer_ = std::move(observer); }

 private:
  struct Block {
    int64_t number = 0, first_row = 0, rows = 0;
    std::byte* local = nullptr;  // memory of the thread that runs it
  };
  void run_whole(const passes::Region& region);
  void run_blocked(const passes::Region& region);
  void run_blocks(const passes::Region& region, int thread, int64_t begin, int64_t end);
  void run_step(const passes::Step& step, int thread, const Block& block);
  void add_partials(const passes::Region& region);
  void copy_states();
  std::byte* address(const passes::Location& location, int64_t block, std::byte* local) const;
  std::byte* local_memory(const passes::Region& region, int thread) const;

  const passes::Plan& plan_;
  CpuDevice& device_;
  RunArguments arguments_;
  std::vector<ops::CpuContext> contexts_;  // one per thread, reused
  Observer observer_;
};

}  // namespace sardonyx::runtime
