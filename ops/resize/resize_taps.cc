// Which cells of x a cell of y is made of, and with which weights: the meaning of Resize. The
// gradient has the same weights, sorted by the cell of x; a fixed order of taps keeps its bits the
// same.
#include <algorithm>
#include <cmath>

#include "ops/resize/resize.h"

namespace sardonyx::ops::resize {

namespace {

// For nearest in float: 0.5 / (1/3) must be 1.5 although a third isn't exact.
double divided(double place, double scale, Mode mode) {
  const double result = place / scale;
  return mode == Mode::kNearest ? static_cast<double>(static_cast<float>(result)) : result;
}

// Where the cell o of y lies in x.
double place_in_x(const Settings& s, const AxisScale& a, int64_t o) {
  const auto at = static_cast<double>(o);
  const auto in = static_cast<double>(a.in), out = static_cast<double>(a.out);
  switch (s.coordinates) {
    case Coordinates::kHalfPixel:
      return divided(at + 0.5, a.scale, s.mode) - 0.5;
    case Coordinates::kHalfPixelSymmetric: {
      // The middle stays the middle, although `out` was rounded down.
      const double shift = in / 2 * (1 - out / (a.scale * in));
      return shift + divided(at + 0.5, a.scale, s.mode) - 0.5;
    }
    case Coordinates::kPytorchHalfPixel:
      return a.out > 1 ? divided(at + 0.5, a.scale, s.mode) - 0.5 : 0;
    case Coordinates::kAlignCorners:
      return a.out > 1 ? at * (in - 1) / (out - 1) : 0;
    case Coordinates::kAsymmetric:
      return divided(at, a.scale, s.mode);
    case Coordinates::kTfHalfPixelForNn:
      return divided(at + 0.5, a.scale, s.mode);
    case Coordinates::kTfCropAndResize:
      return a.out > 1 ? (a.roi_begin + at * (a.roi_end - a.roi_begin) / (out - 1)) * (in - 1)
                       : 0.5 * (a.roi_begin + a.roi_end) * (in - 1);
  }
  return 0;
}

double nearest_cell(const Settings& s, const AxisScale& a, double place) {
  switch (s.nearest) {
    case Nearest::kRoundPreferFloor:
      return std::ceil(place - 0.5);
    case Nearest::kRoundPreferCeil:
      return std::floor(place + 0.5);
    case Nearest::kFloor:
      return std::floor(place);
    case Nearest::kCeil:
      return std::ceil(place);
    case Nearest::kOldSimple:
      return a.scale < 1 ? std::ceil(place) : std::floor(place);
  }
  return place;
}

// Weight of a cell at this distance from the place.
double tap_weight(const Settings& s, double distance) {
  const double d = std::abs(distance), a = s.cubic_coeff;
  if (s.mode == Mode::kLinear) return std::max(1 - d, 0.0);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

// Adds to the tap of this cell, which is new or the last one.
void add_tap(Taps& taps, int64_t cell, double weight) {
  if (weight == 0) return;
  const bool new_cell = taps.index.size() == static_cast<size_t>(taps.begin.back());
  if (!new_cell && taps.index.back() == cell) {
    taps.weight.back() += weight;
    return;
  }
  taps.index.push_back(cell);
  taps.weight.push_back(weight);
}

void add_window(const Settings& s, const AxisScale& a, double place, Taps& taps) {
  const bool stretched = s.shrinking == Shrinking::kAntialias && a.scale < 1;
  const double stretch = stretched ? 1 / a.scale : 1;
  const double reach = (s.mode == Mode::kLinear ? 1 : 2) * stretch;
  place = std::clamp(place, -reach, static_cast<double>(a.in - 1) + reach);
  const auto begin = static_cast<int64_t>(std::floor(place - reach)) + 1;
  const auto end = static_cast<int64_t>(std::ceil(place + reach));
  const auto first = static_cast<size_t>(taps.begin.back());
  double sum = 0;
  for (int64_t cell = begin; cell < end; ++cell) {
    if (s.outside == Outside::kLeaveOut && (cell < 0 || cell >= a.in)) continue;
    const double weight = tap_weight(s, (place - static_cast<double>(cell)) / stretch);
    add_tap(taps, std::clamp<int64_t>(cell, 0, a.in - 1), weight);
    sum += weight;
  }
  if (s.outside != Outside::kLeaveOut && !stretched) return;
  for (size_t i = first; i < taps.weight.size(); ++i) taps.weight[i] /= sum;
}

Taps axis_taps(const Settings& s, const AxisScale& a) {
  Taps taps;
  taps.from_size = a.in;
  for (int64_t o = 0; o < a.out; ++o) {
    const auto last = static_cast<double>(a.in - 1);
    const double place = place_in_x(s, a, o);
    const bool outside =
        s.coordinates == Coordinates::kTfCropAndResize && !(place >= 0 && place <= last);
    if (!outside && s.mode == Mode::kNearest) {
      add_tap(taps, static_cast<int64_t>(std::clamp(nearest_cell(s, a, place), 0.0, last)), 1);
    } else if (!outside) {
      add_window(s, a, place, taps);
    }
    taps.close_cell();
  }
  return taps;
}

Taps copied_axis(int64_t size) {
  Taps taps;
  taps.from_size = size;
  for (int64_t i = 0; i < size; ++i) {
    add_tap(taps, i, 1);
    taps.close_cell();
  }
  return taps;
}

Taps transposed(const Taps& taps) {
  Taps result;
  result.from_size = taps.cells();
  result.begin.assign(taps.from_size + 1, 0);
  for (const int64_t cell : taps.index) ++result.begin[cell + 1];
  for (int64_t i = 0; i < taps.from_size; ++i) result.begin[i + 1] += result.begin[i];
  result.index.resize(taps.index.size());
  result.weight.resize(taps.index.size());
  std::vector<int64_t> at(result.begin.begin(), result.begin.end() - 1);
  for (int64_t cell = 0; cell < taps.cells(); ++cell) {
    for (int64_t i = taps.begin[cell]; i < taps.begin[cell + 1]; ++i) {
      const int64_t to = at[taps.index[i]]++;
      result.index[to] = cell;
      result.weight[to] = taps.weight[i];
    }
  }
  return result;
}

}  // namespace

std::vector<Taps> ResizeGeometry::y_from_x() const {
  if (in_box.empty()) return {copied_axis(1)};
  std::vector<Taps> taps;
  size_t next = 0;
  for (size_t i = 0; i < in_box.size(); ++i) {
    const bool resized = axes[next].axis == first + static_cast<int>(i);
    taps.push_back(resized ? axis_taps(settings, axes[next]) : copied_axis(in_box[i]));
    if (resized) ++next;
  }
  return taps;
}

std::vector<Taps> ResizeGeometry::dx_from_dy() const {
  std::vector<Taps> taps = y_from_x();
  for (Taps& axis : taps) axis = transposed(axis);
  return taps;
}

}  // namespace sardonyx::ops::resize
