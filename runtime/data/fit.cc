// The readings that are allowed, tried in a fixed order.
#include "runtime/data/fit.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "graph/support/error.h"

namespace sardonyx::runtime {
namespace {

using graph::Dim;
using graph::shape_str;

using Shape = std::vector<int64_t>;

bool fits(const Shape& shape, const std::vector<Dim>& dims) {
  return std::equal(shape.begin(), shape.end(), dims.begin(), dims.end(),
                    [](int64_t size, const Dim& dim) { return !dim.known() || dim.value == size; });
}

// The sample without its channel axis, when that has size one.
std::optional<Shape> plane_of(const DatasetInfo& data) {
  const Shape& shape = data.sample.shape;
  if (shape.size() == 2) return shape;
  if (shape.size() != 3) return std::nullopt;
  if (shape[0] == 1 && data.axes != ImageAxes::kHwc) return Shape{shape[1], shape[2]};
  if (shape[2] == 1 && data.axes != ImageAxes::kChw) return Shape{shape[0], shape[1]};
  return std::nullopt;
}

std::string hint_for(const DatasetInfo& data, const std::vector<Dim>& dims) {
  const Shape& s = data.sample.shape;
  if (dims.size() == 1 && dims[0].known() && dims[0].value == graph::checked_numel(s)) {
    return "; if one row of values is meant, save x.reshape(len(x), -1)";
  }
  if (s.size() != dims.size()) return "";
  if (s.size() != 3) return "";
  if (fits({s[2], s[0], s[1]}, dims)) {
    return "; the data looks like NHWC: if so, say --data-layout nhwc";
  }
  if (fits({s[1], s[2], s[0]}, dims)) {
    return "; the data looks like NCHW: if so, say --data-layout nchw";
  }
  return "; images are never resized on their own";
}

[[noreturn]] void fail_shapes(const DatasetInfo& data, const ModelInput& input) {
  std::vector<Dim> dims(input.type.dims.begin() + 1, input.type.dims.end());
  Shape with_batch{data.size};
  with_batch.insert(with_batch.end(), data.sample.shape.begin(), data.sample.shape.end());
  throw Error("{}: the data has shape {}, but the model's input '{}' takes {}{}", data.name,
              shape_str(with_batch), input.name, shape_str(input.type.dims), hint_for(data, dims));
}

std::string moved(const DatasetInfo& data, const Shape& to, std::string_view what) {
  return fmt::format("{}: {}: samples {} go in as {}", data.name, what,
                     shape_str(data.sample.shape), shape_str(to));
}

// A plane has no channels to mistake; which axis of [H,W,1] they are the file may not say.
std::string added(const DatasetInfo& data, const Shape& to) {
  const bool open = data.sample.shape.size() == 3 && data.axes == ImageAxes::kUnknown;
  return open ? moved(data, to, "channel axis moved") : "";
}

}  // namespace

Fit fit_sample(const DatasetInfo& data, const ModelInput& input) {
  const Shape& s = data.sample.shape;
  if (!input.type.ranked) return {s, data.axes, AxisMove::kNone, ""};
  if (input.type.dims.empty()) fail_shapes(data, input);
  std::vector<Dim> dims(input.type.dims.begin() + 1, input.type.dims.end());
  // Where both orders fit (symbolic dimensions), channels first: the order of ONNX's operators.
  if (data.axes == ImageAxes::kHwc) {
    Shape chw{s[2], s[0], s[1]};
    if (fits(chw, dims)) {
      return {chw, ImageAxes::kChw, AxisMove::kHwcToChw, moved(data, chw, "channels moved first")};
    }
  }
  if (fits(s, dims)) return {s, data.axes, AxisMove::kNone, ""};
  if (data.axes == ImageAxes::kChw) {
    Shape hwc{s[1], s[2], s[0]};
    if (fits(hwc, dims)) {
      return {hwc, ImageAxes::kHwc, AxisMove::kChwToHwc, moved(data, hwc, "channels moved last")};
    }
  }
  // One channel: every arrangement has the same bytes.
  if (std::optional<Shape> plane = plane_of(data)) {
    int64_t h = (*plane)[0];
    int64_t w = (*plane)[1];
    if (Shape chw{1, h, w}; fits(chw, dims)) {
      return {chw, ImageAxes::kChw, AxisMove::kNone, added(data, chw)};
    }
    if (Shape hwc{h, w, 1}; fits(hwc, dims)) {
      return {hwc, ImageAxes::kHwc, AxisMove::kNone, added(data, hwc)};
    }
    if (fits(*plane, dims)) {
      return {*plane, ImageAxes::kHw, AxisMove::kNone,
              moved(data, *plane, "channel axis of one dropped")};
    }
    // Rows of an array may be anything, those of a picture are pixels.
    const bool picture = data.axes != ImageAxes::kUnknown;
    if (Shape flat{h * w}; picture && fits(flat, dims)) {
      return {flat, ImageAxes::kUnknown, AxisMove::kNone, moved(data, flat, "rows joined")};
    }
  }
  fail_shapes(data, input);
}

}  // namespace sardonyx::runtime
