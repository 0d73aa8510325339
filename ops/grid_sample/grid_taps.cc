// The meaning of GridSample along one axis: place, what lies beyond the edges, weights. A place
// beyond the edges is brought back first; then the cells around it are, one by one. With cubic and
// border the cells alone are, as PyTorch and ONNX Runtime have it: their weights would else jump.
#include <algorithm>
#include <cmath>

#include "ops/grid_sample/grid_sample.h"

namespace sardonyx::ops::grid_sample {

namespace {

constexpr double kCubicCoeff = -0.75;

// A place on the axis and how fast it moves with the number in the grid.
template <class T>
struct Place {
  T at, slope;
};

template <class T>
struct Edges {
  T low, high;

  Edges(const Settings& settings, int64_t size)
      : low(settings.corners == Corners::kMiddles ? T(0) : T(-0.5)),
        high(static_cast<T>(size - 1) - low) {}
  // False for NaN.
  bool hold(T at) const { return at >= low && at <= high; }

  Place<T> reflected(Place<T> place) const {
    const T range = high - low, away = place.at < low ? low - place.at : place.at - high;
    const T turns = std::fmod(away, 2 * range);
    if (!std::isfinite(turns)) return {low, 0};  // no way back, or an axis of a single place
    const bool from_low = (place.at < low) == (turns <= range);
    const T rest = turns <= range ? turns : turns - range;
    const bool mirrored = turns <= range;
    return {from_low ? low + rest : high - rest, mirrored ? -place.slope : place.slope};
  }
};

template <class T>
Place<T> place_of(const Settings& settings, T g, int64_t size) {
  const T cells = static_cast<T>(size);
  if (settings.corners == Corners::kMiddles) return {(g + 1) / 2 * (cells - 1), (cells - 1) / 2};
  return {((g + 1) * cells - 1) / 2, cells / 2};
}

// Some tap may be a cell; false for NaN.
template <class T>
bool reaches_cells(T at, int64_t size) {
  return at > -kMostTaps && at < static_cast<T>(size + kMostTaps);
}

template <class T>
Place<T> brought_back(const Settings& settings, Place<T> place, int64_t size) {
  const Edges<T> edges(settings, size);
  if (edges.hold(place.at)) return place;
  switch (settings.padding) {
    case Padding::kBorder:
      if (settings.mode == Mode::kCubic && reaches_cells(place.at, size)) return place;
      return {place.at > 0 ? static_cast<T>(size - 1) : T(0), 0};
    case Padding::kReflection:
      return edges.reflected(place);
    case Padding::kZeros:
      break;
  }
  return place;
}

int64_t cell_of(const Settings& settings, int64_t cell, int64_t size) {
  if (cell >= 0 && cell < size) return cell;
  switch (settings.padding) {
    case Padding::kBorder:
      return std::clamp<int64_t>(cell, 0, size - 1);
    case Padding::kReflection:
      return static_cast<int64_t>(
          Edges<double>(settings, size).reflected({static_cast<double>(cell), 0}).at);
    case Padding::kZeros:
      break;
  }
  return -1;
}

// Weight of a cell at a distance of 0 to 1, and of 1 to 2; their derivatives.
template <class T>
struct Cubic {
  static constexpr T a = kCubicCoeff;
  static T near(T d) { return ((a + 2) * d - (a + 3)) * d * d + 1; }
  static T far(T d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; }
  static T near_slope(T d) { return (3 * (a + 2) * d - 2 * (a + 3)) * d; }
  static T far_slope(T d) { return (3 * a * d - 10 * a) * d + 8 * a; }
};

template <class T>
void weigh(Mode mode, T behind, T slope, AxisTaps<T>& taps) {
  const T before = 1 - behind;
  const auto set = [&](std::initializer_list<T> weights, std::initializer_list<T> slopes) {
    std::ranges::copy(weights, taps.weight);
    std::ranges::transform(slopes, taps.slope, [&](T by_place) { return by_place * slope; });
  };
  if (mode == Mode::kLinear) return set({before, behind}, {-1, 1});
  using C = Cubic<T>;
  set({C::far(behind + 1), C::near(behind), C::near(before), C::far(before + 1)},
      {C::far_slope(behind + 1), C::near_slope(behind), -C::near_slope(before),
       -C::far_slope(before + 1)});
}

}  // namespace

template <class T>
AxisTaps<T> axis_taps(const Settings& settings, T g, int64_t size) {
  Place<T> place = place_of(settings, g, size);
  AxisTaps<T> taps;
  // Half-way to the even cell, as PyTorch does.
  if (settings.mode == Mode::kNearest) place = {std::nearbyint(place.at), 0};
  place = brought_back(settings, place, size);
  if (!reaches_cells(place.at, size)) return taps;
  const T floor = std::floor(place.at);
  const auto first = static_cast<int64_t>(floor);
  if (settings.mode == Mode::kNearest) {
    taps.count = 1;
    taps.weight[0] = 1;
    taps.slope[0] = 0;
    taps.cell[0] = cell_of(settings, first, size);
    return taps;
  }
  taps.count = settings.mode == Mode::kLinear ? 2 : 4;
  weigh(settings.mode, place.at - floor, place.slope, taps);
  for (int i = 0; i < taps.count; ++i) {
    taps.cell[i] = cell_of(settings, first + i - (taps.count == 4 ? 1 : 0), size);
  }
  return taps;
}

template AxisTaps<float> axis_taps(const Settings& settings, float g, int64_t size);
template AxisTaps<double> axis_taps(const Settings& settings, double g, int64_t size);

}  // namespace sardonyx::ops::grid_sample
