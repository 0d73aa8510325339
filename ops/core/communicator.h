// Collectives as kernels see them; runtime/collectives/ implements them (threads, processes, NCCL).
//
// A sum is started, goes on while the replica computes, and is waited for: the graph says where
// (AllReduce, Await). Every rank starts the same sums in the same order.
#pragma once

#include <cstddef>

#include "graph/type.h"

namespace sardonyx::ops {

class ThreadPool;

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Starts data[i] = sum over ranks of data[i], added in rank order, so that all ranks get the same
  // bits. From here to the return of wait(data) the memory belongs to the communicator. `wire`:
  // what the terms are rounded to before they are added (kBFloat16 for float32 data), or `dtype`.
  virtual void start_sum(void* data, size_t count, graph::DType dtype, graph::DType wire,
                         ThreadPool& pool) = 0;
  // Does this rank's part of the sums that are ready; returns at once when none is. Called between
  // steps.
  virtual void progress(ThreadPool& pool) = 0;
  // Returns when the sum started on `data` is complete here and nobody touches the memory any more.
  // Throws Error when another rank failed.
  virtual void wait(const void* data, ThreadPool& pool) = 0;
};

}  // namespace sardonyx::ops
