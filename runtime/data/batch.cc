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

void BatchBuffer::begin(const Draw& draw, const BatchSlice& slice) {
  CHECK(slice.begin >= 0 && slice.count >= 0 && slice.count <= capacity_);
  CHECK(slice.begin + slice.count <= static_cast<int64_t>(draw.indices.size()));
  indices_.assign(draw.indices.begin(), draw.indices.end());
  const size_t count = static_cast<size_t>(slice.count);
  const std::span<const std::byte> samples(samples_.get(), count * sample_bytes_);
  const std::span<const std::byte> labels(labels_.get(), count * label_bytes_);
  batch_ = {draw.epoch, draw.number, draw.last_of_epoch, draw.next,   indices_, slice,
            samples,    labels,      sample_bytes_,      label_bytes_};
}

void BatchBuffer::fill_rows(const Dataset& dataset, int64_t first, int64_t count) {
  CHECK(first >= 0 && count >= 0 && first + count <= batch_.slice.count);
  const size_t at = static_cast<size_t>(first), rows = static_cast<size_t>(count);
  const std::span<const int64_t> chosen(indices_);
  dataset.fill(chosen.subspan(static_cast<size_t>(batch_.slice.begin) + at, rows), batch_.epoch,
               {samples_.get() + at * sample_bytes_, rows * sample_bytes_},
               {labels_.get() + at * label_bytes_, rows * label_bytes_});
}

}  // namespace sardonyx::runtime
