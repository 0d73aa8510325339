// A pattern is a grid of at most 4 x 4 levels over the last two axes, one grid per index of the
// axes before them.
#include "runtime/data/synthetic.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "graph/support/error.h"
#include "runtime/data/random.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;

// The samples of the test set stand behind any training set in the stream of noise.
constexpr int64_t kTestOffset = int64_t{1} << 48;

class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(const SyntheticTask& task, Split split, DatasetInfo info)
      : Dataset(std::move(info)),
        seed_(task.seed),
        shift_(task.values == SyntheticTask::Values::kBits ? 7 : 0),
        noise_(data_stream(task.seed, Purpose::kSyntheticNoise, 0)),
        offset_(split == Split::kTest ? kTestOffset : 0) {
    const std::vector<int64_t>& shape = info_.sample.shape;
    if (!shape.empty()) width_ = shape.back();
    if (shape.size() >= 2) height_ = shape[shape.size() - 2];
    planes_ = graph::checked_numel(shape) / (height_ * width_);
    rows_ = std::min<int64_t>(4, height_);
    columns_ = std::min<int64_t>(height_ == 1 ? 16 : 4, width_);
    fill_levels();
    fill_labels();
  }

  std::span<const std::byte> sample(const Pick& pick, std::span<std::byte> room) const override {
    fill_noise(pick.index, room);
    auto* out = reinterpret_cast<uint8_t*>(room.data());
    const uint8_t* levels = &levels_[static_cast<size_t>(class_of(pick.index) * grid())];
    for (int64_t plane = 0; plane < planes_; ++plane) {
      for (int64_t y = 0; y < height_; ++y) {
        const uint8_t* row = levels + (plane * rows_ + y * rows_ / height_) * columns_;
        for (int64_t column = 0; column < columns_; ++column) {
          int64_t end = (column + 1) * width_ / columns_;
          for (int64_t x = column * width_ / columns_; x < end; ++x) {
            out[x] = static_cast<uint8_t>((row[column] + (out[x] >> 1)) >> shift_);
          }
        }
        out += width_;
      }
    }
    return room;
  }

  std::span<const std::byte> label(int64_t index, std::span<std::byte>) const override {
    size_t bytes = info_.label.bytes();
    return std::span<const std::byte>(labels_).subspan(static_cast<size_t>(class_of(index)) * bytes,
                                                       bytes);
  }

 private:
  int64_t grid() const { return planes_ * rows_ * columns_; }
  int64_t class_of(int64_t index) const { return index % info_.classes; }

  void fill_levels() {
    levels_.resize(static_cast<size_t>(info_.classes * grid()));
    RandomSequence random(data_stream(seed_, Purpose::kSyntheticPattern, 0), 0);
    for (size_t i = 0; i < levels_.size(); ++i) {
      levels_[i] = random.next() & 0x7f;
    }
  }

  // One label per class.
  void fill_labels() {
    const RowType& label = info_.label;
    if (!info_.has_labels()) return;
    size_t elements = static_cast<size_t>(graph::checked_numel(label.shape));
    size_t count = elements * static_cast<size_t>(info_.classes);
    std::vector<double> values(count);
    RandomSequence random(data_stream(seed_, Purpose::kSyntheticTarget, 0), 0);
    for (size_t i = 0; i < count; ++i) {
      if (graph::is_floating(label.dtype)) {
        values[i] = static_cast<double>(random.next64() >> 11) * 0x1p-52 - 1;
      } else {
        values[i] = static_cast<double>((i / elements + i % elements) % info_.classes);
      }
    }
    graph::Tensor converted =
        graph::Tensor::of<double>({static_cast<int64_t>(count)}, values).cast(label.dtype);
    labels_.assign(converted.bytes().begin(), converted.bytes().end());
  }

  void fill_noise(int64_t index, std::span<std::byte> out) const {
    std::array<uint32_t, ops::kRandomChunk> bits;
    int64_t chunk = 0;
    for (size_t at = 0; at < out.size(); at += sizeof bits) {
      ops::random_chunk(noise_, offset_ + index, chunk++, bits.data());
      std::memcpy(&out[at], bits.data(), std::min(sizeof bits, out.size() - at));
    }
  }

  uint64_t seed_;
  int shift_;       // of what a pixel would hold
  uint64_t noise_;  // the stream
  int64_t offset_;  // of sample 0 in it
  int64_t planes_ = 1;
  int64_t height_ = 1;
  int64_t width_ = 1;
  int64_t rows_ = 1;
  int64_t columns_ = 1;
  std::vector<uint8_t> levels_;    // [class][plane][row][column]
  std::vector<std::byte> labels_;  // [class]
};

}  // namespace

std::shared_ptr<const Dataset> make_synthetic(const SyntheticTask& task, Split split) {
  if (task.samples <= 0 || task.classes <= 0) {
    throw Error("synthetic: {} samples and {} classes: both must be positive", task.samples,
                task.classes);
  }
  if (std::ranges::any_of(task.sample_shape, [](int64_t size) { return size <= 0; })) {
    throw Error("synthetic: samples of shape {}: every dimension must be known and positive",
                graph::shape_str(task.sample_shape));
  }
  DatasetInfo info;
  info.name = fmt::format("synthetic ({})", split_name(split));
  info.size = split == Split::kTrain ? task.samples : std::max<int64_t>(1, task.samples / 5);
  info.sample = {DType::kUint8, task.sample_shape};
  info.label = task.label;
  info.axes = task.axes;
  info.classes = task.classes;
  return std::make_shared<SyntheticDataset>(task, split, std::move(info));
}

}  // namespace sardonyx::runtime
