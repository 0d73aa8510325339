// How a Resize reads its input, decoded once from attributes, constants and sizes. Private to the
// room. An axis that comes through as it is ("copied") has no entry in a geometry, so that a block
// of rows is resized as the whole batch is.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/kernel.h"

namespace sardonyx::ops::resize {

inline constexpr int kRoi = 1, kScales = 2, kSizes = 3;  // input slots

enum class Mode : uint8_t { kNearest, kLinear, kCubic };
enum class Coordinates : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixelForNn,
  kTfCropAndResize,
};
// kOldSimple: ceil where the axis shrinks, else floor (Resize-10).
enum class Nearest : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil, kOldSimple };
enum class Outside : uint8_t { kRepeatEdge, kLeaveOut };
// kAntialias: every cell of x counts, however few cells y has.
enum class Shrinking : uint8_t { kSample, kAntialias };

// Private: 1 in what Resize-10 and Upsample become, Nearest::kOldSimple.
inline constexpr const char* kOldSimple = "old_simple";

struct Settings {
  Mode mode = Mode::kNearest;
  Coordinates coordinates = Coordinates::kHalfPixel;
  Nearest nearest = Nearest::kRoundPreferFloor;
  Outside outside = Outside::kRepeatEdge;
  Shrinking shrinking = Shrinking::kSample;
  double cubic_coeff = -0.75;
  double extrapolation = 0;

  // Throws ConstraintError (R2) for a name that ONNX doesn't know.
  static Settings of(const Node& node);
};

// What the constant inputs ask for, per listed axis: scales or sizes, the other is empty.
struct Target {
  std::vector<int> axes;
  std::vector<double> scales;
  std::vector<int64_t> sizes;
  std::vector<double> roi;  // begins, then ends; empty: none

  // nullptr: left out. Throws ConstraintError (R3, R5).
  static Target of(const Node& node, const Tensor* roi, const Tensor* scales, const Tensor* sizes,
                   int rank);
};

struct AxisScale {
  int axis = 0;
  int64_t in = 0, out = 0;  // -1: not known
  double scale = 1;
  double roi_begin = 0, roi_end = 1;

  bool copied() const;
};

// The listed axes in ascending order, for an x of these sizes (-1: not known). Throws
// ConstraintError (R4).
std::vector<AxisScale> axis_scales(const Node& node, const Target& target,
                                   const std::vector<int64_t>& x);

// The linear map along one axis, in compressed rows: to[cell] = sum of weight * from[index].
struct Taps {
  int64_t from_size = 0;
  std::vector<int64_t> begin = {0};  // per cell, and the end of the last
  std::vector<int64_t> index;
  std::vector<double> weight;

  int64_t cells() const { return static_cast<int64_t>(begin.size()) - 1; }
  void close_cell() { begin.push_back(static_cast<int64_t>(index.size())); }
};

// x is [outer][in_box][inner], y is [outer][out_box][inner]: the boxes reach from the first resized
// axis to the last. In lanes of images the lanes are the innermost axis of `inner`.
struct ResizeGeometry {
  Settings settings;
  std::vector<AxisScale> axes;  // the resized ones, ascending
  int first = 0;                // axis where the boxes begin
  std::vector<int64_t> in_box, out_box;
  int64_t outer = 1, inner = 1;

  // Of an x (or dx) of this type, and the sizes of y (or dy).
  ResizeGeometry(const Node& node, const TensorType& x, const std::vector<int64_t>& y,
                 std::vector<AxisScale> resized);
  static ResizeGeometry forward(const KernelRequest& request);
  static ResizeGeometry gradient(const KernelRequest& request);

  // Per axis of the boxes, one at least. A cell of y that lies outside of x has no taps.
  std::vector<Taps> y_from_x() const;
  std::vector<Taps> dx_from_dy() const;
};

}  // namespace sardonyx::ops::resize
