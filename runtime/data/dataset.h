// What a training run reads: a numbered set of samples with labels.
//
// Sources (files, synthetic data) are Datasets, and so are the wrappers that convert them
// (adapt.h); they chain without copies, because `sample` may return a view of stored bytes. All
// const members are thread-safe and nothing allocates per batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/tensor.h"

namespace sardonyx::runtime {

// What a reader returns: samples [N,...], labels [N,...] (undefined: none) and, for CIFAR-100,
// coarse labels.
struct Arrays {
  graph::Tensor samples;
  graph::Tensor labels;
  graph::Tensor coarse_labels;
};

// Element type and shape of one sample or one label, without the batch axis.
struct RowType {
  graph::DType dtype = graph::DType::kUndefined;
  std::vector<int64_t> shape;

  size_t bytes() const;
  std::string str() const;  // "uint8[3,32,32]"
  friend bool operator==(const RowType&, const RowType&) = default;
};

// How the axes of an image sample are known to lie. Unknown: the file doesn't say.
enum class ImageAxes : uint8_t { kUnknown, kHw, kChw, kHwc };

enum class Split : uint8_t { kTrain, kTest };
std::string_view split_name(Split split);  // "train", "test"

struct DatasetInfo {
  std::string name;  // for messages: "fashion-mnist (train)"
  int64_t size = 0;
  RowType sample;
  RowType label;  // dtype undefined: no labels
  int64_t classes =
      0;  // class numbers are 0..classes-1; 0: not known, or the labels are no classes
  ImageAxes axes = ImageAxes::kUnknown;
  std::vector<std::string> notes;  // what was decided on the way, one sentence each, to be printed

  bool has_labels() const { return label.dtype != graph::DType::kUndefined; }
};

// Which sample is wanted, and in which epoch.
struct Pick {
  int64_t index = 0;
  int64_t epoch = 0;
};

class Dataset;

// What a sample holds for a further input of the model: a set of as many samples without labels.
struct Companion {
  std::string input;
  std::shared_ptr<const Dataset> data;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  const DatasetInfo& info() const { return info_; }
  int64_t size() const { return info_.size; }

  // The bytes of one sample or label: a view of stored data, or `room` (as long as the row) after
  // filling it.
  // The epoch matters to augmentation alone.
  virtual std::span<const std::byte> sample(const Pick& pick, std::span<std::byte> room) const = 0;
  virtual std::span<const std::byte> label(int64_t index, std::span<std::byte> room) const = 0;
  // All labels, where they are stored; nullptr where they are computed.
  virtual const graph::Tensor* labels() const { return nullptr; }
  // For models of several inputs: `sample` is what the first of them takes.
  virtual std::span<const Companion> companions() const { return {}; }

  // Copies the chosen rows side by side. CHECK: the destinations have indices.size() rows; `labels`
  // may be empty when they are not wanted.
  void fill(std::span<const int64_t> indices, int64_t epoch, std::span<std::byte> samples,
            std::span<std::byte> labels) const;

 protected:
  explicit Dataset(DatasetInfo info) : info_(std::move(info)) {}
  DatasetInfo info_;
};

// Memory for one row on this thread, kept for the next use; wrappers hand it to the set they wrap.
// Several may be alive at once as long as they end in reverse order.
class ScratchRow {
 public:
  explicit ScratchRow(size_t bytes);
  ~ScratchRow();
  ScratchRow(const ScratchRow&) = delete;
  ScratchRow& operator=(const ScratchRow&) = delete;
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

// Arrays in memory or in a mapped file.
class ArrayDataset final : public Dataset {
 public:
  // Throws Error when there are no samples or the counts differ. `info` gives name, classes and
  // axes; sizes and types are set from the arrays.
  ArrayDataset(Arrays arrays, DatasetInfo info);

  std::span<const std::byte> sample(const Pick& pick, std::span<std::byte> room) const override;
  std::span<const std::byte> label(int64_t index, std::span<std::byte> room) const override;
  const graph::Tensor* labels() const override;

 private:
  graph::Tensor samples_;
  graph::Tensor labels_;
  size_t sample_bytes_ = 0;
  size_t label_bytes_ = 0;
};

// Samples of several inputs: those and the labels of `first`, beside the companions'.
class JoinedDataset final : public Dataset {
 public:
  // Throws Error where the counts differ.
  JoinedDataset(std::shared_ptr<const Dataset> first, std::vector<Companion> companions);

  std::span<const std::byte> sample(const Pick& pick, std::span<std::byte> room) const override {
    return first_->sample(pick, room);
  }
  std::span<const std::byte> label(int64_t index, std::span<std::byte> room) const override {
    return first_->label(index, room);
  }
  const graph::Tensor* labels() const override { return first_->labels(); }
  std::span<const Companion> companions() const override { return companions_; }
  const std::shared_ptr<const Dataset>& first() const { return first_; }

 private:
  std::shared_ptr<const Dataset> first_;
  std::vector<Companion> companions_;
};

}  // namespace sardonyx::runtime
