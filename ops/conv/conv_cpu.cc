// Convolution by plain loops: the oracle of the tests, for any rank and both float types. Sums are
// kept in double.
//
// Each loop walks the cells of its result and asks Meetings which cells of the two operands meet
// there, so one body serves every rank, stride, dilation and pad. conv_dnnl.cc and conv_lanes.cc
// hold the fast kernels.
#include <algorithm>
#include <vector>

#include "ops/conv/conv.h"
#include "ops/core/refusals.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

using conv::ConvGeometry;

// Calls f.template operator()<T>(geometry, context) with a geometry decoded once.
template <class F>
class GeometryKernel final : public Kernel {
 public:
  GeometryKernel(ConvGeometry geometry, CellsOf walked, DType dtype)
      : g_(std::move(geometry)), meetings_(g_.window, walked), dtype_(dtype) {}
  void run(CpuContext& context) const override {
    dispatch_float(dtype_, [&]<class T>() { F().template operator()<T>(g_, meetings_, context); });
  }

 private:
  ConvGeometry g_;
  Meetings meetings_;
  DType dtype_;
};

struct Forward {
  template <class T>
  void operator()(const ConvGeometry& g, const Meetings& cells, CpuContext& context) const {
    const T* x = context.in<T>(0);
    const T* w = context.in<T>(1);
    const T* b = context.in<T>(2);
    T* y = context.out<T>(0);
    const int64_t in = g.window.in_cells(), taps = g.window.taps();
    const int64_t depth = g.group_channels();
    parallel_for(*context.pool, g.outputs, 1, [&](int64_t begin, int64_t end) {
      std::vector<Meeting> meetings;
      for (int64_t cell = 0; cell < cells.cells(); ++cell) {
        cells.of(cell, meetings);
        for (int64_t n = 0; n < g.batch; ++n) {
          for (int64_t m = begin; m < end; ++m) {
            const T* xc = x + (n * g.channels + m / g.group_outputs() * depth) * in;
            const T* wc = w + m * depth * taps;
            double sum = b == nullptr ? 0.0 : static_cast<double>(b[m]);
            for (int64_t c = 0; c < depth; ++c, xc += in, wc += taps) {
              for (const Meeting& at : meetings) {
                sum += static_cast<double>(xc[at.first]) * static_cast<double>(wc[at.second]);
              }
            }
            y[(n * g.outputs + m) * cells.cells() + cell] = static_cast<T>(sum);
          }
        }
      }
    });
  }
};

struct GradData {
  template <class T>
  void operator()(const ConvGeometry& g, const Meetings& cells, CpuContext& context) const {
    const T* w = context.in<T>(0);
    const T* dy = context.in<T>(1);
    T* dx = context.out<T>(0);
    const int64_t out = g.window.out_cells(), taps = g.window.taps();
    const int64_t depth = g.group_channels();
    parallel_for(*context.pool, g.channels, 1, [&](int64_t begin, int64_t end) {
      std::vector<Meeting> meetings;
      for (int64_t cell = 0; cell < cells.cells(); ++cell) {
        cells.of(cell, meetings);
        for (int64_t n = 0; n < g.batch; ++n) {
          for (int64_t c = begin; c < end; ++c) {
            const int64_t first = c / depth * g.group_outputs();
            const T* dym = dy + (n * g.outputs + first) * out;
            const T* wm = w + (first * depth + c % depth) * taps;
            double sum = 0;
            for (int64_t m = 0; m < g.group_outputs(); ++m, dym += out, wm += depth * taps) {
              for (const Meeting& at : meetings) {
                sum += static_cast<double>(dym[at.first]) * static_cast<double>(wm[at.second]);
              }
            }
            dx[(n * g.channels + c) * cells.cells() + cell] = static_cast<T>(sum);
          }
        }
      }
    });
  }
};

struct GradFilter {
  template <class T>
  void operator()(const ConvGeometry& g, const Meetings& cells, CpuContext& context) const {
    const T* x = context.in<T>(0);
    const T* dy = context.in<T>(1);
    T* dw = context.out<T>(0);
    const int64_t in = g.window.in_cells(), out = g.window.out_cells();
    const int64_t depth = g.group_channels();
    parallel_for(*context.pool, g.outputs, 1, [&](int64_t begin, int64_t end) {
      std::vector<Meeting> meetings;
      for (int64_t tap = 0; tap < cells.cells(); ++tap) {
        cells.of(tap, meetings);
        for (int64_t m = begin; m < end; ++m) {
          for (int64_t c = 0; c < depth; ++c) {
            const int64_t channel = m / g.group_outputs() * depth + c;
            double sum = 0;
            for (int64_t n = 0; n < g.batch; ++n) {
              const T* xc = x + (n * g.channels + channel) * in;
              const T* dym = dy + (n * g.outputs + m) * out;
              for (const Meeting& at : meetings) {
                sum += static_cast<double>(xc[at.first]) * static_cast<double>(dym[at.second]);
              }
            }
            T& result = dw[(m * depth + c) * cells.cells() + tap];
            result = static_cast<T>(context.accumulate ? static_cast<double>(result) + sum : sum);
          }
        }
      }
    });
  }
};

// Sum of a row, 16 running sums at a time: bound by memory, and exact enough to add in double.
template <class T>
double row_sum(const T* row, int64_t size) {
  constexpr int64_t kWide = 16;
  T sums[kWide] = {};
  int64_t i = 0;
  for (; i + kWide <= size; i += kWide) {
    for (int64_t k = 0; k < kWide; ++k) sums[k] += row[i + k];
  }
  double total = 0;
  for (const T sum : sums) total += static_cast<double>(sum);
  for (; i < size; ++i) total += static_cast<double>(row[i]);
  return total;
}

template <class T>
double exact_sum(const T* row, int64_t size) {
  double total = 0;
  for (int64_t i = 0; i < size; ++i) total += static_cast<double>(row[i]);
  return total;
}

template <class T, class Sum>
void grad_bias(const KernelRequest& request, CpuContext& context, Sum sum_of) {
  const T* dy = context.in<T>(0);
  T* db = context.out<T>(0);
  const std::vector<int64_t> shape = request.in_shape(0);
  const int64_t outputs = shape[1];
  int64_t cells = 1;
  for (size_t i = 2; i < shape.size(); ++i) cells *= shape[i];
  parallel_for(*context.pool, outputs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m) {
      double sum = context.accumulate ? static_cast<double>(db[m]) : 0.0;
      for (int64_t n = 0; n < shape[0]; ++n) sum += sum_of(dy + (n * outputs + m) * cells, cells);
      db[m] = static_cast<T>(sum);
    }
  });
}

void grad_bias_ref(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.out[0].dtype,
                 [&]<class T>() { grad_bias<T>(request, context, exact_sum<T>); });
}

void grad_bias_plain(const KernelRequest& request, CpuContext& context) {
  dispatch_float(request.out[0].dtype,
                 [&]<class T>() { grad_bias<T>(request, context, row_sum<T>); });
}

KernelDef reference(const char* domain, const char* op) {
  KernelDef kernel;
  kernel.domain = domain;
  kernel.op = op;
  kernel.name = "conv.ref";
  kernel.declines = {unless_float()};
  return kernel;
}

template <class F>
KernelDef reference(const char* domain, const char* op, CellsOf walked,
                    ConvGeometry (*decode)(const KernelRequest&)) {
  KernelDef kernel = reference(domain, op);
  kernel.create = [=](const KernelRequest& request) {
    return std::make_unique<GeometryKernel<F>>(decode(request), walked, request.out[0].dtype);
  };
  return kernel;
}

}  // namespace

namespace conv {

Refusal needs_images() {
  return {"needs at least one image", [](const KernelRequest& request) {
            return request.in[0].numel() == 0 || request.in[1].numel() == 0 ||
                   request.out[0].numel() == 0;
          }};
}

}  // namespace conv

void register_conv_cpu(KernelRegistry& kernels) {
  kernels.add(reference<Forward>("", "Conv", CellsOf::kOutput, ConvGeometry::forward));
  kernels.add(
      reference<GradData>(kDomain, "ConvGradData", CellsOf::kInput, ConvGeometry::grad_data));
  KernelDef filter =
      reference<GradFilter>(kDomain, "ConvGradFilter", CellsOf::kTaps, ConvGeometry::grad_filter);
  filter.accumulates = true;
  kernels.add(std::move(filter));

  KernelDef bias = reference(kDomain, "ConvGradBias");
  bias.accumulates = true;
  bias.create = simple_kernel(grad_bias_ref);
  kernels.add(bias);
  bias.name = "conv.plain";
  bias.speed = Speed::kPlain;
  bias.create = simple_kernel(grad_bias_plain);
  kernels.add(std::move(bias));

  conv::register_conv_winograd(kernels);
  conv::register_conv_small(kernels);
  conv::register_conv_dnnl(kernels);
  conv::register_conv_lanes(kernels);
  conv::register_conv_transpose(kernels);
}

}  // namespace sardonyx::ops
