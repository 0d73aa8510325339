// Walks a plan on a CUDA device: steps are enqueued in order on the compute stream and not waited
// for; a run returns while the device still works.
//
// The inputs of a run go through pinned memory on a stream of their own. There are two sets of
// buffers, so that the rows of the next run are copied while this one computes: by stage(), or by a
// run() that follows at once. A set is used again when the run that read it is done.
#pragma once

#include <array>
#include <vector>

#include "ops/core/cuda_context.h"
#include "runtime/devices/cuda_device.h"

namespace sardonyx::runtime {

class CudaExecutor final : public Executor {
 public:
  // Throws InternalError for a plan with blocked regions, which are made for threads.
  CudaExecutor(const passes::Plan& plan, CudaDevice& device);
  ~CudaExecutor() override;

  // Of the device, for inputs and constants of this plan.
  static size_t device_bytes(const passes::Plan& plan);

  const passes::Plan& plan() const override { return plan_; }
  void run(const RunArguments& arguments) override;
  void stage(const RunArguments& arguments) override;
  std::vector<graph::Tensor> outputs(const std::vector<int>& which) const override;
  void set_observer(Observer observer) override { observer_ = std::move(observer); }

 private:
  // What one run is fed with, on both sides.
  struct Feed {
    ops::cuda::PinnedMemory host;
    ops::cuda::Memory device;
    ops::cuda::OwnedEvent copied, read;
    ops::cuda::Event busy = nullptr;  // one of them: until it is done; null: never was
  };

  // An input with values that kernels can't refuse while the device works.
  struct Checked {
    size_t input = 0;
    const graph::Node* node = nullptr;
    ops::KernelRequest request;
  };

  void find_checked_inputs();
  void load_constants();
  void check_inputs(const RunArguments& arguments) const;
  Feed& next_feed() { return feeds_[(feed_ + 1) % feeds_.size()]; }
  void fill(Feed& feed, const RunArguments& arguments);
  void feed_run(const RunArguments& arguments);
  void run_step(const passes::Step& step, const RunArguments& arguments);
  void observe(const passes::Step& step);
  void copy_states();
  std::byte* address(const passes::Location& location) const;

  const passes::Plan& plan_;
  CudaDevice& device_;
  ops::cuda::OwnedStream copies_;
  std::vector<Checked> checked_;
  std::vector<size_t> input_offsets_, constant_offsets_;
  size_t input_bytes_ = 0;
  ops::cuda::Memory constants_;
  std::array<Feed, 2> feeds_;
  size_t feed_ = 0;      // of the run that was enqueued last
  uint64_t staged_ = 0;  // what the other one holds; 0: nothing that a run could want
  ops::CudaContext context_;
  Observer observer_;
};

}  // namespace sardonyx::runtime
