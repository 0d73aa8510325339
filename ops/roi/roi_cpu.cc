// Pooling of regions. A thread owns maps: y is cut by region and channel, dx by image and channel,
// so that every cell of dx sums the regions in their order.
#include <algorithm>
#include <cmath>
#include <memory>

#include "ops/core/refusals.h"
#include "ops/registry.h"
#include "ops/roi/roi.h"

namespace sardonyx::ops {

namespace {

using roi::AlignSettings;
using roi::Corners;
using roi::Pooling;
using roi::RoiGeometry;

constexpr double kMostSamples = 1 << 20;

template <class T>
void require_region(const RoiGeometry& g, int64_t region, double image, const T* corners) {
  const bool finite = std::all_of(corners, corners + 4, [](T v) { return std::isfinite(v); });
  if (!finite) {
    throw Error("region {} is ({}, {}) to ({}, {}), expected finite numbers", region, corners[0],
                corners[1], corners[2], corners[3]);
  }
  if (image >= 0 && image < static_cast<double>(g.images)) return;
  throw Error("region {} is of image {}, but x has {}", region, image, g.images);
}

// --- RoiAlign

// A sample along an axis: two neighbouring cells and their weights, both 0 outside of the map.
struct Place {
  int64_t low = 0, high = 0;
  double low_weight = 0, high_weight = 0;
};

Place place(double at, int64_t size) {
  if (at < -1 || at > static_cast<double>(size)) return {};
  at = std::max(at, 0.0);
  const auto low = static_cast<int64_t>(at);
  if (low >= size - 1) return {size - 1, size - 1, 1, 0};
  const double high_weight = at - static_cast<double>(low);
  return {low, low + 1, 1 - high_weight, high_weight};
}

// A region along an axis.
struct Extent {
  double begin, bin;
  int64_t samples, cells;  // samples per bin, cells of the map

  template <class T>
  Extent(const AlignSettings& s, T scale, T from, T to, int64_t bins, int64_t size) : cells(size) {
    // In T: whether a bin is a bit longer than a whole number is a matter of rounding.
    const T shift = s.corners == Corners::kHalfPixel ? T{0.5} : T{0};
    const T start = from * scale - shift, end = to * scale - shift;
    const T length = s.corners == Corners::kHalfPixel ? end - start : std::max(end - start, T{1});
    const T part = length / static_cast<T>(bins);
    begin = start;
    bin = part;
    if (s.samples == 0 && !(std::ceil(part) <= kMostSamples)) {
      throw Error("a region is {} cells long, too long for {} bins", length, bins);
    }
    samples = s.samples > 0 ? s.samples : static_cast<int64_t>(std::max(std::ceil(part), T{0}));
  }
  Place at(int64_t number, int64_t sample) const {
    return place(begin + static_cast<double>(number) * bin +
                     (static_cast<double>(sample) + 0.5) * bin / static_cast<double>(samples),
                 cells);
  }
};

struct Region {
  int64_t image;
  Extent y, x;
};

template <class T>
Region region_of(const RoiGeometry& g, const AlignSettings& s, const T* rois, const int64_t* images,
                 int64_t r) {
  const T* roi = rois + 4 * r;
  require_region(g, r, static_cast<double>(images[r]), roi);
  const T scale = static_cast<T>(g.scale);
  return {images[r], Extent(s, scale, roi[1], roi[3], g.bins_y, g.height),
          Extent(s, scale, roi[0], roi[2], g.bins_x, g.width)};
}

// f(cell, weight) for the four cells of every sample of a bin.
template <class F>
void each_cell(const RoiGeometry& g, const Region& region, int64_t bin, F f) {
  if (g.map() == 0) return;
  const int64_t p = bin / g.bins_x, q = bin % g.bins_x;
  for (int64_t i = 0; i < region.y.samples; ++i) {
    const Place y = region.y.at(p, i);
    for (int64_t j = 0; j < region.x.samples; ++j) {
      const Place x = region.x.at(q, j);
      f(y.low * g.width + x.low, y.low_weight * x.low_weight);
      f(y.low * g.width + x.high, y.low_weight * x.high_weight);
      f(y.high * g.width + x.low, y.high_weight * x.low_weight);
      f(y.high * g.width + x.high, y.high_weight * x.high_weight);
    }
  }
}

double samples(const Region& region) {
  return static_cast<double>(std::max<int64_t>(region.y.samples * region.x.samples, 1));
}

struct Winner {
  int64_t cell = -1;  // -1: the bin has no sample
  double weight = 0, value = 0;
};

template <class T>
Winner winner(const RoiGeometry& g, const Region& region, int64_t bin, const T* map) {
  Winner best;
  each_cell(g, region, bin, [&](int64_t cell, double weight) {
    const double value = weight * static_cast<double>(map[cell]);
    if (best.cell < 0 || value > best.value) best = {cell, weight, value};
  });
  return best;
}

// Both operators, forward and back: `Regions` says where they lie and how a bin is pooled.
template <class T, class Regions>
void forward(ThreadPool& pool, const RoiGeometry& g, const Regions& regions, const T* x, T* y) {
  parallel_for(pool, g.regions * g.channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t map = begin; map < end; ++map) {
      const int64_t r = map / g.channels, c = map % g.channels;
      const T* from = x + (regions.image(r) * g.channels + c) * g.map();
      for (int64_t bin = 0; bin < g.bins(); ++bin) {
        y[map * g.bins() + bin] = regions.pooled(r, bin, from);
      }
    }
  });
}

template <class T, class Regions>
void backward(ThreadPool& pool, const RoiGeometry& g, const Regions& regions, const T* x,
              const T* dy, T* dx) {
  parallel_for(pool, g.images * g.channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t map = begin; map < end; ++map) {
      const T* from = x + map * g.map();
      T* to = dx + map * g.map();
      std::fill_n(to, g.map(), T{0});
      for (int64_t r = 0; r < g.regions; ++r) {
        if (regions.image(r) != map / g.channels) continue;
        const T* back = dy + (r * g.channels + map % g.channels) * g.bins();
        for (int64_t bin = 0; bin < g.bins(); ++bin) {
          regions.return_gradient(r, bin, from, back[bin], to);
        }
      }
    }
  });
}

template <class T>
struct AlignedRegions {
  RoiGeometry g;
  Pooling pooling;
  const Region* regions;

  int64_t image(int64_t r) const { return regions[r].image; }
  T pooled(int64_t r, int64_t bin, const T* map) const {
    if (pooling == Pooling::kMaximum) return static_cast<T>(winner(g, regions[r], bin, map).value);
    double sum = 0;
    each_cell(g, regions[r], bin,
              [&](int64_t cell, double weight) { sum += weight * static_cast<double>(map[cell]); });
    return static_cast<T>(sum / samples(regions[r]));
  }
  void return_gradient(int64_t r, int64_t bin, const T* map, T dy, T* dx) const {
    if (pooling == Pooling::kMaximum) {
      const Winner best = winner(g, regions[r], bin, map);
      if (best.cell >= 0) dx[best.cell] += static_cast<T>(best.weight * static_cast<double>(dy));
      return;
    }
    const double part = static_cast<double>(dy) / samples(regions[r]);
    each_cell(g, regions[r], bin,
              [&](int64_t cell, double weight) { dx[cell] += static_cast<T>(weight * part); });
  }
};

enum class Direction : uint8_t { kForward, kBackward };

class AlignKernel final : public Kernel {
 public:
  AlignKernel(Direction direction, const KernelRequest& r)
      : direction_(direction),
        dtype_(r.out[0].dtype),
        geometry_(*r.node, r.in[0], direction == Direction::kForward ? r.out[0] : r.in[3]),
        settings_(AlignSettings::of(*r.node)) {}

  size_t workspace_bytes() const override { return geometry_.regions * sizeof(Region); }

  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() {
      auto* regions = reinterpret_cast<Region*>(context.workspace.data());
      for (int64_t r = 0; r < geometry_.regions; ++r) {
        std::construct_at(regions + r, region_of(geometry_, settings_, context.in<T>(1),
                                                 context.in<int64_t>(2), r));
      }
      const AlignedRegions<T> aligned{geometry_, settings_.pooling, regions};
      const T* x = context.in<T>(0);
      if (direction_ == Direction::kForward) {
        forward(*context.pool, geometry_, aligned, x, context.out<T>(0));
      } else {
        backward(*context.pool, geometry_, aligned, x, context.in<T>(3), context.out<T>(0));
      }
    });
  }

 private:
  Direction direction_;
  DType dtype_;
  RoiGeometry geometry_;
  AlignSettings settings_;
};

// --- MaxRoiPool

// Cells [begin, end) of a bin along an axis. Whole numbers: no bin gains a cell by rounding.
struct Cells {
  int64_t begin, end;

  Cells(double from, double to, int64_t bin, int64_t bins, int64_t size) {
    // What lies far outside has no cells, wherever exactly.
    const auto whole = [size](double at) {
      const auto most = static_cast<double>(2 * size + 2);
      return static_cast<int64_t>(std::round(std::clamp(at, -most, most)));
    };
    const int64_t first = whole(from), length = std::max<int64_t>(whole(to) - first + 1, 1);
    begin = std::clamp<int64_t>(first + bin * length / bins, 0, size);
    end = std::clamp<int64_t>(first + ((bin + 1) * length + bins - 1) / bins, 0, size);
  }
};

template <class T>
struct MaxRegions {
  RoiGeometry g;
  const T* rois;

  int64_t image(int64_t r) const { return static_cast<int64_t>(rois[5 * r]); }
  // The first maximum; -1: the bin has no cell.
  int64_t winner(int64_t r, int64_t bin, const T* map) const {
    const T* roi = rois + 5 * r;
    const T scale = static_cast<T>(g.scale);
    const Cells ys(roi[2] * scale, roi[4] * scale, bin / g.bins_x, g.bins_y, g.height);
    const Cells xs(roi[1] * scale, roi[3] * scale, bin % g.bins_x, g.bins_x, g.width);
    int64_t best = -1;
    for (int64_t y = ys.begin; y < ys.end; ++y) {
      for (int64_t x = xs.begin; x < xs.end; ++x) {
        const T v = map[y * g.width + x];
        if (best < 0 || v > map[best] || v != v) best = y * g.width + x;
      }
    }
    return best;
  }
  T pooled(int64_t r, int64_t bin, const T* map) const {
    const int64_t best = winner(r, bin, map);
    return best < 0 ? T{0} : map[best];
  }
  void return_gradient(int64_t r, int64_t bin, const T* map, T dy, T* dx) const {
    const int64_t best = winner(r, bin, map);
    if (best >= 0) dx[best] += dy;
  }
};

void run_max(Direction direction, const KernelRequest& request, CpuContext& context) {
  const bool back = direction == Direction::kBackward;
  const RoiGeometry g(*request.node, request.in[0], back ? request.in[2] : request.out[0]);
  dispatch_float(request.out[0].dtype, [&]<class T>() {
    const MaxRegions<T> regions{g, context.in<T>(1)};
    for (int64_t r = 0; r < g.regions; ++r) {
      require_region(g, r, regions.rois[5 * r], regions.rois + 5 * r + 1);
    }
    const T* x = context.in<T>(0);
    if (back) return backward(*context.pool, g, regions, x, context.in<T>(2), context.out<T>(0));
    forward(*context.pool, g, regions, x, context.out<T>(0));
  });
}

KernelDef reference(const char* domain, const char* op) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "roi.ref";
  def.declines = {unless_float()};
  return def;
}

}  // namespace

void register_roi_cpu(KernelRegistry& kernels) {
  const auto add_align = [&](const char* domain, const char* op, Direction direction) {
    KernelDef def = reference(domain, op);
    def.create = [direction](const KernelRequest& request) {
      return std::make_unique<AlignKernel>(direction, request);
    };
    kernels.add(std::move(def));
  };
  const auto add_max = [&](const char* domain, const char* op, Direction direction) {
    KernelDef def = reference(domain, op);
    def.create = simple_kernel([direction](const KernelRequest& request, CpuContext& context) {
      run_max(direction, request, context);
    });
    kernels.add(std::move(def));
  };
  add_align("", "RoiAlign", Direction::kForward);
  add_align(kDomain, "RoiAlignGrad", Direction::kBackward);
  add_max("", "MaxRoiPool", Direction::kForward);
  add_max(kDomain, "MaxRoiPoolGrad", Direction::kBackward);
}

}  // namespace sardonyx::ops
