// Pooling by plain loops: the oracle of the tests, for any rank. Sums are kept in double.
// pool_plain.cc and pool_lanes.cc hold the fast kernels.
#include <limits>
#include <vector>

#include "ops/core/refusals.h"
#include "ops/pool/pool.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

using pool::PoolGeometry;

// Place of the winner among the meetings of a window; -1: the window has no cell.
template <class T>
int64_t winner(const T* plane, const std::vector<Meeting>& window) {
  if (window.empty()) return -1;
  int64_t best = window[0].first;
  for (const Meeting& at : window) {
    const T v = plane[at.first];
    if (v > plane[best] || v != v) best = at.first;
  }
  return best;
}

// Number of a cell of x when the map is counted column by column.
int64_t column_major(const Window& window, int64_t cell) {
  std::vector<int64_t> at(window.axes());
  for (int a = window.axes(); a-- > 0;) {
    at[a] = cell % window.in[a];
    cell /= window.in[a];
  }
  int64_t result = 0;
  for (int a = window.axes(); a-- > 0;) result = result * window.in[a] + at[a];
  return result;
}

// f(plane, cell, meetings of the cell), threaded over the planes.
template <class F>
void each_cell(CpuContext& context, const PoolGeometry& g, const Meetings& cells, F f) {
  parallel_for(*context.pool, g.planes(), 1, [&](int64_t begin, int64_t end) {
    std::vector<Meeting> meetings;
    for (int64_t cell = 0; cell < cells.cells(); ++cell) {
      cells.of(cell, meetings);
      for (int64_t plane = begin; plane < end; ++plane) f(plane, cell, meetings);
    }
  });
}

template <class T>
void max_pool(const KernelRequest& request, CpuContext& context) {
  const PoolGeometry g = PoolGeometry::forward(request);
  const Meetings windows(g.window, CellsOf::kOutput);
  const int64_t in = g.window.in_cells(), out = windows.cells();
  const bool columns = request.node->get_int("storage_order", 0) == 1;
  const T* x = context.in<T>(0);
  T* y = context.out<T>(0);
  int64_t* indices = context.out<int64_t>(1);
  each_cell(context, g, windows, [&](int64_t plane, int64_t cell, const auto& window) {
    const int64_t best = winner(x + plane * in, window);
    y[plane * out + cell] = best < 0 ? std::numeric_limits<T>::lowest() : x[plane * in + best];
    if (indices == nullptr) return;
    indices[plane * out + cell] =
        best < 0 ? -1 : plane * in + (columns ? column_major(g.window, best) : best);
  });
}

void max_pool_ref(const KernelRequest& request, CpuContext& context) {
  switch (request.in[0].dtype) {
    case DType::kInt8:
      return max_pool<int8_t>(request, context);
    case DType::kUint8:
      return max_pool<uint8_t>(request, context);
    default:
      dispatch_float(request.in[0].dtype, [&]<class T>() { max_pool<T>(request, context); });
  }
}

template <class T>
void max_pool_grad(const KernelRequest& request, CpuContext& context) {
  const PoolGeometry g = PoolGeometry::max_grad(request);
  const Meetings windows(g.window, CellsOf::kOutput);
  const int64_t in = g.window.in_cells(), out = windows.cells();
  const T* x = context.in<T>(0);
  const T* dy = context.in<T>(1);
  T* dx = context.out<T>(0);
  parallel_for(*context.pool, g.planes(), 1, [&](int64_t begin, int64_t end) {
    std::fill(dx + begin * in, dx + end * in, T(0));
    std::vector<Meeting> window;
    for (int64_t cell = 0; cell < out; ++cell) {
      windows.of(cell, window);
      for (int64_t plane = begin; plane < end; ++plane) {
        const int64_t best = winner(x + plane * in, window);
        if (best >= 0) dx[plane * in + best] += dy[plane * out + cell];
      }
    }
  });
}

template <class T>
void average_pool(const KernelRequest& request, CpuContext& context) {
  const PoolGeometry g = PoolGeometry::forward(request);
  const Meetings windows(g.window, CellsOf::kOutput);
  const int64_t in = g.window.in_cells(), out = windows.cells();
  const T* x = context.in<T>(0);
  T* y = context.out<T>(0);
  parallel_for(*context.pool, g.planes(), 1, [&](int64_t begin, int64_t end) {
    std::vector<Meeting> window;
    for (int64_t cell = 0; cell < out; ++cell) {
      windows.of(cell, window);
      const auto divisor = static_cast<double>(std::max<int64_t>(g.divisor(cell), 1));
      for (int64_t plane = begin; plane < end; ++plane) {
        double sum = 0;
        for (const Meeting& at : window) sum += static_cast<double>(x[plane * in + at.first]);
        y[plane * out + cell] = static_cast<T>(sum / divisor);
      }
    }
  });
}

template <class T>
void average_pool_grad(const KernelRequest& request, CpuContext& context) {
  const PoolGeometry g = PoolGeometry::avg_grad(request);
  const Meetings cells(g.window, CellsOf::kInput);
  const int64_t in = cells.cells(), out = g.window.out_cells();
  std::vector<double> share(out);
  for (int64_t cell = 0; cell < out; ++cell) {
    share[cell] = 1.0 / static_cast<double>(std::max<int64_t>(g.divisor(cell), 1));
  }
  const T* dy = context.in<T>(0);
  T* dx = context.out<T>(0);
  each_cell(context, g, cells, [&](int64_t plane, int64_t cell, const auto& meetings) {
    double sum = 0;
    for (const Meeting& at : meetings) {
      sum += static_cast<double>(dy[plane * out + at.first]) * share[at.first];
    }
    dx[plane * in + cell] = static_cast<T>(sum);
  });
}

template <class T>
void lp_pool(const KernelRequest& request, CpuContext& context) {
  const PoolGeometry g = PoolGeometry::forward(request);
  const pool::LpNorm norm = pool::LpNorm::of(*request.node);
  const Meetings windows(g.window, CellsOf::kOutput);
  const int64_t in = g.window.in_cells(), out = windows.cells();
  const T* x = context.in<T>(0);
  T* y = context.out<T>(0);
  each_cell(context, g, windows, [&](int64_t plane, int64_t cell, const auto& window) {
    double sum = 0;
    for (const Meeting& at : window) {
      sum += norm.term(static_cast<double>(x[plane * in + at.first]));
    }
    y[plane * out + cell] = static_cast<T>(norm.root(sum));
  });
}

template <class T>
void lp_pool_grad(const KernelRequest& request, CpuContext& context) {
  const PoolGeometry g = PoolGeometry::lp_grad(request);
  const pool::LpNorm norm = pool::LpNorm::of(*request.node);
  const Meetings cells(g.window, CellsOf::kInput);
  const int64_t in = cells.cells(), out = g.window.out_cells();
  const T* x = context.in<T>(0);
  const T* y = context.in<T>(1);
  const T* dy = context.in<T>(2);
  T* dx = context.out<T>(0);
  each_cell(context, g, cells, [&](int64_t plane, int64_t cell, const auto& meetings) {
    double sum = 0;
    for (const Meeting& at : meetings) {
      const int64_t o = plane * out + at.first;
      sum += norm.share(static_cast<double>(y[o]), static_cast<double>(dy[o]));
    }
    const int64_t i = plane * in + cell;
    dx[i] = static_cast<T>(norm.slope(static_cast<double>(x[i])) * sum);
  });
}

void max_pool_grad_ref(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.out[0].dtype, [&]<class T>() { max_pool_grad<T>(request, context); });
}
void average_pool_ref(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.out[0].dtype, [&]<class T>() { average_pool<T>(request, context); });
}
void average_pool_grad_ref(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.out[0].dtype, [&]<class T>() { average_pool_grad<T>(request, context); });
}

void lp_pool_ref(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.out[0].dtype, [&]<class T>() { lp_pool<T>(request, context); });
}
void lp_pool_grad_ref(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.out[0].dtype, [&]<class T>() { lp_pool_grad<T>(request, context); });
}

KernelDef reference(const char* domain, const char* op, KernelFunction function) {
  KernelDef kernel;
  kernel.domain = domain;
  kernel.op = op;
  kernel.name = "pool.ref";
  kernel.declines = {unless_float()};
  kernel.create = simple_kernel(std::move(function));
  return kernel;
}

}  // namespace

void register_pool_cpu(KernelRegistry& kernels) {
  for (const char* op : {"MaxPool", "GlobalMaxPool"}) {
    KernelDef kernel = reference("", op, max_pool_ref);
    kernel.declines = {
        {"takes float, double, int8 and uint8 only", [](const KernelRequest& request) {
           const DType dtype = request.in[0].dtype;
           return dtype != DType::kInt8 && dtype != DType::kUint8 &&
                  unless_float().applies(request);
         }}};
    kernels.add(std::move(kernel));
  }
  for (const char* op : {"AveragePool", "GlobalAveragePool"}) {
    kernels.add(reference("", op, average_pool_ref));
  }
  for (const char* op : {"LpPool", "GlobalLpPool"}) {
    kernels.add(reference("", op, lp_pool_ref));
  }
  kernels.add(reference(kDomain, "LpPoolGrad", lp_pool_grad_ref));
  kernels.add(reference(kDomain, "MaxPoolGrad", max_pool_grad_ref));
  kernels.add(reference(kDomain, "AveragePoolGrad", average_pool_grad_ref));
  pool::register_pool_plain(kernels);
  pool::register_pool_lanes(kernels);
}

}  // namespace sardonyx::ops
