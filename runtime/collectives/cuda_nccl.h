// Sums over replicas that have a CUDA device each, by NCCL.
//
// A sum goes on a stream of its own behind the gradients that it adds up, and what reads it waits
// for an event: the host never waits for the device here. Where it has to wait for NCCL it polls,
// and looks whether another rank failed; whoever stops aborts its communicator, as NCCL's kernels
// of the ranks that wait for it would never end by themselves.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/collectives/device_link.h"
#include "runtime/collectives/local.h"
#include "runtime/collectives/nccl.h"
#include "runtime/devices/cuda_device.h"

namespace sardonyx::runtime {

// One rank, wherever the others are: threads of this process, or processes that were sent the id.
// It belongs to the device that the thread speaks to which makes it. After an exception only
// destruction is left, which aborts.
class NcclRank {
 public:
  // `check_others` throws when a rank is known to have failed; it is called while the host waits.
  NcclRank(const nccl::UniqueId& id, int rank, int size, std::function<void()> check_others);

  // Returns when all ranks have come together. Throws Error when they haven't after `patience`.
  void connect(std::chrono::milliseconds patience);
  // As those of DeviceCommunicator. With a wire of bfloat16 half the bytes travel, and NCCL rounds
  // to it after each of its additions.
  void start_sum(void* data, size_t count, graph::DType dtype, graph::DType wire,
                 ops::cuda::Stream compute);
  void wait(const void* data, ops::cuda::Stream compute);
  // Returns when the device is done with all sums.
  void finish();
  // Throws Error when this rank or another one failed.
  void check();

 private:
  struct Sum {
    void* data = nullptr;
    size_t count = 0;
    bool narrow = false;  // travels as bfloat16
    ops::cuda::OwnedEvent ready, done;
  };

  bool is_ready() { return communicator_->poll() == nccl::State::kReady; }
  void settle();

  int rank_, size_;
  std::function<void()> check_others_;
  ops::cuda::OwnedStream stream_;
  std::map<const void*, Sum> sums_;  // a bucket keeps its place
  Sum* starting_ = nullptr;          // not known to be on the stream yet
  Sum* last_ = nullptr;
  std::unique_ptr<nccl::Communicator> communicator_;  // is the first to go
};

// One link per device, in rank order; no two of them are the same. Devices and group outlive them.
std::vector<std::unique_ptr<DeviceLink>> link_by_nccl(const std::vector<CudaDevice*>& devices,
                                                      LocalGroup& group);

}  // namespace sardonyx::runtime
