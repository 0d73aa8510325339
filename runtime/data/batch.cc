// Row arithmetic of a filled batch.
#include "runtime/data/batch.h"

#include "graph/support/error.h"
#include "runtime/data/file.h"

namespace sardonyx::runtime {
namespace {

std::span<const std::byte> rows(std::span<const std::byte> all, size_t row_bytes,
                                const BatchSlice& slice, int64_t begin, int64_t count) {
  CHECK(begin >= slice.begin && count >= 0 && begin + count <= slice.begin + slice.count,
        "rows {}+{} of {}+{}", begin, count, slice.begin, slice.count);
  return all.subspan(static_cast<size_t>(begin - slice.begin) * row_bytes,
                     static_cast<size_t>(count) * row_bytes);
}

}  // namespace

std::span<const std::byte> LoadedBatch::samples_of(int64_t begin, int64_t count) const {
  return rows(samples, sample_bytes, slice, begin, count);
}

std::span<const std::byte> LoadedBatch::labels_of(int64_t begin, int64_t count) const {
  return rows(labels, label_bytes, slice, begin, count);
}

BatchBuffer::BatchBuffer(const DatasetInfo& info, int64_t capacity)
    : capacity_(capacity),
      sample_bytes_(info.sample.bytes()),
      label_bytes_(info.label.dtype == graph::DType::kUndefined ? 0 : info.label.bytes()),
      samples_(allocate_block(sample_bytes_ * static_cast<size_t>(capacity))),
      labels_(allocate_block(label_bytes_ * static_cast<size_t>(capacity))) {}

void BatchBuffer::fill(const Dataset& dataset, const Draw& draw, const BatchSlice& slice) {
  CHECK(slice.begin >= 0 && slice.count >= 0 && slice.count <= capacity_);
  CHECK(slice.begin + slice.count <= static_cast<int64_t>(draw.indices.size()));
  indices_.assign(draw.indices.begin(), draw.indices.end());
  size_t count = static_cast<size_t>(slice.count);
  std::span<std::byte> samples(samples_.get(), count * sample_bytes_);
  std::span<std::byte> labels(labels_.get(), count * label_bytes_);
  std::span<const int64_t> chosen(indices_);
  dataset.fill(chosen.subspan(static_cast<size_t>(slice.begin), count), draw.epoch, samples,
               labels);
  batch_ = {draw.epoch, draw.number, draw.last_of_epoch, draw.next,   indices_, slice,
            samples,    labels,      sample_bytes_,      label_bytes_};
}

}  // namespace sardonyx::runtime
