// One batch in memory that is allocated once and filled again and again.
//
// A process may need only a part of each global batch (its replicas' share); `BatchSlice` says
// which, and only that part is filled. Rows stand in the sampler's order, so any micro-batch is a
// run of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/data/batch_cut.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sampler.h"

namespace sardonyx::runtime {

// The part of a global batch of `size` samples that this process needs. Empty function: all of it.
using SliceOf = std::function<BatchSlice(int64_t size)>;

struct LoadedBatch {
  int64_t epoch = 0;
  int64_t number = 0;  // in the epoch
  bool last_of_epoch = false;
  SamplerPosition next;                // where a run that stops after this batch resumes
  std::span<const int64_t> indices;    // sample numbers of the whole global batch
  BatchSlice slice;                    // the rows below are these
  std::span<const std::byte> samples;  // slice.count rows
  std::span<const std::byte> labels;   // likewise; empty when the set has no labels
  // Rows for the further inputs, in the order of Dataset::companions().
  std::span<const std::span<const std::byte>> companions;
  size_t sample_bytes = 0;  // of one row
  size_t label_bytes = 0;

  // Rows [begin, begin + count) of the global batch. CHECK: inside the slice.
  std::span<const std::byte> samples_of(int64_t begin, int64_t count) const;
  std::span<const std::byte> labels_of(int64_t begin, int64_t count) const;
};

class BatchBuffer {
 public:
  // Room for `capacity` rows of a data set.
  BatchBuffer(const Dataset& dataset, int64_t capacity);

  // Makes room for the rows of a slice. CHECK: it lies in the batch and fits the capacity.
  void begin(const Draw& draw, const BatchSlice& slice);
  // Rows [first, first + count) of the slice; different rows by different threads, if need be.
  void fill_rows(const Dataset& dataset, int64_t first, int64_t count);
  const LoadedBatch& batch() const { return batch_; }

 private:
  struct Rows {
    size_t bytes = 0;  // of one
    std::shared_ptr<std::byte> data;

    Rows(size_t row_bytes, int64_t capacity);
    std::span<std::byte> span(size_t first, size_t count) const {
      return {data.get() + first * bytes, count * bytes};
    }
  };

  int64_t capacity_;
  Rows samples_, labels_;
  std::vector<Rows> companions_;
  std::vector<std::span<const std::byte>> companion_rows_;  // those of the batch
  std::vector<int64_t> indices_;                            // of the whole global batch
  LoadedBatch batch_;
};

}  // namespace sardonyx::runtime
