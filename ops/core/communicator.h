// Collectives as kernels see them; runtime/collectives/ implements them (threads, processes, NCCL).
#pragma once

#include <cstddef>

#include "graph/type.h"

namespace sardonyx::ops {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // data[i] = sum over ranks of data[i], added in rank order on every rank: all ranks get the same
  // bits. Every rank calls with the same count and type, in the same order. Throws Error when a
  // peer failed.
  virtual void all_reduce_sum(void* data, size_t count, graph::DType dtype) = 0;
};

}  // namespace sardonyx::ops
