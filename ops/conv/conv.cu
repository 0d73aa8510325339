// Convolution by plain loops, for what the library refuses and as the oracle on a device: one
// thread per element of the result, one block per element of a filter's gradient.
#include <cmath>

#include "ops/conv/conv_cuda.h"
#include "ops/core/bfloat16.cuh"

namespace sardonyx::ops::conv {

namespace {

using cuda::for_elements;
using cuda::grid_over;
using cuda::Write;

__host__ __device__ inline int64_t in_cells(const PlainShape& s) {
  return s.axis[0].in * s.axis[1].in * s.axis[2].in;
}
__host__ __device__ inline int64_t out_cells(const PlainShape& s) {
  return s.axis[0].out * s.axis[1].out * s.axis[2].out;
}
__host__ __device__ inline int64_t taps(const PlainShape& s) {
  return s.axis[0].kernel * s.axis[1].kernel * s.axis[2].kernel;
}
__host__ __device__ inline int64_t depth(const PlainShape& s) { return s.channels / s.groups; }

// Where a cell of x or y lies: `channels` and `cells` are those of the operand.
struct Places {
  int64_t channels, cells, channel_step, cell_step;
  __device__ int64_t at(int64_t n, int64_t channel, int64_t cell) const {
    return n * channels * cells + channel * channel_step + cell * cell_step;
  }
};
__device__ inline Places places(Order order, int64_t channels, int64_t cells) {
  if (order == Order::kChannelsLast) return {channels, cells, 1, channels};
  return {channels, cells, cells, 1};
}
__device__ inline Places x_places(const PlainShape& s) {
  return places(s.order, s.channels, in_cells(s));
}
__device__ inline Places y_places(const PlainShape& s) {
  return places(s.order, s.outputs, out_cells(s));
}

struct Cell {
  int64_t at[PlainShape::kAxes];
};
__device__ inline Cell cell_of(int64_t i, int64_t size1, int64_t size2) {
  return {{i / size2 / size1, i / size2 % size1, i % size2}};
}

// Taps [begin, end) of an output meet inputs; tap t meets `first` + t * dilation.
struct Reach {
  int64_t begin, end, first;
};
__device__ inline Reach reach_of(const PlainAxis& axis, int64_t out) {
  const int64_t first = out * axis.stride - axis.pad;
  const int64_t begin = first >= 0 ? 0 : (axis.dilation - 1 - first) / axis.dilation;
  const int64_t end = axis.in <= first ? 0 : (axis.in - first + axis.dilation - 1) / axis.dilation;
  return {begin, end < axis.kernel ? end : axis.kernel, first};
}

// The output that `tap` joins with an input; -1: none.
__device__ inline int64_t output_at(const PlainAxis& axis, int64_t in, int64_t tap) {
  const int64_t reached = in + axis.pad - tap * axis.dilation;
  if (reached < 0 || reached % axis.stride != 0) return -1;
  return reached / axis.stride < axis.out ? reached / axis.stride : -1;
}

template <class T>
__global__ void forward_kernel(PlainShape s, const T* x, const T* w, const T* b, T* y) {
  const int64_t cells = out_cells(s), tap_count = taps(s);
  const Places xs = x_places(s), ys = y_places(s);
  const PlainAxis *d = &s.axis[0], *h = &s.axis[1], *v = &s.axis[2];
  for_elements(s.batch * s.outputs * cells, [&](int64_t i) {
    const Cell cell = cell_of(i % cells, h->out, v->out);
    const int64_t m = i / cells % s.outputs, n = i / cells / s.outputs;
    const Reach rd = reach_of(*d, cell.at[0]), rh = reach_of(*h, cell.at[1]),
                rv = reach_of(*v, cell.at[2]);
    const int64_t group = m / (s.outputs / s.groups);
    const T* xc = x + xs.at(n, group * depth(s), 0);
    const T* wc = w + m * depth(s) * tap_count;
    double sum = b == nullptr ? 0.0 : static_cast<double>(b[m]);
    for (int64_t c = 0; c < depth(s); ++c, xc += xs.channel_step, wc += tap_count) {
      for (int64_t p = rd.begin; p < rd.end; ++p) {
        for (int64_t q = rh.begin; q < rh.end; ++q) {
          const int64_t row =
              ((rd.first + p * d->dilation) * h->in + rh.first + q * h->dilation) * v->in;
          const T* wr = wc + (p * h->kernel + q) * v->kernel;
          for (int64_t r = rv.begin; r < rv.end; ++r) {
            const int64_t in = row + rv.first + r * v->dilation;
            sum = std::fma(static_cast<double>(xc[in * xs.cell_step]), static_cast<double>(wr[r]),
                           sum);
          }
        }
      }
    }
    y[ys.at(n, m, i % cells)] = static_cast<T>(sum);
  });
}

template <class T>
__global__ void grad_data_kernel(PlainShape s, const T* w, const T* dy, T* dx) {
  const int64_t cells = in_cells(s), tap_count = taps(s);
  const Places xs = x_places(s), ys = y_places(s);
  const int64_t group_outputs = s.outputs / s.groups;
  const PlainAxis *d = &s.axis[0], *h = &s.axis[1], *v = &s.axis[2];
  for_elements(s.batch * s.channels * cells, [&](int64_t i) {
    const Cell cell = cell_of(i % cells, h->in, v->in);
    const int64_t c = i / cells % s.channels, n = i / cells / s.channels;
    const int64_t first = c / depth(s) * group_outputs;
    const T* dyn = dy + ys.at(n, first, 0);
    const T* wc = w + (first * depth(s) + c % depth(s)) * tap_count;
    double sum = 0;
    for (int64_t p = 0; p < d->kernel; ++p) {
      const int64_t od = output_at(*d, cell.at[0], p);
      for (int64_t q = 0; od >= 0 && q < h->kernel; ++q) {
        const int64_t oh = output_at(*h, cell.at[1], q);
        for (int64_t r = 0; oh >= 0 && r < v->kernel; ++r) {
          const int64_t ov = output_at(*v, cell.at[2], r);
          if (ov < 0) continue;
          const T* dym = dyn + ((od * h->out + oh) * v->out + ov) * ys.cell_step;
          const T* wm = wc + (p * h->kernel + q) * v->kernel + r;
          for (int64_t m = 0; m < group_outputs; ++m) {
            sum = std::fma(static_cast<double>(dym[m * ys.channel_step]),
                           static_cast<double>(wm[m * depth(s) * tap_count]), sum);
          }
        }
      }
    }
    dx[xs.at(n, c, i % cells)] = static_cast<T>(sum);
  });
}

// The input that a tap joins with an output; -1: padding.
__device__ inline int64_t input_at(const PlainAxis& axis, int64_t out, int64_t tap) {
  const int64_t in = out * axis.stride - axis.pad + tap * axis.dilation;
  return in < axis.in ? in : -1;
}

template <class T>
__global__ void grad_filter_kernel(PlainShape s, const T* x, const T* dy, Write write, T* dw) {
  const int64_t cells = out_cells(s), tap_count = taps(s);
  const Places xs = x_places(s), ys = y_places(s);
  const PlainAxis *d = &s.axis[0], *h = &s.axis[1], *v = &s.axis[2];
  for (int64_t i = blockIdx.x; i < s.outputs * depth(s) * tap_count; i += gridDim.x) {
    const Cell tap = cell_of(i % tap_count, h->kernel, v->kernel);
    const int64_t m = i / tap_count / depth(s);
    const int64_t c = m / (s.outputs / s.groups) * depth(s) + i / tap_count % depth(s);
    double sum = 0;
    for (int64_t j = threadIdx.x; j < s.batch * cells; j += blockDim.x) {
      const int64_t n = j / cells;
      const Cell cell = cell_of(j % cells, h->out, v->out);
      const int64_t id = input_at(*d, cell.at[0], tap.at[0]);
      const int64_t ih = input_at(*h, cell.at[1], tap.at[1]);
      const int64_t iv = input_at(*v, cell.at[2], tap.at[2]);
      if (id < 0 || ih < 0 || iv < 0) continue;
      const T factor = x[xs.at(n, c, (id * h->in + ih) * v->in + iv)];
      sum = std::fma(static_cast<double>(factor), static_cast<double>(dy[ys.at(n, m, j % cells)]),
                     sum);
    }
    sum = cuda::block_sum(sum);
    if (threadIdx.x != 0) continue;
    dw[i] = static_cast<T>(write == Write::kAdd ? static_cast<double>(dw[i]) + sum : sum);
  }
}

}  // namespace

void launch_forward(cuda::Stream stream, graph::DType dtype, const PlainShape& s, const void* x,
                    const void* w, const void* b, void* y) {
  const int64_t n = s.batch * s.outputs * out_cells(s);
  if (n == 0) return;
  cuda::dispatch_stored(dtype, [&]<class T>() {
    LAUNCH((forward_kernel<T>), grid_over(n), stream, s, static_cast<const T*>(x),
           static_cast<const T*>(w), static_cast<const T*>(b), static_cast<T*>(y));
  });
}

void launch_grad_data(cuda::Stream stream, graph::DType dtype, const PlainShape& s, const void* w,
                      const void* dy, void* dx) {
  const int64_t n = s.batch * s.channels * in_cells(s);
  if (n == 0) return;
  cuda::dispatch_stored(dtype, [&]<class T>() {
    LAUNCH((grad_data_kernel<T>), grid_over(n), stream, s, static_cast<const T*>(w),
           static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

void launch_grad_filter(cuda::Stream stream, graph::DType dtype, const PlainShape& s, const void* x,
                        const void* dy, Write write, void* dw) {
  constexpr int64_t kMostBlocks = 1 << 20;
  const int64_t n = s.outputs * depth(s) * taps(s);
  if (n == 0) return;
  unsigned threads = cuda::kWarp;
  while (threads < cuda::kBlock && threads < s.batch * out_cells(s)) threads *= 2;
  const cuda::Grid grid{static_cast<unsigned>(n < kMostBlocks ? n : kMostBlocks), 1, threads};
  cuda::dispatch_stored(dtype, [&]<class T>() {
    LAUNCH((grad_filter_kernel<T>), grid, stream, s, static_cast<const T*>(x),
           static_cast<const T*>(dy), write, static_cast<T*>(dw));
  });
}

}  // namespace sardonyx::ops::conv
