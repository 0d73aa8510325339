// NCCL as Sardonyx needs it: one communicator per rank, sums, and a way out of each.
//
// Nothing here waits for another rank: a communicator is made and sums are started at once, and
// `poll` says how far it is. Whoever waits polls, and when an error shows, aborts. All calls are
// for the device that cuda::use_device named on the calling thread.
// runtime/collectives/cuda_native/nccl.cc is the library, tests/support/host_cuda/ a stand-in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "graph/type.h"
#include "ops/core/cuda.h"

namespace sardonyx::runtime::nccl {

// Made once, then known to all ranks; plain bytes, so processes may send it to each other.
using UniqueId = std::array<char, 128>;

// 22809 for 2.28.9. Throws Error when the library isn't there.
int version();
UniqueId unique_id();

enum class State : uint8_t { kReady, kBusy };  // kBusy: what was started last is still under way

class Communicator {
 public:
  // Starts to make rank `rank` of `size`: poll until it is ready. No two ranks on one device.
  static std::unique_ptr<Communicator> start(const UniqueId& id, int rank, int size);
  // Aborts what is under way; never waits for other ranks.
  virtual ~Communicator() = default;
  // Throws Error when this rank or another one failed.
  virtual State poll() = 0;
  // Enqueues data[i] = sum over ranks of data[i] on the stream: float, double or bfloat16 in device
  // memory. Only when ready; ready again before the next call, since starting takes part of the
  // host. All ranks start the same sums in the same order.
  virtual void all_reduce(void* data, size_t count, graph::DType dtype,
                          ops::cuda::Stream stream) = 0;
  // Ends what is under way here. The ranks that wait for this one go on waiting until they abort,
  // too. Afterwards only destruction is allowed.
  virtual void abort() noexcept = 0;
};

}  // namespace sardonyx::runtime::nccl
