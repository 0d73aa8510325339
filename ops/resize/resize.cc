// Resize: y[.., o, ..] = sum over taps t of weight(o, t) * x[.., index(o, t), ..], axis by axis
//
// The taps of an output o lie around its place in x, p(o) by coordinate_transformation_mode: one
// (nearest), two (linear) or four (cubic); what lies beyond an edge is taken from the edge. On axes
// that shrink, antialias makes the taps of linear and cubic reach 1 / scale times as far.
// Inputs   x   roi [2a] (tf_crop_and_resize only)   scales [a] or sizes [a], a = listed axes
// Output   y   of size floor(size * roi * scale), or as sizes say
// R1 floating elements          R2 the names of modes are known; antialias is not
//                               for tf_crop_and_resize
// R3 scales or sizes, not both, one for each listed axis (default: all axes)
// R4 scales are positive numbers, sizes >= 1; no output of cells from an input without
// R5 tf_crop_and_resize has a roi, two finite numbers for each listed axis; with scales it may not
//    run backwards
// R6 sizes keep the batch axis as it is
// Old      Resize-10 and Upsample become the form with asymmetric coordinates, where nearest takes
//          the cell before p, on axes that shrink the one behind: private attribute old_simple = 1.
// Gradient dx = ResizeGrad(dy): the same weights, transposed. Reads sizes only, which it keeps as
//          attributes (axes, scales, input_shape, roi).
// Source   ONNX Resize-10, 11, 13, 18, 19, Upsample-7, 9
#include "ops/resize/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/core/axes.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/lines.h"
#include "ops/core/normalize.h"
#include "ops/core/strided.h"

namespace sardonyx::ops {

namespace resize {

namespace {

// Kernels count cells in 32 bits.
constexpr double kLargestAxis = std::numeric_limits<int32_t>::max();

enum class Aspect : uint8_t { kStretch, kNotLarger, kNotSmaller };

template <class T>
struct Named {
  const char* name;
  T value;
};

template <class T, size_t n>
T named(const Node& node, const char* attribute, const char* fallback, const Named<T> (&all)[n]) {
  const std::string name = node.get_string(attribute, fallback);
  std::string known;
  for (const Named<T>& entry : all) {
    if (name == entry.name) return entry.value;
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw ConstraintError("R2", "{} '{}' is none of {}", attribute, name, known);
}

constexpr Named<Mode> kModes[] = {
    {"nearest", Mode::kNearest}, {"linear", Mode::kLinear}, {"cubic", Mode::kCubic}};
constexpr Named<Coordinates> kCoordinates[] = {
    {"half_pixel", Coordinates::kHalfPixel},
    {"half_pixel_symmetric", Coordinates::kHalfPixelSymmetric},
    {"pytorch_half_pixel", Coordinates::kPytorchHalfPixel},
    {"align_corners", Coordinates::kAlignCorners},
    {"asymmetric", Coordinates::kAsymmetric},
    {"tf_half_pixel_for_nn", Coordinates::kTfHalfPixelForNn},
    {"tf_crop_and_resize", Coordinates::kTfCropAndResize}};
constexpr Named<Nearest> kNearestModes[] = {{"round_prefer_floor", Nearest::kRoundPreferFloor},
                                            {"round_prefer_ceil", Nearest::kRoundPreferCeil},
                                            {"floor", Nearest::kFloor},
                                            {"ceil", Nearest::kCeil}};
constexpr Named<Aspect> kAspects[] = {{"stretch", Aspect::kStretch},
                                      {"not_larger", Aspect::kNotLarger},
                                      {"not_smaller", Aspect::kNotSmaller}};

Aspect aspect_of(const Node& node) {
  return named(node, "keep_aspect_ratio_policy", "stretch", kAspects);
}

}  // namespace

Settings Settings::of(const Node& node) {
  Settings s;
  s.mode = named(node, "mode", "nearest", kModes);
  s.coordinates = named(node, "coordinate_transformation_mode", "half_pixel", kCoordinates);
  s.nearest = named(node, "nearest_mode", "round_prefer_floor", kNearestModes);
  if (node.get_int(kOldSimple, 0) != 0) s.nearest = Nearest::kOldSimple;
  if (node.get_int("exclude_outside", 0) != 0) s.outside = Outside::kLeaveOut;
  s.cubic_coeff = node.get_float("cubic_coeff_a", -0.75);
  s.extrapolation = node.get_float("extrapolation_value", 0);
  if (node.get_int("antialias", 0) != 0) s.shrinking = Shrinking::kAntialias;
  if (s.shrinking == Shrinking::kAntialias && s.coordinates == Coordinates::kTfCropAndResize) {
    throw ConstraintError("R2", "antialias 1 doesn't go with tf_crop_and_resize");
  }
  return s;
}

bool AxisScale::copied() const {
  return scale == 1 && roi_begin == 0 && roi_end == 1 && (in == out || out < 0);
}

Target Target::of(const Node& node, const Tensor* roi, const Tensor* scales, const Tensor* sizes,
                  int rank) {
  Target t;
  std::vector<int64_t> all(rank);
  std::iota(all.begin(), all.end(), 0);
  t.axes = checked_axes(node.get_ints("axes", all), rank);
  if (scales != nullptr) t.scales = scales->to_doubles();
  if (sizes != nullptr) t.sizes = sizes->to_ints();
  if (t.scales.empty() == t.sizes.empty() && !t.axes.empty()) {
    throw ConstraintError("R3", "found {} scales and {} sizes, expected one of the two",
                          t.scales.size(), t.sizes.size());
  }
  const size_t count = t.scales.size() + t.sizes.size();
  if (count != t.axes.size()) {
    throw ConstraintError("R3", "found {} {} for {} axes", count,
                          t.scales.empty() ? "sizes" : "scales", t.axes.size());
  }
  if (Settings::of(node).coordinates != Coordinates::kTfCropAndResize) return t;
  if (roi != nullptr) t.roi = roi->to_doubles();
  if (t.roi.size() != 2 * count) {
    throw ConstraintError("R5", "tf_crop_and_resize needs a roi of {} numbers, found {}", 2 * count,
                          t.roi.size());
  }
  for (size_t i = 0; i < count; ++i) {
    const double begin = t.roi[i], end = t.roi[count + i];
    if (std::isfinite(begin) && std::isfinite(end)) continue;
    throw ConstraintError("R5", "the roi of axis {} is {} to {}, expected finite numbers",
                          t.axes[i], begin, end);
  }
  return t;
}

namespace {

ConstraintError too_long(const AxisScale& a, double scale) {
  return ConstraintError("R4", "axis {} of size {} is too long at the scale {}", a.axis, a.in,
                         scale);
}

// Fills in the scale and, where it follows, the size of y.
void by_scale(AxisScale& a, double scale) {
  if (!(scale > 0) || !std::isfinite(scale)) {
    throw ConstraintError("R4", "the scale of axis {} is {}, expected a positive number", a.axis,
                          scale);
  }
  a.scale = scale;
  if (a.in < 0) return;
  if (a.roi_end < a.roi_begin) {
    throw ConstraintError(
        "R5",
        "the roi of axis {} runs backwards from {} to {}, which takes sizes instead of scales",
        a.axis, a.roi_begin, a.roi_end);
  }
  // In float, as everywhere else: 10 * 0.7f is 7 there, but 6.99.. in double.
  const float size = static_cast<float>(a.in) * static_cast<float>(a.roi_end - a.roi_begin) *
                     static_cast<float>(scale);
  if (!(size < kLargestAxis)) throw too_long(a, scale);
  a.out = static_cast<int64_t>(std::floor(size));
}

void by_size(AxisScale& a, int64_t size) {
  a.out = size;
  if (a.in >= 0) a.scale = a.in == size ? 1 : static_cast<double>(size) / a.in;
}

// One scale for all axes, the smallest or the largest that the sizes ask for.
void keep_aspect(std::vector<AxisScale>& axes, const std::vector<int64_t>& sizes, Aspect aspect) {
  double common = aspect == Aspect::kNotLarger ? std::numeric_limits<double>::infinity() : 0;
  for (const AxisScale& a : axes) {
    if (a.in == 0) return;
    if (a.in < 0) {
      for (AxisScale& open : axes) open.out = -1, open.scale = std::nan("");
      return;
    }
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const double scale = static_cast<double>(sizes[i]) / static_cast<double>(axes[i].in);
    common = aspect == Aspect::kNotLarger ? std::min(common, scale) : std::max(common, scale);
  }
  for (AxisScale& a : axes) {
    const double size = std::floor(common * static_cast<double>(a.in) + 0.5);
    if (size > kLargestAxis) throw too_long(a, common);
    a.scale = common;
    a.out = static_cast<int64_t>(size);
  }
}

}  // namespace

std::vector<AxisScale> axis_scales(const Node& node, const Target& target,
                                   const std::vector<int64_t>& x) {
  std::vector<AxisScale> axes;
  const size_t count = target.axes.size();
  for (size_t i = 0; i < count; ++i) {
    AxisScale a;
    a.axis = target.axes[i];
    a.in = x[a.axis];
    a.out = -1;
    if (!target.roi.empty()) {
      a.roi_begin = target.roi[i];
      a.roi_end = target.roi[count + i];
    }
    if (!target.scales.empty()) {
      by_scale(a, target.scales[i]);
    } else {
      const int64_t size = target.sizes[i];
      if (size < 0 || size > kLargestAxis || (size == 0 && a.in != 0)) {
        throw ConstraintError("R4", "the size of axis {} is {}, expected 1 to {}", a.axis, size,
                              kLargestAxis);
      }
      by_size(a, size);
    }
    axes.push_back(a);
  }
  if (!target.sizes.empty() && aspect_of(node) != Aspect::kStretch) {
    keep_aspect(axes, target.sizes, aspect_of(node));
  }
  for (const AxisScale& a : axes) {
    if (a.in < 0 || a.out < 0 || (a.in > 0) == (a.out > 0)) continue;
    throw ConstraintError("R4", "axis {} can't be resized from {} cells to {}", a.axis, a.in,
                          a.out);
  }
  std::ranges::sort(axes, {}, &AxisScale::axis);
  return axes;
}

// Row i of y is made of row i of x alone, whatever the number of rows.
bool keeps_rows(const Node& node) {
  const TensorType& x = node.input(0)->type;
  const auto bytes = [&](int i) {
    const Value* value = node.input(i);
    return value != nullptr && value->is_constant() ? &value->data : nullptr;
  };
  if (!x.ranked || (bytes(kScales) == nullptr && bytes(kSizes) == nullptr)) return false;
  const Target target = Target::of(node, bytes(kRoi), bytes(kScales), bytes(kSizes), x.rank());
  std::vector<int64_t> sizes;
  for (const Dim& dim : x.dims) sizes.push_back(dim.value);
  const bool alone = target.scales.empty() && aspect_of(node) != Aspect::kStretch;
  for (const AxisScale& a : axis_scales(node, target, sizes)) {
    if (a.axis == 0) return !alone && a.copied();
  }
  return true;
}

ResizeGeometry::ResizeGeometry(const Node& node, const TensorType& x, const std::vector<int64_t>& y,
                               std::vector<AxisScale> resized)
    : settings(Settings::of(node)), axes(std::move(resized)) {
  const int rank = x.rank();
  first = axes.empty() ? rank : axes.front().axis;
  const int end = axes.empty() ? rank : axes.back().axis + 1;
  const std::vector<int64_t> sizes = stored_dims(x);
  in_box.assign(sizes.begin() + first, sizes.begin() + end);
  out_box.assign(y.begin() + first, y.begin() + end);
  const Lines boxes = Lines::over(sizes, first, end);
  outer = boxes.outer;
  inner = boxes.inner;
}

ResizeGeometry ResizeGeometry::forward(const KernelRequest& r) {
  const std::vector<int64_t> x = r.in_shape(0), y = r.out_shape(0);
  Target target = Target::of(*r.node, r.constant(kRoi), r.constant(kScales), r.constant(kSizes),
                             static_cast<int>(x.size()));
  // Inside a region axis 0 is that of the block.
  if (!target.sizes.empty() && aspect_of(*r.node) == Aspect::kStretch) {
    for (size_t i = 0; i < target.axes.size(); ++i) target.sizes[i] = y[target.axes[i]];
  }
  std::vector<AxisScale> axes = axis_scales(*r.node, target, x);
  std::erase_if(axes, [](const AxisScale& a) { return a.copied(); });
  return {*r.node, r.in[0], y, std::move(axes)};
}

ResizeGeometry ResizeGeometry::gradient(const KernelRequest& r) {
  const Node& node = *r.node;
  const std::vector<int64_t> y = r.in_shape(0);
  const std::vector<int64_t> at = node.get_ints("axes", {}), in = node.get_ints("input_shape", {});
  const std::vector<double> scales = node.get_floats("scales", {}),
                            roi = node.get_floats("roi", {});
  std::vector<AxisScale> axes;
  for (size_t i = 0; i < at.size(); ++i) {
    AxisScale a{static_cast<int>(at[i]), in[i], y[at[i]], scales[i]};
    if (!roi.empty()) {
      a.roi_begin = roi[i];
      a.roi_end = roi[at.size() + i];
    }
    axes.push_back(a);
  }
  return {node, r.out[0], y, std::move(axes)};
}

}  // namespace resize

namespace {

using resize::AxisScale;
using resize::Settings;
using resize::Target;

// --- Schema

const std::vector<AttributeDef> kSettings = {
    {"mode", "string, default nearest: nearest, linear or cubic"},
    {"coordinate_transformation_mode",
     "string, default half_pixel: where a cell of y lies in x: half_pixel, half_pixel_symmetric, "
     "pytorch_half_pixel, align_corners, asymmetric, tf_half_pixel_for_nn, tf_crop_and_resize"},
    {"nearest_mode",
     "string, default round_prefer_floor: round_prefer_floor, round_prefer_ceil, floor, ceil"},
    {"cubic_coeff_a", "float, default -0.75: coefficient of cubic"},
    {"exclude_outside", "int, default 0: 1 gives no weight to cells beyond an edge"},
    {"extrapolation_value", "float, default 0: y where tf_crop_and_resize leaves x"},
    {"antialias",
     "int, default 0: 1 lets linear and cubic read every cell of an axis that shrinks"},
    {resize::kOldSimple, "private int, default 0: 1 rounds as Resize-10 does", Writer::kRules},
};

std::vector<AttributeDef> with_settings(std::vector<AttributeDef> more) {
  more.insert(more.begin(), kSettings.begin(), kSettings.end());
  return more;
}

// x, scales -> x, -, scales
void normalize_old_form(NormalizeContext& c) {
  Node& node = c.node();
  if (Value* scales = node.input(1)) {
    c.b().graph().set_input(&node, resize::kScales, scales);
    c.b().graph().set_input(&node, resize::kRoi, nullptr);
  }
  node.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
  node.attributes[resize::kOldSimple] = int64_t{1};
}

void normalize_resize(NormalizeContext& c) {
  if (c.opset() < 11) normalize_old_form(c);
}

void normalize_upsample(NormalizeContext& c) {
  if (c.opset() < 7) c.refuse("its sizes have names of their own there");
  normalize_old_form(c);
  c.attribute_to_input("scales", resize::kScales);
  c.node().op = "Resize";
}

// --- Shape

// False while a constant input that the sizes need isn't known yet.
bool known(const InferContext& c, int input) {
  return !c.has(input) || c.constant(input) != nullptr || c.known_ints(input).has_value();
}

void infer_resize(InferContext& c) {
  require_floating(c, 0, "R1");
  const Settings settings = Settings::of(c.node());
  const bool crops = settings.coordinates == resize::Coordinates::kTfCropAndResize;
  const bool sized =
      known(c, resize::kScales) && known(c, resize::kSizes) && (!crops || known(c, resize::kRoi));
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  if (!sized) return c.set(0, c.dtype(0), std::vector<Dim>(c.dims(0).size()));
  const Target target = Target::of(c.node(), c.constant(resize::kRoi), c.constant(resize::kScales),
                                   c.constant(resize::kSizes), c.rank(0));
  std::vector<Dim> dims = c.dims(0);
  std::vector<int64_t> x;
  for (const Dim& dim : dims) x.push_back(dim.value);
  const bool has_batch = carries_batch(c.node(), c.node().input(0));
  for (const AxisScale& a : resize::axis_scales(c.node(), target, x)) {
    if (a.copied()) continue;
    const bool resizes_batch =
        a.axis == 0 && has_batch && !target.sizes.empty() && a.in >= 0 && a.in != a.out;
    c.require(!resizes_batch, "R6",
              "the batch size {} is baked into sizes, but the batch has {} rows; export with a "
              "dynamic batch, or with scales",
              a.out, a.in);
    dims[a.axis] = Dim(a.out);
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_resize_grad(InferContext& c) {
  require_floating(c, 0, "R1");
  Settings::of(c.node());
  const std::vector<int64_t> axes = c.node().get_ints("axes", {});
  const std::vector<int64_t> input = c.node().get_ints("input_shape", {});
  const size_t scales = c.node().get_floats("scales", {}).size();
  const size_t roi = c.node().get_floats("roi", {}).size();
  c.require(
      input.size() == axes.size() && scales == axes.size() && (roi == 0 || roi == 2 * axes.size()),
      "R3", "{} axes, {} input sizes, {} scales and {} numbers of a roi don't go together",
      axes.size(), input.size(), scales, roi);
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  std::vector<Dim> dims = c.dims(0);
  const std::vector<int> at = checked_axes(axes, c.rank(0));
  for (size_t i = 0; i < at.size(); ++i) {
    c.require(input[i] >= 0, "R4", "the input size of axis {} is {}", at[i], input[i]);
    dims[at[i]] = Dim(input[i]);
  }
  c.set(0, c.dtype(0), std::move(dims));
}

// --- Gradient

void resize_gradient(GradientContext& c) {
  std::vector<int64_t> at, input;
  std::vector<double> scales, begins, ends;
  for (const AxisScale& a : resize::ResizeGeometry::forward(KernelRequest::of(c.node())).axes) {
    at.push_back(a.axis);
    input.push_back(a.in);
    scales.push_back(a.scale);
    begins.push_back(a.roi_begin);
    ends.push_back(a.roi_end);
  }
  if (at.empty()) return c.set(0, c.dy(0));
  graph::Attributes attributes{{"axes", at}, {"input_shape", input}, {"scales", scales}};
  for (const AttributeDef& setting : kSettings) {
    const auto it = c.node().attributes.find(setting.name);
    if (it != c.node().attributes.end()) attributes[setting.name] = it->second;
  }
  if (Settings::of(c.node()).coordinates == resize::Coordinates::kTfCropAndResize) {
    begins.insert(begins.end(), ends.begin(), ends.end());
    attributes["roi"] = begins;
  }
  c.set(0, c.b().own("ResizeGrad", {c.dy(0)}, std::move(attributes)));
}

// --- Definition

BatchRole resize_role(const Node& node, int) {
  return resize::keeps_rows(node) ? BatchRole::kRows : BatchRole::kCouples;
}

BatchRole resize_grad_role(const Node& node, int) {
  const std::vector<int64_t> axes = node.get_ints("axes", {});
  return std::ranges::find(axes, 0) == axes.end() ? BatchRole::kRows : BatchRole::kCouples;
}

OpDef resize_op() {
  OpDef op;
  op.name = "Resize";
  op.doc = "Resampling along any axes: nearest, linear or cubic.";
  op.since = {10, 11, 13, 18, 19};
  op.inputs = {{"x"},
               {"roi", Presence::kOptional, "the cut-out is fixed"},
               {"scales", Presence::kOptional, "sizes are fixed"},
               {"sizes", Presence::kOptional, "sizes are fixed"}};
  op.outputs = {{"y"}};
  op.attributes = with_settings(
      {{"axes", "ints, default all: the axes that roi, scales and sizes speak of"},
       {"keep_aspect_ratio_policy",
        "string, default stretch: not_larger and not_smaller take one scale for all sizes"}});
  op.normalize = normalize_resize;
  op.infer = infer_resize;
  op.gradient = gradient(resize_gradient);
  op.batch = resize_role;
  return op;
}

OpDef resize_grad_op() {
  OpDef op = gradient_op(
      "ResizeGrad", "Gradient of Resize: every cell of dy goes back to the cells it was made of.",
      "Resize", {{"dy"}}, {{"dx"}}, infer_resize_grad);
  op.attributes = with_settings({{"axes", "ints, required: the resized axes"},
                                 {"input_shape", "ints, required: sizes of dx along them"},
                                 {"scales", "floats, required: their scales"},
                                 {"roi", "floats, default none: begins, then ends"}});
  op.batch = resize_grad_role;
  return op;
}

}  // namespace

void register_resize(OpRegistry& ops) {
  OpDef old = resize_op();
  old.name = "Upsample";
  old.doc = "The old name of Resize.";
  old.since = {7, 9, 10};
  old.normalize = normalize_upsample;
  ops.add(resize_op());
  ops.add(std::move(old));
  ops.add(resize_grad_op());
}

}  // namespace sardonyx::ops
