// Derives the conversion of a row from the fit, and wraps the data set with it.
#include "runtime/data/adapt.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "graph/support/error.h"
#include "graph/tensor.h"
#include "runtime/data/labels.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::shape_str;

using Shape = std::vector<int64_t>;

int64_t product(const Shape& shape) { return graph::checked_numel(shape); }

// Channels of a sample shape and the stride between them, for a statistic of `count` entries.
struct Channels {
  int64_t count = 1;
  int64_t stride = 0;  // 0: one channel
};

Channels channels_of(const Shape& shape, ImageAxes axes, int64_t count, const std::string& name) {
  if (axes == ImageAxes::kUnknown && !shape.empty()) {
    bool first = shape.front() == count;
    bool last = shape.back() == count;
    if (first && last && shape.size() > 1) {
      throw Error(
          "{}: {} means for samples of shape {}: is the first or the last axis the channel? Say "
          "--data-layout nchw or nhwc",
          name, count, shape_str(shape));
    }
    if (first) return {count, product(shape) / count};
    if (last) return {count, 1};
  }
  if (axes == ImageAxes::kChw && shape[0] == count) return {count, product(shape) / count};
  if (axes == ImageAxes::kHwc && shape[2] == count) return {count, 1};
  throw Error("{}: --normalize gives {} means, which fits no channel axis of samples of shape {}",
              name, count, shape_str(shape));
}

RowConversion::Strides strides_of(ImageAxes axes, const Shape& shape) {
  if (axes == ImageAxes::kHwc) return {1, shape[2]};
  return {shape[1] * shape[2], 1};
}

void check_normalize(const Normalize& normalize, const DatasetInfo& data, const ModelInput& input) {
  if (normalize.mean.empty() && normalize.std.empty()) return;
  if (normalize.mean.size() != normalize.std.size()) {
    throw Error("--normalize: {} means but {} standard deviations", normalize.mean.size(),
                normalize.std.size());
  }
  for (float std : normalize.std) {
    if (!(std > 0) || !std::isfinite(std)) {
      throw Error("--normalize: standard deviation {} is not a positive number", std);
    }
  }
  if (!graph::is_floating(input.type.dtype)) {
    throw Error("{}: --normalize needs a floating input, but '{}' takes {}", data.name, input.name,
                graph::dtype_name(input.type.dtype));
  }
}

RowConversion sample_conversion(const DatasetInfo& data, const ModelInput& input, const Fit& fit,
                                const AdaptOptions& options) {
  if (!can_convert(data.sample.dtype, input.type.dtype)) {
    throw Error("{}: the samples are {}, but the model's input '{}' takes {}", data.name,
                data.sample.str(), input.name, input.type.str());
  }
  check_normalize(options.normalize, data, input);
  RowConversion c;
  c.from = data.sample.dtype;
  c.to = input.type.dtype;
  c.plane = product(fit.shape);
  c.scale = options.scale;
  c.mean = options.normalize.mean;
  c.std = options.normalize.std;
  if (fit.move != AxisMove::kNone) {
    bool first = fit.axes == ImageAxes::kChw;
    c.channels = first ? fit.shape[0] : fit.shape[2];
    c.source = strides_of(first ? ImageAxes::kHwc : ImageAxes::kChw, data.sample.shape);
    c.target = strides_of(fit.axes, fit.shape);
  } else if (c.mean.size() > 1) {
    Channels channels =
        channels_of(fit.shape, fit.axes, static_cast<int64_t>(c.mean.size()), data.name);
    c.channels = channels.count;
    c.source = {channels.stride, channels.stride == 1 ? channels.count : 1};
    c.target = c.source;
  }
  c.plane /= c.channels;
  if (c.mean.size() == 1) {
    c.mean.assign(static_cast<size_t>(c.channels), c.mean[0]);
    c.std.assign(static_cast<size_t>(c.channels), c.std[0]);
  }
  if (!c.mean.empty() && static_cast<int64_t>(c.mean.size()) != c.channels) {
    throw Error("{}: --normalize gives {} means, but the samples {} have {} channels", data.name,
                c.mean.size(), shape_str(data.sample.shape), c.channels);
  }
  return c;
}

Shape without_ones(Shape shape) {
  std::erase(shape, 1);
  return shape;
}

RowType label_type(const DatasetInfo& data, const AdaptOptions& options) {
  if (!options.label) return data.label;
  const RowType& wanted = *options.label;
  if (data.label.dtype == DType::kUndefined) {
    throw Error("{}: has no labels, but the loss takes {}", data.name, wanted.str());
  }
  if (without_ones(data.label.shape) != without_ones(wanted.shape)) {
    throw Error("{}: a label is {}, but the loss takes {}", data.name, data.label.str(),
                wanted.str());
  }
  if (!can_convert(data.label.dtype, wanted.dtype)) {
    throw Error("{}: a label is {}, but the loss takes {}: class numbers must be integers",
                data.name, data.label.str(), wanted.str());
  }
  return wanted;
}

// Named sets and pictures are known to hold pixels; the bytes of an array may be anything.
bool scales_unasked(const DatasetInfo& data, const ModelInput& input, const AdaptOptions& options) {
  const bool arrays = data.name.starts_with("npz:") || data.name.starts_with("npy:");
  return arrays && data.sample.dtype == DType::kUint8 && graph::is_floating(input.type.dtype) &&
         options.scale == PixelScale::kUnit;
}

RowConversion label_conversion(const RowType& from, const RowType& to) {
  RowConversion c;
  c.from = from.dtype;
  c.to = to.dtype;
  c.plane = product(to.shape);
  c.scale = PixelScale::kRaw;
  return c;
}

// Integers that go into a narrower type must fit. `row(i)` gives the bytes of row i.
template <class Row>
void check_integers(const DatasetInfo& data, const RowType& from, DType to, std::string_view what,
                    Row&& row) {
  if (graph::is_floating(to)) return;
  const IntegerRange stored = integer_range(from.dtype), range = integer_range(to);
  if (stored.low >= range.low && stored.high <= range.high) return;
  ScratchRow room(from.bytes());
  for (int64_t i = 0; i < data.size; ++i) {
    graph::Tensor values = graph::Tensor::borrow(from.dtype, from.shape, row(i, room.bytes()), {});
    for (int64_t e = 0; e < values.numel(); ++e) {
      if (is_within(values, e, range)) continue;
      throw Error("{}: {} {} holds {}, which does not fit {}", data.name, what, i,
                  integer_text(values, e), graph::dtype_name(to));
    }
  }
}

class AdaptedDataset final : public Dataset {
 public:
  AdaptedDataset(std::shared_ptr<const Dataset> data, DatasetInfo info, RowConverter sample,
                 std::optional<RowConverter> label)
      : Dataset(std::move(info)),
        data_(std::move(data)),
        sample_(std::move(sample)),
        label_(std::move(label)) {}

  std::span<const std::byte> sample(const Pick& pick, std::span<std::byte> room) const override {
    if (sample_.identity()) return data_->sample(pick, room);
    ScratchRow scratch(data_->info().sample.bytes());
    sample_.convert(data_->sample(pick, scratch.bytes()), room);
    return room;
  }

  std::span<const std::byte> label(int64_t index, std::span<std::byte> room) const override {
    CHECK(label_.has_value());
    if (label_->identity()) return data_->label(index, room);
    ScratchRow scratch(data_->info().label.bytes());
    label_->convert(data_->label(index, scratch.bytes()), room);
    return room;
  }

  // In their stored type, which is what checks and messages want.
  const graph::Tensor* labels() const override { return data_->labels(); }

 private:
  std::shared_ptr<const Dataset> data_;
  RowConverter sample_;
  std::optional<RowConverter> label_;
};

}  // namespace

std::shared_ptr<const Dataset> adapt(std::shared_ptr<const Dataset> data, const ModelInput& input,
                                     const AdaptOptions& options) {
  const DatasetInfo& source = data->info();
  Fit fit = fit_sample(source, input);
  RowConversion sample = sample_conversion(source, input, fit, options);
  const bool classes = options.label && graph::is_integer(options.label->dtype);
  if (classes && data->labels() != nullptr) check_not_floating(*data->labels(), source.name);
  RowType label = label_type(source, options);
  check_integers(source, source.sample, sample.to, "sample",
                 [&](int64_t i, std::span<std::byte> room) {
                   return data->sample({i, 0}, room);
                 });
  std::optional<RowConverter> label_converter;
  if (label.dtype != DType::kUndefined) {
    label_converter.emplace(label_conversion(source.label, label));
    check_integers(source, source.label, label.dtype, "label",
                   [&](int64_t i, std::span<std::byte> room) { return data->label(i, room); });
  }
  DatasetInfo info = source;
  info.sample = {input.type.dtype, fit.shape};
  info.label = label;
  info.axes = fit.axes;
  if (!fit.note.empty()) info.notes.push_back(fit.note);
  if (scales_unasked(source, input, options)) {
    info.notes.push_back(
        fmt::format("{}: the samples are uint8 and are divided by 255; --raw-pixels keeps 0 to 255",
                    source.name));
  }
  return std::make_shared<AdaptedDataset>(std::move(data), std::move(info),
                                          RowConverter(std::move(sample)),
                                          std::move(label_converter));
}

Normalize parse_normalize(const std::string& text) {
  std::vector<float> numbers;
  for (const char *at = text.data(), *end = at + text.size(); at <= end; ++at) {
    float value = 0;
    auto [stop, code] = std::from_chars(at, end, value);
    if (code != std::errc() || (stop != end && *stop != ',')) {
      throw Error("--normalize {}: \"{}\" is not a number", text, std::string(at, end));
    }
    numbers.push_back(value);
    at = stop;
  }
  if (numbers.size() % 2 != 0) {
    throw Error(
        "--normalize {}: {} numbers, expected MEAN,STD or the means of all channels followed by as "
        "many standard deviations",
        text, numbers.size());
  }
  size_t half = numbers.size() / 2;
  return {{numbers.begin(), numbers.begin() + half}, {numbers.begin() + half, numbers.end()}};
}

}  // namespace sardonyx::runtime
