#include "runtime/collectives/cuda_staged.h"

#include <algorithm>
#include <map>
#include <vector>

#include "graph/support/error.h"
#include "ops/core/communicator.h"

namespace sardonyx::runtime {

namespace cuda = ops::cuda;

namespace {

class Staged final : public DeviceLink {
 public:
  Staged(CudaDevice& device, ops::Communicator& meeting)
      : device_(device), meeting_(meeting), copies_(cuda::Priority::kHigh) {}

  int rank() const override { return meeting_.rank(); }
  int size() const override { return meeting_.size(); }

  void start_sum(void* data, size_t count, graph::DType dtype, graph::DType wire,
                 cuda::Stream compute) override {
    Stage& stage = stages_[data];
    const size_t bytes = count * graph::dtype_size(dtype);
    // Once, in the first step: a bucket keeps its place.
    if (stage.host.size() < bytes) stage.host = cuda::PinnedMemory(bytes);
    cuda::record(stage.ready.get(), compute);
    cuda::wait(copies_.get(), stage.ready.get());
    cuda::copy_to_host(copies_.get(), stage.host.data(), data, bytes);
    cuda::record(stage.copied.get(), copies_.get());
    under_way_.push_back({data, count, dtype, wire, &stage});
    start_what_arrived();
  }

  void wait(const void* data, cuda::Stream compute) override {
    const auto mine = [&](const Sum& sum) { return sum.data == data; };
    const auto it = std::find_if(under_way_.begin(), under_way_.end(), mine);
    CHECK(it != under_way_.end(), "rank {} waits for a sum that it hasn't started", rank());
    const size_t position = static_cast<size_t>(it - under_way_.begin());
    for (size_t i = 0; i <= position; ++i) {
      if (under_way_[i].started) continue;
      cuda::synchronize(under_way_[i].stage->copied.get());
      start(under_way_[i]);
    }
    const Sum sum = under_way_[position];
    meeting_.wait(sum.stage->host.data(), serial_);
    cuda::copy_to_device(copies_.get(), sum.data, sum.stage->host.data(),
                         sum.count * graph::dtype_size(sum.dtype));
    cuda::record(sum.stage->back.get(), copies_.get());
    cuda::wait(compute, sum.stage->back.get());
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(position));
  }

  void reset() override {
    if (under_way_.empty()) return;
    device_.enter();
    cuda::synchronize(copies_.get());
    under_way_.clear();
  }

 private:
  struct Stage {
    cuda::PinnedMemory host;
    cuda::OwnedEvent ready, copied, back;
  };
  struct Sum {
    void* data;
    size_t count;
    graph::DType dtype, wire;
    Stage* stage;
    bool started = false;  // among the others
  };

  void start(Sum& sum) {
    meeting_.start_sum(sum.stage->host.data(), sum.count, sum.dtype, sum.wire, serial_);
    sum.started = true;
  }

  // In order, and without waiting: the others get theirs while this device computes.
  void start_what_arrived() {
    for (Sum& sum : under_way_) {
      if (sum.started) continue;
      if (!cuda::done(sum.stage->copied.get())) return;
      start(sum);
    }
  }

  CudaDevice& device_;
  ops::Communicator& meeting_;
  ops::SerialPool serial_;
  cuda::OwnedStream copies_;
  std::map<const void*, Stage> stages_;
  std::vector<Sum> under_way_;
};

}  // namespace

std::unique_ptr<DeviceLink> stage_through_host(CudaDevice& device, ops::Communicator& meeting) {
  device.enter();
  return std::make_unique<Staged>(device, meeting);
}

}  // namespace sardonyx::runtime
