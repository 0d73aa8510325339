// Row arithmetic: row i of a dense array [N,...] starts at i times the bytes of a row.
#include "runtime/data/dataset.h"

#include <cstring>
#include <utility>

#include "graph/support/bytes.h"
#include "graph/support/error.h"
#include "runtime/data/labels.h"

namespace sardonyx::runtime {
namespace {

RowType row_type(const graph::Tensor& tensor) {
  return {tensor.dtype(), {tensor.shape().begin() + 1, tensor.shape().end()}};
}

// `tensor`, or a copy when its borrowed bytes stand at an odd address.
graph::Tensor aligned(graph::Tensor tensor) {
  size_t element = graph::dtype_size(tensor.dtype());
  if (element == 0)
    throw Error("data of type {} is not supported", graph::dtype_name(tensor.dtype()));
  if (reinterpret_cast<uintptr_t>(tensor.bytes().data()) % element == 0) return tensor;
  graph::Tensor copy(tensor.dtype(), tensor.shape());
  copy_bytes(copy.mutable_bytes().data(), tensor.bytes().data(), tensor.bytes().size());
  return copy;
}

// The view `source` gives, brought to `slot`.
void place(std::span<const std::byte> source, std::span<std::byte> slot) {
  CHECK(source.size() == slot.size());
  if (source.data() != slot.data()) std::memcpy(slot.data(), source.data(), slot.size());
}

}  // namespace

std::string_view split_name(Split split) { return split == Split::kTrain ? "train" : "test"; }

size_t RowType::bytes() const {
  return static_cast<size_t>(graph::checked_numel(shape)) * graph::dtype_size(dtype);
}

std::string RowType::str() const {
  return std::string(graph::dtype_name(dtype)) + graph::shape_str(shape);
}

void Dataset::fill(std::span<const int64_t> indices, int64_t epoch, std::span<std::byte> samples,
                   std::span<std::byte> labels) const {
  if (indices.empty()) return;
  CHECK(samples.size() % indices.size() == 0 && labels.size() % indices.size() == 0);
  size_t sample_bytes = samples.size() / indices.size();
  size_t label_bytes = labels.size() / indices.size();
  for (size_t i = 0; i < indices.size(); ++i) {
    CHECK(indices[i] >= 0 && indices[i] < size(), "sample {} of {}", indices[i], size());
    std::span<std::byte> slot = samples.subspan(i * sample_bytes, sample_bytes);
    place(sample({indices[i], epoch}, slot), slot);
    if (label_bytes == 0) continue;
    slot = labels.subspan(i * label_bytes, label_bytes);
    place(label(indices[i], slot), slot);
  }
}

namespace {
thread_local std::vector<std::vector<std::byte>> scratch_rows;
thread_local size_t scratch_depth = 0;
}  // namespace

ScratchRow::ScratchRow(size_t bytes) {
  if (scratch_rows.size() == scratch_depth) scratch_rows.emplace_back();
  std::vector<std::byte>& row = scratch_rows[scratch_depth++];
  if (row.size() < bytes) row.resize(bytes);
  bytes_ = {row.data(), bytes};
}

ScratchRow::~ScratchRow() { --scratch_depth; }

ArrayDataset::ArrayDataset(Arrays arrays, DatasetInfo info)
    : Dataset(std::move(info)), samples_(aligned(std::move(arrays.samples))) {
  if (samples_.rank() < 1) {
    throw Error("{}: the samples are a single number, expected an array [N,...]", info_.name);
  }
  info_.size = samples_.shape()[0];
  check_not_empty(info_.size, info_.name);
  info_.sample = row_type(samples_);
  sample_bytes_ = info_.sample.bytes();
  if (sample_bytes_ == 0) {
    throw Error("{}: the samples are empty: shape {}", info_.name,
                graph::shape_str(samples_.shape()));
  }
  size_t axes = info_.axes == ImageAxes::kHw ? 2 : 3;
  CHECK(info_.axes == ImageAxes::kUnknown || info_.sample.shape.size() == axes);
  if (!arrays.labels.defined()) return;
  labels_ = aligned(std::move(arrays.labels));
  if (labels_.rank() < 1) {
    throw Error("{}: the labels are a single number, expected an array [N,...]", info_.name);
  }
  check_same_count(info_.size, info_.name, labels_.shape()[0], info_.name);
  info_.label = row_type(labels_);
  label_bytes_ = info_.label.bytes();
}

std::span<const std::byte> ArrayDataset::sample(const Pick& pick, std::span<std::byte>) const {
  return samples_.bytes().subspan(static_cast<size_t>(pick.index) * sample_bytes_, sample_bytes_);
}

std::span<const std::byte> ArrayDataset::label(int64_t index, std::span<std::byte>) const {
  return labels_.bytes().subspan(static_cast<size_t>(index) * label_bytes_, label_bytes_);
}

const graph::Tensor* ArrayDataset::labels() const { return labels_.defined() ? &labels_ : nullptr; }

JoinedDataset::JoinedDataset(std::shared_ptr<const Dataset> first,
                             std::vector<Companion> companions)
    : Dataset(first->info()), first_(std::move(first)), companions_(std::move(companions)) {
  for (const Companion& companion : companions_) {
    const DatasetInfo& other = companion.data->info();
    if (other.size != info_.size) {
      throw Error("{} has {} samples, but {} has {}: the counts must agree", info_.name, info_.size,
                  other.name, other.size);
    }
    info_.notes.insert(info_.notes.end(), other.notes.begin(), other.notes.end());
  }
}

}  // namespace sardonyx::runtime
