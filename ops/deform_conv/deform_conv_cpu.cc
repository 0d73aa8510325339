// The columns of DeformConv and their gradients, one kernel each. A thread owns rows of what it
// writes; a cell of dx sums taps and cells of y in row-major order, whatever the number of threads.
#include <algorithm>
#include <cmath>

#include "ops/core/elementwise.h"
#include "ops/core/refusals.h"
#include "ops/deform_conv/deform_conv.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

using deform_conv::ColumnGeometry;
using deform_conv::kMostAxes;
using deform_conv::Sample;

constexpr int64_t kSampleGrain = 256;  // samples per piece of a thread

Sample sample_at(const Window& window, const std::array<double, kMostAxes>& place) {
  Sample s;
  s.axes = window.axes();
  int64_t step = 1;
  for (int a = s.axes; a-- > 0;) {
    const int64_t size = window.in[a];
    // What isn't a number has a cell, so that it spreads.
    const bool number = !std::isnan(place[a]);
    const bool near = place[a] > -1 && place[a] < static_cast<double>(size);
    const auto low = near ? static_cast<int64_t>(std::floor(place[a])) : 0;
    s.part[a] = place[a] - static_cast<double>(low);
    s.inside[2 * a] = (near && low >= 0) || (!number && size > 0);
    s.inside[2 * a + 1] = near && low + 1 < size;
    s.offset[2 * a] = low * step;
    s.offset[2 * a + 1] = (low + 1) * step;
    step *= size;
  }
  return s;
}

// Offsets and mask as they lie, and the samples they make.
template <class T>
struct Samples {
  const ColumnGeometry& g;
  const T* offset;
  const T* mask;  // nullptr: all 1

  // `line` counts (image, group, tap).
  Sample at(int64_t line, int64_t cell) const {
    std::array<double, kMostAxes> place{};
    int64_t tap = line % g.taps, out = cell;
    for (int a = g.axes(); a-- > 0;) {
      const Window& w = g.window;
      place[a] = static_cast<double>(out % w.out[a] * w.stride[a] - w.pad_begin[a] +
                                     tap % w.kernel[a] * w.dilation[a]) +
                 static_cast<double>(offset[(line * g.axes() + a) * g.cells + cell]);
      out /= w.out[a];
      tap /= w.kernel[a];
    }
    return sample_at(g.window, place);
  }
  double factor(int64_t line, int64_t cell) const {
    return mask == nullptr ? 1 : static_cast<double>(mask[line * g.cells + cell]);
  }
  int64_t lines() const { return g.batch * g.groups * g.taps; }
  // First channel (of all images) of the group of a line.
  int64_t first_channel(int64_t line) const { return line / g.taps * g.group_channels(); }
};

template <class T>
double interpolated(const Sample& s, const T* map) {
  double sum = 0;
  s.each_cell(
      [&](int64_t cell, int corner) { sum += s.weight(corner) * static_cast<double>(map[cell]); });
  return sum;
}

template <class T>
void fill_columns(ThreadPool& pool, const Samples<T>& samples, const T* x, T* columns) {
  const ColumnGeometry& g = samples.g;
  parallel_for(pool, samples.lines() * g.cells, kSampleGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t line = i / g.cells, cell = i % g.cells, tap = line % g.taps;
      const Sample s = samples.at(line, cell);
      const double factor = samples.factor(line, cell);
      const int64_t first = samples.first_channel(line);
      for (int64_t c = first; c < first + g.group_channels(); ++c) {
        columns[(c * g.taps + tap) * g.cells + cell] =
            static_cast<T>(factor * interpolated(s, x + c * g.map));
      }
    }
  });
}

// Cut by channel; channels of one group that a thread has share their samples.
template <class T>
void grad_data(ThreadPool& pool, const Samples<T>& samples, const T* dcolumns, T* dx) {
  const ColumnGeometry& g = samples.g;
  parallel_for(pool, g.batch * g.channels, 1, [&](int64_t begin, int64_t end) {
    std::fill(dx + begin * g.map, dx + end * g.map, T{0});
    while (begin < end) {
      const int64_t group = begin / g.group_channels();
      const int64_t last = std::min(end, (group + 1) * g.group_channels());
      for (int64_t i = 0; i < g.taps * g.cells; ++i) {
        const int64_t tap = i / g.cells, cell = i % g.cells, line = group * g.taps + tap;
        const Sample s = samples.at(line, cell);
        const double factor = samples.factor(line, cell);
        s.each_cell([&](int64_t at, int corner) {
          const double weight = factor * s.weight(corner);
          for (int64_t c = begin; c < last; ++c) {
            const T back = dcolumns[(c * g.taps + tap) * g.cells + cell];
            dx[c * g.map + at] += static_cast<T>(weight * static_cast<double>(back));
          }
        });
      }
      begin = last;
    }
  });
}

// doffset and dmask: nullptr where they aren't wanted.
template <class T>
void grad_offset(ThreadPool& pool, const Samples<T>& samples, const T* x, const T* dcolumns,
                 T* doffset, T* dmask) {
  const ColumnGeometry& g = samples.g;
  parallel_for(pool, samples.lines() * g.cells, kSampleGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t line = i / g.cells, cell = i % g.cells, tap = line % g.taps;
      const Sample s = samples.at(line, cell);
      std::array<double, kMostAxes> slope{};
      double value = 0;
      const int64_t first = samples.first_channel(line);
      for (int64_t c = first; c < first + g.group_channels(); ++c) {
        const auto back = static_cast<double>(dcolumns[(c * g.taps + tap) * g.cells + cell]);
        s.each_cell([&](int64_t at, int corner) {
          const double v = back * static_cast<double>(x[c * g.map + at]);
          value += s.weight(corner) * v;
          for (int a = 0; a < g.axes(); ++a) {
            slope[a] +=
                ((corner >> a) & 1) != 0 ? s.weight(corner, a) * v : -s.weight(corner, a) * v;
          }
        });
      }
      if (dmask != nullptr) dmask[i] = static_cast<T>(value);
      for (int a = 0; a < g.axes() && doffset != nullptr; ++a) {
        doffset[(line * g.axes() + a) * g.cells + cell] =
            static_cast<T>(samples.factor(line, cell) * slope[a]);
      }
    }
  });
}

void run_columns(const KernelRequest& r, CpuContext& context) {
  const ColumnGeometry g(*r.node, r.in[0], r.out[0]);
  dispatch_float(r.out[0].dtype, [&]<class T>() {
    const Samples<T> samples{g, context.in<T>(1), context.in<T>(2)};
    fill_columns(*context.pool, samples, context.in<T>(0), context.out<T>(0));
  });
}

void run_grad_data(const KernelRequest& r, CpuContext& context) {
  const ColumnGeometry g(*r.node, r.out[0], r.in[2]);
  dispatch_float(r.out[0].dtype, [&]<class T>() {
    const Samples<T> samples{g, context.in<T>(0), context.in<T>(1)};
    grad_data(*context.pool, samples, context.in<T>(2), context.out<T>(0));
  });
}

void run_grad_offset(const KernelRequest& r, CpuContext& context) {
  const ColumnGeometry g(*r.node, r.in[0], r.in[3]);
  dispatch_float(r.in[0].dtype, [&]<class T>() {
    const Samples<T> samples{g, context.in<T>(1), context.in<T>(2)};
    grad_offset(*context.pool, samples, context.in<T>(0), context.in<T>(3), context.out<T>(0),
                context.out<T>(1));
  });
}

KernelDef reference(const char* op, KernelFunction function) {
  KernelDef def;
  def.domain = kDomain;
  def.op = op;
  def.name = "deform_conv.ref";
  def.declines = {unless_float()};
  def.create = simple_kernel(std::move(function));
  return def;
}

}  // namespace

void register_deform_conv_cpu(KernelRegistry& kernels) {
  kernels.add(composed_kernel("DeformConv", "deform_conv.ref", deform_conv::write_deform_conv));
  kernels.add(reference("DeformColumns", run_columns));
  kernels.add(reference("DeformColumnsGradData", run_grad_data));
  kernels.add(reference("DeformColumnsGradOffset", run_grad_offset));
}

}  // namespace sardonyx::ops
