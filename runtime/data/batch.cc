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

BatchBuffer::Rows::Rows(size_t row_bytes, int64_t capacity)
    : bytes(row_bytes), data(allocate_block(row_bytes * static_cast<size_t>(capacity))) {}

BatchBuffer::BatchBuffer(const Dataset& dataset, int64_t capacity)
    : capacity_(capacity),
      samples_(dataset.info().sample.bytes(), capacity),
      labels_(dataset.info().has_labels() ? dataset.info().label.bytes() : 0, capacity) {
  for (const Companion& companion : dataset.companions()) {
    companions_.emplace_back(companion.data->info().sample.bytes(), capacity);
  }
  companion_rows_.resize(companions_.size());
}

void BatchBuffer::begin(const Draw& draw, const BatchSlice& slice) {
  CHECK(slice.begin >= 0 && slice.count >= 0 && slice.count <= capacity_);
  CHECK(slice.begin + slice.count <= static_cast<int64_t>(draw.indices.size()));
  indices_.assign(draw.indices.begin(), draw.indices.end());
  const size_t count = static_cast<size_t>(slice.count);
  for (size_t i = 0; i < companions_.size(); ++i) {
    companion_rows_[i] = companions_[i].span(0, count);
  }
  batch_ = {.epoch = draw.epoch,
            .number = draw.number,
            .last_of_epoch = draw.last_of_epoch,
            .next = draw.next,
            .indices = indices_,
            .slice = slice,
            .samples = samples_.span(0, count),
            .labels = labels_.span(0, count),
            .companions = companion_rows_,
            .sample_bytes = samples_.bytes,
            .label_bytes = labels_.bytes};
}

void BatchBuffer::fill_rows(const Dataset& dataset, int64_t first, int64_t count) {
  CHECK(first >= 0 && count >= 0 && first + count <= batch_.slice.count);
  const size_t at = static_cast<size_t>(first), rows = static_cast<size_t>(count);
  const std::span<const int64_t> chosen = std::span<const int64_t>(indices_).subspan(
      static_cast<size_t>(batch_.slice.begin) + at, rows);
  dataset.fill(chosen, batch_.epoch, samples_.span(at, rows), labels_.span(at, rows));
  for (size_t i = 0; i < companions_.size(); ++i) {
    dataset.companions()[i].data->fill(chosen, batch_.epoch, companions_[i].span(at, rows), {});
  }
}

}  // namespace sardonyx::runtime
