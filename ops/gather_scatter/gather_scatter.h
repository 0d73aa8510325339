// Indices as the operators of the room read them; private to the room.
#pragma once

#include <string>
#include <vector>

#include "ops/core/composed.h"
#include "ops/core/infer.h"
#include "ops/core/kernel.h"

namespace sardonyx::ops {

// One input of int32 or int64 indices, during a run.
class Indices {
 public:
  Indices(const KernelRequest& request, const CpuContext& context, int input);
  int64_t count() const { return count_; }
  // Index i counted from the front of an axis of `size` entries. Throws Error naming the node, the
  // index and its place when it is out of range.
  int64_t at(int64_t i, int64_t size) const {
    const int64_t index = wide_ != nullptr ? wide_[i] : narrow_[i];
    const int64_t front = index < 0 ? index + size : index;
    if (front < 0 || front >= size) [[unlikely]]
      out_of_range(i, index, size);
    return front;
  }

 private:
  [[noreturn]] void out_of_range(int64_t i, int64_t index, int64_t size) const;

  const KernelRequest& request_;
  const int32_t* narrow_ = nullptr;
  const int64_t* wide_ = nullptr;
  int64_t count_ = 0;
  int input_;
};

// Tuples of indices (GatherND, ScatterND): the last axis of the indices holds one index for each of
// the axes b, b + 1, ... of the data, behind `b` axes that both have in common.
struct TupleGeometry {
  int64_t batches = 1;        // product of the common axes
  int64_t tuples = 1;         // per batch
  int64_t length = 0;         // indices in a tuple
  int64_t inner = 1;          // elements behind a tuple
  std::vector<int64_t> size;  // of the indexed axes
  std::vector<int64_t> stride;
  int64_t batch_stride = 1;  // elements of the data per batch

  TupleGeometry(const std::vector<int64_t>& data, const std::vector<int64_t>& indices,
                int64_t batch_dims);
  // Offset in the data of tuple t of batch b.
  int64_t offset(const Indices& indices, int64_t b, int64_t t) const;
};

// C1: input i holds int32 or int64.
void require_indices(const InferContext& context, int i);

// tensor_scatter.cc
void write_tensor_scatter(ComposeContext& context);
void register_tensor_scatter(OpRegistry& ops);

// scatter.cc and indexed_cpu.cc.
void register_scatter(OpRegistry& ops);
void register_indexed_cpu(KernelRegistry& kernels);

}  // namespace sardonyx::ops
