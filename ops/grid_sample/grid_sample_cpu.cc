// Kernels. The cells that make a sample are found once for all channels. y and dgrid are cut by
// sample; dx by image and channel, so that what meets in a cell is added in the order of the
// samples.
#include <algorithm>
#include <array>

#include "ops/core/elementwise.h"
#include "ops/core/lines.h"
#include "ops/core/refusals.h"
#include "ops/core/strided.h"
#include "ops/grid_sample/grid_sample.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

using grid_sample::AxisTaps;
using grid_sample::kMostAxes;
using grid_sample::kMostTaps;
using grid_sample::Settings;

constexpr int kMostCells = kMostTaps * kMostTaps * kMostTaps;

// The cells that one sample is made of: offsets in a channel of x, and their weights.
template <class T>
struct Cells {
  int count = 0;
  std::array<int64_t, kMostCells> at;
  std::array<T, kMostCells> weight;
  // Of the weight, by each number of the grid, in the order of the axes of x.
  std::array<std::array<T, kMostCells>, kMostAxes> slope;
};

// x [samples][channels][cells], grid [samples][points][axes], y [samples][channels][points].
struct Geometry {
  Settings settings;
  std::vector<int64_t> sizes, strides;  // of the spatial axes of x
  int64_t samples, channels, cells, points;

  Geometry(const Node& node, const std::vector<int64_t>& x, const std::vector<int64_t>& grid)
      : settings(Settings::of(node)),
        sizes(x.begin() + 2, x.end()),
        strides(row_major(sizes)),
        samples(x[0]),
        channels(x[1]),
        cells(product(x, 2, std::ssize(x))),
        points(product(grid, 1, std::ssize(grid) - 1)) {}

  int axes() const { return static_cast<int>(sizes.size()); }

  // `grid`: the numbers of one sample.
  template <class T>
  void find(const T* grid, Cells<T>& cells) const {
    std::array<AxisTaps<T>, kMostAxes> taps;
    for (int a = 0; a < axes(); ++a) {
      taps[a] = grid_sample::axis_taps(settings, grid[axes() - 1 - a], sizes[a]);
    }
    cells.count = 0;
    combine(taps, cells, 0, 0, {});
  }

 private:
  static int64_t product(const std::vector<int64_t>& dims, int64_t begin, int64_t end) {
    return Lines::over(dims, begin, end).length;
  }

  template <class T>
  void combine(const std::array<AxisTaps<T>, kMostAxes>& taps, Cells<T>& cells, int axis,
               int64_t at, std::array<int, kMostAxes> chosen) const {
    if (axis == axes()) return add(taps, cells, at, chosen);
    for (int i = 0; i < taps[axis].count; ++i) {
      if (taps[axis].cell[i] < 0) continue;
      chosen[axis] = i;
      combine(taps, cells, axis + 1, at + taps[axis].cell[i] * strides[axis], chosen);
    }
  }

  template <class T>
  void add(const std::array<AxisTaps<T>, kMostAxes>& taps, Cells<T>& cells, int64_t at,
           const std::array<int, kMostAxes>& chosen) const {
    const int i = cells.count++;
    cells.at[i] = at;
    const auto weight = [&](int but) {
      T product = 1;
      for (int a = 0; a < axes(); ++a) {
        product *= a == but ? taps[a].slope[chosen[a]] : taps[a].weight[chosen[a]];
      }
      return product;
    };
    cells.weight[i] = weight(-1);
    for (int a = 0; a < axes(); ++a) cells.slope[a][i] = weight(a);
  }
};

// f(sample, point, its cells) for all points, several threads at once.
template <class T, class F>
void for_each_point(const CpuContext& context, const Geometry& g, const T* grid, F&& f) {
  const int64_t grain = 1 + kMathGrain / (g.channels + 8);
  parallel_for(*context.pool, g.samples * g.points, grain, [&](int64_t begin, int64_t end) {
    Cells<T> cells;
    for (int64_t i = begin; i < end; ++i) {
      g.find(grid + i * g.axes(), cells);
      f(i / g.points, i % g.points, cells);
    }
  });
}

void run_forward(const KernelRequest& request, CpuContext& context) {
  const Geometry g(*request.node, request.in_shape(0), request.in_shape(1));
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const T* x = context.in<T>(0);
    T* y = context.out<T>(0);
    for_each_point(context, g, context.in<T>(1), [&](int64_t n, int64_t p, const Cells<T>& cells) {
      for (int64_t plane = n * g.channels; plane < (n + 1) * g.channels; ++plane) {
        T sum = 0;
        for (int i = 0; i < cells.count; ++i) {
          sum += cells.weight[i] * x[plane * g.cells + cells.at[i]];
        }
        y[plane * g.points + p] = sum;
      }
    });
  });
}

void run_grad_data(const KernelRequest& request, CpuContext& context) {
  const Geometry g(*request.node, request.out_shape(0), request.in_shape(1));
  zero_fill(*context.pool, context.outputs[0], request.out[0].bytes());
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const T *dy = context.in<T>(0), *grid = context.in<T>(1);
    T* dx = context.out<T>(0);
    const int64_t grain = 1 + kMathGrain / (g.points + 1);
    parallel_for(*context.pool, g.samples * g.channels, grain, [&](int64_t begin, int64_t end) {
      Cells<T> cells;
      while (begin < end) {
        const int64_t n = begin / g.channels, last = std::min(end, (n + 1) * g.channels);
        for (int64_t p = 0; p < g.points; ++p) {
          g.find(grid + (n * g.points + p) * g.axes(), cells);
          for (int64_t plane = begin; plane < last; ++plane) {
            const T share = dy[plane * g.points + p];
            for (int i = 0; i < cells.count; ++i) {
              dx[plane * g.cells + cells.at[i]] += cells.weight[i] * share;
            }
          }
        }
        begin = last;
      }
    });
  });
}

void run_grad_grid(const KernelRequest& request, CpuContext& context) {
  const Geometry g(*request.node, request.in_shape(1), request.in_shape(2));
  dispatch_float(request.in[0].dtype, [&]<class T>() {
    const T *dy = context.in<T>(0), *x = context.in<T>(1);
    T* dgrid = context.out<T>(0);
    for_each_point(context, g, context.in<T>(2), [&](int64_t n, int64_t p, const Cells<T>& cells) {
      std::array<double, kMostAxes> sums = {};
      for (int64_t plane = n * g.channels; plane < (n + 1) * g.channels; ++plane) {
        const T share = dy[plane * g.points + p];
        for (int i = 0; i < cells.count; ++i) {
          const T part = share * x[plane * g.cells + cells.at[i]];
          for (int a = 0; a < g.axes(); ++a) sums[a] += cells.slope[a][i] * part;
        }
      }
      T* to = dgrid + (n * g.points + p) * g.axes();
      for (int a = 0; a < g.axes(); ++a) to[g.axes() - 1 - a] = static_cast<T>(sums[a]);
    });
  });
}

void add(KernelRegistry& kernels, const char* domain, const char* op, const char* name,
         KernelFunction function) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = name;
  def.declines = {unless_float()};
  def.create = simple_kernel(std::move(function));
  kernels.add(std::move(def));
}

}  // namespace

void register_grid_sample_cpu(KernelRegistry& kernels) {
  add(kernels, "", "GridSample", "grid_sample.ref", run_forward);
  add(kernels, kDomain, "GridSampleGradData", "grid_sample_grad_data.ref", run_grad_data);
  add(kernels, kDomain, "GridSampleGradGrid", "grid_sample_grad_grid.ref", run_grad_grid);
  kernels.add(composed_kernel("AffineGrid", "affine_grid.ref", grid_sample::write_affine_grid));
}

}  // namespace sardonyx::ops
