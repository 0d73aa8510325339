// Pooling of plain operands, one to three spatial axes, threads over the maps.
//
// A window is taken apart: its rows are joined first, along whole contiguous rows of x (that runs
// at vector width), then the columns of the joined row. Gradients of averages go the same way back;
// the gradient of a maximum looks for the winner cell by cell, because the first one must take it.
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "ops/core/refusals.h"
#include "ops/pool/pool.h"

namespace sardonyx::ops::pool {

namespace {

// The cells of a window along an axis that lie inside x: at, at + step, ... (count of them).
struct Span {
  int64_t at = 0, count = 0, counted = 0;
};

// One axis; missing axes have size 1 and stand in front.
struct Axis {
  int64_t in = 1, step = 1;
  std::vector<Span> spans = {{0, 1, 1}};  // by output coordinate
};

struct Planes {
  explicit Planes(const PoolGeometry& g) : count(g.planes()) {
    const int axes = g.window.axes();
    for (int a = 0; a < axes; ++a) {
      Axis& axis = depth_height_width[3 - axes + a];
      axis.in = g.window.in[a];
      axis.step = g.window.dilation[a];
      axis.spans.clear();
      for (int64_t o = 0; o < g.window.out[a]; ++o) axis.spans.push_back(span(g, a, o));
    }
  }
  static Span span(const PoolGeometry& g, int a, int64_t out) {
    Span s;
    for (int64_t t = 0; t < g.window.kernel[a]; ++t) {
      const int64_t at =
          out * g.window.stride[a] - g.window.pad_begin[a] + t * g.window.dilation[a];
      if (at < 0 || at >= g.window.in[a]) continue;
      if (s.count == 0) s.at = at;
      ++s.count;
    }
    s.counted = g.counted(a, out);
    return s;
  }

  const Axis& depth() const { return depth_height_width[0]; }
  const Axis& height() const { return depth_height_width[1]; }
  const Axis& width() const { return depth_height_width[2]; }
  int64_t in_cells() const { return depth().in * height().in * width().in; }
  int64_t out_cells() const {
    return static_cast<int64_t>(depth().spans.size() * height().spans.size() *
                                width().spans.size());
  }
  // Calls row(offset of row in x) for the rows of x in the window (d, h).
  template <class F>
  void for_rows(const Span& d, const Span& h, F row) const {
    for (int64_t i = 0; i < d.count; ++i) {
      for (int64_t j = 0; j < h.count; ++j) {
        row(((d.at + i * depth().step) * height().in + h.at + j * height().step) * width().in);
      }
    }
  }

  int64_t count;
  std::array<Axis, 3> depth_height_width;
};

// Maps per thread at least: below that a thread costs more than it brings.
int64_t grain(const Planes& planes) {
  return std::max<int64_t>(1, (int64_t{1} << 14) / std::max<int64_t>(planes.in_cells(), 1));
}

template <class T>
T larger(T best, T v) {
  return v > best || v != v ? v : best;
}

template <class T>
void max_map(const Planes& p, const T* x, T* y, std::vector<T>& joined) {
  const int64_t width = p.width().in, step = p.width().step;
  for (const Span& d : p.depth().spans) {
    for (const Span& h : p.height().spans) {
      const T* row = nullptr;  // the joined row: a row of x as long as there is only one
      p.for_rows(d, h, [&](int64_t offset) {
        const T* next = x + offset;
        if (row == nullptr) {
          row = next;
          return;
        }
        for (int64_t i = 0; i < width; ++i) joined[i] = larger(row[i], next[i]);
        row = joined.data();
      });
      for (const Span& w : p.width().spans) {
        T best = std::numeric_limits<T>::lowest();
        if (row != nullptr && w.count > 0) {
          best = row[w.at];
          for (int64_t t = 1; t < w.count; ++t) best = larger(best, row[w.at + t * step]);
        }
        *y++ = best;
      }
    }
  }
}

// Sums of term(x) over windows; y = finish(sum, cells that count).
template <class T, class Term, class Finish>
void sum_map(const Planes& p, const T* x, T* y, std::vector<T>& joined, Term term, Finish finish) {
  const int64_t width = p.width().in, step = p.width().step;
  for (const Span& d : p.depth().spans) {
    for (const Span& h : p.height().spans) {
      std::fill(joined.begin(), joined.end(), T(0));
      p.for_rows(d, h, [&](int64_t offset) {
        for (int64_t i = 0; i < width; ++i) joined[i] += term(x[offset + i]);
      });
      const int64_t rows = d.counted * h.counted;
      for (const Span& w : p.width().spans) {
        T sum = 0;
        for (int64_t t = 0; t < w.count; ++t) sum += joined[w.at + t * step];
        *y++ = finish(sum, rows * w.counted);
      }
    }
  }
}

// Every cell of a window gets share(number of the window, cells that count).
template <class T, class Share>
void sum_map_grad(const Planes& p, T* dx, std::vector<T>& joined, Share share) {
  const int64_t width = p.width().in, step = p.width().step;
  std::fill(dx, dx + p.in_cells(), T(0));
  int64_t cell = 0;
  for (const Span& d : p.depth().spans) {
    for (const Span& h : p.height().spans) {
      std::fill(joined.begin(), joined.end(), T(0));
      const int64_t rows = d.counted * h.counted;
      for (const Span& w : p.width().spans) {
        const T part = share(cell++, rows * w.counted);
        for (int64_t t = 0; t < w.count; ++t) joined[w.at + t * step] += part;
      }
      p.for_rows(d, h, [&](int64_t offset) {
        for (int64_t i = 0; i < width; ++i) dx[offset + i] += joined[i];
      });
    }
  }
}

template <class T>
T mean(T sum, int64_t cells) {
  return sum / static_cast<T>(std::max<int64_t>(cells, 1));
}

template <class T>
void average_map(const Planes& p, const T* x, T* y, std::vector<T>& joined) {
  sum_map(
      p, x, y, joined, [](T v) { return v; }, mean<T>);
}

template <class T>
void average_map_grad(const Planes& p, const T* dy, T* dx, std::vector<T>& joined) {
  sum_map_grad(p, dx, joined, [&](int64_t cell, int64_t cells) { return mean(dy[cell], cells); });
}

template <class T>
void lp_map(const Planes& p, const LpNorm& norm, const T* x, T* y, std::vector<T>& joined) {
  const auto term = [&](T v) { return norm.term(v); };
  sum_map(p, x, y, joined, term, [&](T sum, int64_t) { return norm.root(sum); });
}

template <class T>
void lp_map_grad(const Planes& p, const LpNorm& norm, const T* x, const T* y, const T* dy, T* dx,
                 std::vector<T>& joined) {
  const auto share = [&](int64_t cell, int64_t) { return norm.share(y[cell], dy[cell]); };
  sum_map_grad(p, dx, joined, share);
  for (int64_t i = 0; i < p.in_cells(); ++i) dx[i] *= norm.slope(x[i]);
}

template <class T>
void max_map_grad(const Planes& p, const T* x, const T* dy, T* dx) {
  const int64_t step = p.width().step;
  std::fill(dx, dx + p.in_cells(), T(0));
  for (const Span& d : p.depth().spans) {
    for (const Span& h : p.height().spans) {
      for (const Span& w : p.width().spans) {
        int64_t winner = -1;
        T best = 0;
        p.for_rows(d, h, [&](int64_t offset) {
          for (int64_t t = 0, at = offset + w.at; t < w.count; ++t, at += step) {
            if (winner < 0 || x[at] > best || x[at] != x[at]) {
              winner = at;
              best = x[at];
            }
          }
        });
        if (winner >= 0) dx[winner] += *dy;
        ++dy;
      }
    }
  }
}

enum class Work : uint8_t { kMax, kAverage, kLp, kMaxGrad, kAverageGrad, kLpGrad };

template <class T, Work work>
class PlainKernel final : public Kernel {
 public:
  PlainKernel(const PoolGeometry& g, LpNorm norm) : planes_(g), norm_(norm) {}
  void run(CpuContext& context) const override {
    const int64_t in = planes_.in_cells(), out = planes_.out_cells();
    const T* a = context.in<T>(0);
    const T* b = context.in<T>(1);
    const T* c = context.in<T>(2);
    T* to = context.out<T>(0);
    parallel_for(*context.pool, planes_.count, grain(planes_), [&](int64_t begin, int64_t end) {
      std::vector<T> joined(planes_.width().in);
      for (int64_t i = begin; i < end; ++i) {
        if constexpr (work == Work::kMax) max_map(planes_, a + i * in, to + i * out, joined);
        if constexpr (work == Work::kAverage) {
          average_map(planes_, a + i * in, to + i * out, joined);
        }
        if constexpr (work == Work::kLp) lp_map(planes_, norm_, a + i * in, to + i * out, joined);
        if constexpr (work == Work::kLpGrad) {
          lp_map_grad(planes_, norm_, a + i * in, b + i * out, c + i * out, to + i * in, joined);
        }
        if constexpr (work == Work::kMaxGrad) {
          max_map_grad(planes_, a + i * in, b + i * out, to + i * in);
        }
        if constexpr (work == Work::kAverageGrad) {
          average_map_grad(planes_, a + i * out, to + i * in, joined);
        }
      }
    });
  }

 private:
  Planes planes_;
  LpNorm norm_;  // LpPool only
};

template <Work work>
void add_plain(KernelRegistry& kernels, const char* domain, const char* op,
               PoolGeometry (*decode)(const KernelRequest&)) {
  KernelDef kernel;
  kernel.domain = domain;
  kernel.op = op;
  kernel.name = "pool.plain";
  kernel.speed = Speed::kPlain;
  kernel.declines = {unless_float(), beyond_axes(3), finding_indices()};
  kernel.create = [decode](const KernelRequest& request) -> std::unique_ptr<Kernel> {
    const PoolGeometry g = decode(request);
    const LpNorm norm = LpNorm::of(*request.node);
    if (request.out[0].dtype == DType::kFloat32) {
      return std::make_unique<PlainKernel<float, work>>(g, norm);
    }
    return std::make_unique<PlainKernel<double, work>>(g, norm);
  };
  kernels.add(std::move(kernel));
}

}  // namespace

void register_pool_plain(KernelRegistry& kernels) {
  add_plain<Work::kMax>(kernels, "", "MaxPool", PoolGeometry::forward);
  add_plain<Work::kMax>(kernels, "", "GlobalMaxPool", PoolGeometry::forward);
  add_plain<Work::kAverage>(kernels, "", "AveragePool", PoolGeometry::forward);
  add_plain<Work::kAverage>(kernels, "", "GlobalAveragePool", PoolGeometry::forward);
  add_plain<Work::kLp>(kernels, "", "LpPool", PoolGeometry::forward);
  add_plain<Work::kLp>(kernels, "", "GlobalLpPool", PoolGeometry::forward);
  add_plain<Work::kMaxGrad>(kernels, kDomain, "MaxPoolGrad", PoolGeometry::max_grad);
  add_plain<Work::kAverageGrad>(kernels, kDomain, "AveragePoolGrad", PoolGeometry::avg_grad);
  add_plain<Work::kLpGrad>(kernels, kDomain, "LpPoolGrad", PoolGeometry::lp_grad);
}

}  // namespace sardonyx::ops::pool
