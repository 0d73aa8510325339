// Pooling of maps that lie channel by channel or with channels last. A window of few cells belongs
// to one thread, a larger one (a whole map) to a warp. Gradients are gathered: an element of dx
// asks the windows that it lies in, in their order, so nothing is written twice.
#include <type_traits>

#include "ops/core/bfloat16.cuh"
#include "ops/core/walk.cuh"
#include "ops/pool/pool_cuda.h"

namespace sardonyx::ops::pool {

namespace {

using cuda::Computed;
using cuda::Pack;

constexpr int64_t kWarpTaps = 32;  // a window with more cells gets a warp

// Cells at, at + step, ... (count of them) of an axis.
struct Span {
  int at, step, count;
};

// Of the window at `out`, those in [low, high).
__device__ inline Span span(const Planes::Axis& axis, int out, int low, int high) {
  const int start = out * axis.stride - axis.pad, step = axis.dilation;
  const int first = start < low ? (low - start + step - 1) / step : 0;
  const int behind = high > start ? (high - start + step - 1) / step : 0;
  const int end = behind < axis.kernel ? behind : axis.kernel;
  return {start + first * step, step, end > first ? end - first : 0};
}

struct Box {
  Span depth, height, width;
  __device__ int64_t count() const {
    return static_cast<int64_t>(depth.count) * height.count * width.count;
  }
};

// An element of x or y.
struct Cell {
  int64_t image, channel;
  int at[3];  // depth, height, width
};

// The element that stands at `place` of `count` elements in maps of these sizes.
__device__ inline Cell cell_of(const Planes& p, int64_t place, int64_t count,
                               const int (&size)[3]) {
  const bool narrow = count <= 0x7fffffff, last = p.channels_last();
  Cell cell;
  if (last) cell.channel = cuda::take(place, p.channels, narrow);
  for (int a = 2; a >= 0; --a) cell.at[a] = static_cast<int>(cuda::take(place, size[a], narrow));
  if (!last) cell.channel = cuda::take(place, p.channels, narrow);
  cell.image = place;
  return cell;
}
__device__ inline Cell x_cell(const Planes& p, int64_t place) {
  return cell_of(p, place, p.x_count(), {p.axis[0].in, p.axis[1].in, p.axis[2].in});
}
__device__ inline Cell y_cell(const Planes& p, int64_t place) {
  return cell_of(p, place, p.y_count(), {p.axis[0].out, p.axis[1].out, p.axis[2].out});
}

// Where the map of the cell begins.
__device__ inline int64_t map_at(const Places& places, const Cell& cell) {
  return cell.image * places.image + cell.channel * places.channel;
}

// Number of a cell of x in its map, row by row.
__device__ inline int32_t number(const Planes& p, int depth, int height, int width) {
  return (depth * p.axis[1].in + height) * p.axis[2].in + width;
}

// The cells of x in the window of y.
__device__ inline Box window(const Planes& p, const Cell& y) {
  return {span(p.axis[0], y.at[0], 0, p.axis[0].in), span(p.axis[1], y.at[1], 0, p.axis[1].in),
          span(p.axis[2], y.at[2], 0, p.axis[2].in)};
}

// f(place behind the beginning of the map, depth, height, width) for cells lane, lane + kLanes, ...
// of the box, row by row.
template <int kLanes, class F>
__device__ inline void for_cells(const Planes& p, const Box& box, int lane, const F& f) {
  const auto visit = [&](int i, int j, int k) {
    const int depth = box.depth.at + i * box.depth.step;
    const int height = box.height.at + j * box.height.step;
    const int width = box.width.at + k * box.width.step;
    f(depth * p.x.cell[0] + height * p.x.cell[1] + width * p.x.cell[2], depth, height, width);
  };
  if constexpr (kLanes == 1) {
    for (int i = 0; i < box.depth.count; ++i) {
      for (int j = 0; j < box.height.count; ++j) {
        for (int k = 0; k < box.width.count; ++k) visit(i, j, k);
      }
    }
  } else {
    for (int64_t t = lane; t < box.count(); t += kLanes) {
      const int64_t row = t / box.width.count, slice = row / box.height.count;
      visit(static_cast<int>(slice), static_cast<int>(row - slice * box.height.count),
            static_cast<int>(t - row * box.width.count));
    }
  }
}

// f(place in y, lane) for all windows: one thread each, or one warp.
template <int kLanes, class F>
__device__ inline void for_windows(int64_t count, const F& f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x / kLanes;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = thread / kLanes; i < count; i += step) f(i, static_cast<int>(thread % kLanes));
}

// --- Maximum

// Shuffles move 4 or 8 bytes.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 1, int32_t, Computed<T>>;

template <class T>
struct Winner {
  Wide<T> value;
  int32_t number;  // of its cell; -1: none yet

  // The first maximum wins, and of NaNs the last: whatever the order in which they are compared.
  __device__ bool beats(const Winner& other) const {
    if (number < 0 || other.number < 0) return number >= 0;
    const bool nan = value != value, other_nan = other.value != other.value;
    if (nan || other_nan) return nan && (!other_nan || number > other.number);
    return value > other.value || (value == other.value && number < other.number);
  }
};

// Of kWidth neighbouring channels.
template <class T, int kWidth>
struct Winners {
  Winner<T> at[kWidth];
};

template <class T, int kLanes, int kWidth>
__device__ inline Winners<T, kWidth> winners_of(const Planes& p, const Cell& y, int lane,
                                                const T* x) {
  const T* map = x + map_at(p.x, y);
  Winners<T, kWidth> best;
  for (Winner<T>& none : best.at) none = {0, -1};
  for_cells<kLanes>(p, window(p, y), lane, [&](int64_t at, int depth, int height, int width) {
    const auto values = cuda::load_pack<kWidth>(map + at);
    const int32_t own = number(p, depth, height, width);
    for (int j = 0; j < kWidth; ++j) {
      const Wide<T> v = values.at[j];
      Winner<T>& b = best.at[j];
      if (b.number < 0 || v > b.value || v != v) b = {v, own};
    }
  });
  if constexpr (kLanes > 1) {
    Winner<T>& b = best.at[0];
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      const Winner<T> other = {__shfl_xor_sync(0xffffffffu, b.value, distance),
                               __shfl_xor_sync(0xffffffffu, b.number, distance)};
      if (other.beats(b)) b = other;
    }
  }
  return best;
}

// Number of a cell when the map is counted column by column.
__device__ inline int64_t by_columns(const Planes& p, int number) {
  const int row = number / p.axis[2].in, depth = row / p.axis[1].in;
  const int width = number - row * p.axis[2].in, height = row - depth * p.axis[1].in;
  return (static_cast<int64_t>(width) * p.axis[1].in + height) * p.axis[0].in + depth;
}

template <class T>
struct Maxima {
  T lowest;  // of a window without a cell
  Order order;
  T* y;
  int64_t* indices;
  int32_t* winners;
};

// Number of the winner in all of x; `map`: number of its map.
template <class T>
__device__ inline int64_t index_of(const Planes& p, int64_t map, const Winner<T>& best,
                                   Order order) {
  if (best.number < 0) return -1;
  return map * p.in_cells() + (order == Order::kRows ? best.number : by_columns(p, best.number));
}

template <class T, int kLanes, int kWidth>
__global__ void max_windows(Planes p, int64_t count, const T* x, Maxima<T> to) {
  for_windows<kLanes>(count, [&](int64_t i, int lane) {
    const Cell cell = y_cell(p, i);
    const auto best = winners_of<T, kLanes, kWidth>(p, cell, lane, x);
    if (lane != 0) return;
    Pack<T, kWidth> y;
    Pack<int32_t, kWidth> numbers;
    for (int j = 0; j < kWidth; ++j) {
      const Winner<T>& b = best.at[j];
      y.at[j] = b.number < 0 ? to.lowest : static_cast<T>(b.value);
      numbers.at[j] = b.number;
    }
    if (to.y != nullptr) cuda::store_pack(y, to.y + i * kWidth);
    if (to.winners != nullptr) cuda::store_pack(numbers, to.winners + i * kWidth);
    if (to.indices == nullptr) return;
    const int64_t map = (cell.image * p.channels + cell.channel) * kWidth;
    for (int j = 0; j < kWidth; ++j) {
      to.indices[i * kWidth + j] = index_of(p, map + j, best.at[j], to.order);
    }
  });
}

// Calls f.template operator()<kLanes, kWidth>(planes, threads for an element of a map): a thread or
// a warp for each, or a thread for a pack of channels, which then count as one.
template <class T, class F>
void by_shape(const Planes& planes, bool aligned, const F& f) {
  constexpr int kMost = std::is_integral_v<T> ? 1 : 16 / static_cast<int>(sizeof(T));
  if (!planes.channels_last()) {
    if (planes.taps() > kWarpTaps) return f.template operator()<cuda::kWarp, 1>(planes);
    return f.template operator()<1, 1>(planes);
  }
  // Neighbouring threads read neighbouring channels.
  if (!aligned || planes.channels % kMost != 0) return f.template operator()<1, 1>(planes);
  Planes packs = planes;
  packs.channels /= kMost;
  packs.x.channel = packs.y.channel = kMost;
  f.template operator()<1, kMost>(packs);
}

bool both_aligned(const void* a, const void* b) {
  return cuda::aligned_for_packs(a) && cuda::aligned_for_packs(b);
}

template <class T>
void launch_maxima(cuda::Stream stream, const Planes& planes, const T* x, const Maxima<T>& to) {
  if (planes.y_count() == 0) return;
  by_shape<T>(planes, both_aligned(x, to.y), [&]<int kLanes, int kWidth>(const Planes& p) {
    LAUNCH((max_windows<T, kLanes, kWidth>), cuda::grid_over(p.y_count() * kLanes), stream, p,
           p.y_count(), x, to);
  });
}

// --- Windows that a cell of x lies in

// Output coordinates [first, end).
struct Range {
  int first, end;
};

__device__ inline Range windows_around(const Planes::Axis& axis, int in) {
  const int at = in + axis.pad, reach = (axis.kernel - 1) * axis.dilation;
  const int first = at > reach ? (at - reach + axis.stride - 1) / axis.stride : 0;
  const int end = at / axis.stride + 1;
  return {first, end < axis.out ? end : axis.out};
}

// f(place in y, depth, height, width) in row-major order.
template <class F>
__device__ inline void for_windows_around(const Planes& p, const Cell& x, const F& f) {
  const Range depth = windows_around(p.axis[0], x.at[0]);
  const Range height = windows_around(p.axis[1], x.at[1]);
  const Range width = windows_around(p.axis[2], x.at[2]);
  const int64_t map = map_at(p.y, x);
  for (int i = depth.first; i < depth.end; ++i) {
    for (int j = height.first; j < height.end; ++j) {
      const int64_t row = map + i * p.y.cell[0] + j * p.y.cell[1];
      for (int k = width.first; k < width.end; ++k) f(row + k * p.y.cell[2], i, j, k);
    }
  }
}

template <class N, class T, int kWidth>
__device__ inline void store_sums(const N (&sums)[kWidth], T* to) {
  Pack<T, kWidth> stored;
  for (int j = 0; j < kWidth; ++j) stored.at[j] = static_cast<Computed<T>>(sums[j]);
  cuda::store_pack(stored, to);
}

template <class T, int kWidth>
__global__ void max_gather(Planes p, int64_t count, const int32_t* winners, const T* dy, T* dx) {
  cuda::for_elements(count, [&](int64_t i) {
    const Cell cell = x_cell(p, i);
    const int32_t own = number(p, cell.at[0], cell.at[1], cell.at[2]);
    Computed<T> sums[kWidth] = {};
    for_windows_around(p, cell, [&](int64_t y, int, int, int) {
      const auto numbers = cuda::load_pack<kWidth>(winners + y);
      const auto values = cuda::load_pack<kWidth>(dy + y);
      for (int j = 0; j < kWidth; ++j) {
        if (numbers.at[j] == own) sums[j] += values.at[j];
      }
    });
    store_sums(sums, dx + i * kWidth);
  });
}

// --- Average

// The number that an average divides by.
__device__ inline double divisor(const Planes& p, const int (&y)[3]) {
  int64_t cells = 1;
  for (int a = 0; a < 3; ++a) {
    cells *= span(p.axis[a], y[a], p.axis[a].low, p.axis[a].high).count;
  }
  return static_cast<double>(cells < 1 ? 1 : cells);
}

template <class T, int kLanes, int kWidth>
__global__ void average_windows(Planes p, int64_t count, const T* x, T* y) {
  for_windows<kLanes>(count, [&](int64_t i, int lane) {
    const Cell cell = y_cell(p, i);
    const T* map = x + map_at(p.x, cell);
    double sums[kWidth] = {};
    for_cells<kLanes>(p, window(p, cell), lane, [&](int64_t at, int, int, int) {
      const auto values = cuda::load_pack<kWidth>(map + at);
      for (int j = 0; j < kWidth; ++j) sums[j] += static_cast<double>(values.at[j]);
    });
    if constexpr (kLanes > 1) sums[0] = cuda::warp_sum(sums[0]);
    if (lane != 0) return;
    const double cells = divisor(p, cell.at);
    for (double& sum : sums) sum /= cells;
    store_sums(sums, y + i * kWidth);
  });
}

// Whether a tap of the window at `out` meets the cell.
__device__ inline bool meets(const Planes::Axis& axis, int out, int in) {
  return axis.dilation == 1 || (in + axis.pad - out * axis.stride) % axis.dilation == 0;
}

template <class T, int kWidth>
__global__ void average_gather(Planes p, int64_t count, const T* dy, T* dx) {
  cuda::for_elements(count, [&](int64_t i) {
    const Cell cell = x_cell(p, i);
    double sums[kWidth] = {};
    for_windows_around(p, cell, [&](int64_t y, int depth, int height, int width) {
      if (meets(p.axis[0], depth, cell.at[0]) && meets(p.axis[1], height, cell.at[1]) &&
          meets(p.axis[2], width, cell.at[2])) {
        const double cells = divisor(p, {depth, height, width});
        const auto values = cuda::load_pack<kWidth>(dy + y);
        for (int j = 0; j < kWidth; ++j) sums[j] += static_cast<double>(values.at[j]) / cells;
      }
    });
    store_sums(sums, dx + i * kWidth);
  });
}

template <class T>
T lowest_of() {
  if constexpr (std::is_same_v<T, cuda::BFloat16>) return cuda::BFloat16::lowest();
  if constexpr (std::is_same_v<T, float>) return -3.402823466e+38F;
  if constexpr (std::is_same_v<T, double>) return -1.7976931348623157e+308;
  if constexpr (std::is_integral_v<T>) return std::is_signed_v<T> ? T(-128) : T(0);
}

template <class T>
void max_of(cuda::Stream stream, const Planes& planes, Order order, const void* x, void* y,
            int64_t* indices) {
  launch_maxima<T>(stream, planes, static_cast<const T*>(x),
                   {lowest_of<T>(), order, static_cast<T*>(y), indices, nullptr});
}

}  // namespace

void launch_max(cuda::Stream stream, graph::DType dtype, const Planes& planes, Order order,
                const void* x, void* y, int64_t* indices) {
  if (dtype == graph::DType::kInt8) return max_of<int8_t>(stream, planes, order, x, y, indices);
  if (dtype == graph::DType::kUint8) return max_of<uint8_t>(stream, planes, order, x, y, indices);
  cuda::dispatch_stored(dtype, [&]<class T>() { max_of<T>(stream, planes, order, x, y, indices); });
}

void launch_max_grad(cuda::Stream stream, graph::DType dtype, const Planes& planes, const void* x,
                     const void* dy, int32_t* winners, void* dx) {
  if (planes.x_count() == 0) return;
  cuda::dispatch_stored(dtype, [&]<class T>() {
    launch_maxima<T>(stream, planes, static_cast<const T*>(x),
                     {lowest_of<T>(), Order::kRows, nullptr, nullptr, winners});
    by_shape<T>(planes, both_aligned(dy, dx), [&]<int, int kWidth>(const Planes& p) {
      LAUNCH((max_gather<T, kWidth>), cuda::grid_over(p.x_count()), stream, p, p.x_count(), winners,
             static_cast<const T*>(dy), static_cast<T*>(dx));
    });
  });
}

void launch_average(cuda::Stream stream, graph::DType dtype, const Planes& planes, const void* x,
                    void* y) {
  if (planes.y_count() == 0) return;
  cuda::dispatch_stored(dtype, [&]<class T>() {
    by_shape<T>(planes, both_aligned(x, y), [&]<int kLanes, int kWidth>(const Planes& p) {
      LAUNCH((average_windows<T, kLanes, kWidth>), cuda::grid_over(p.y_count() * kLanes), stream, p,
             p.y_count(), static_cast<const T*>(x), static_cast<T*>(y));
    });
  });
}

void launch_average_grad(cuda::Stream stream, graph::DType dtype, const Planes& planes,
                         const void* dy, void* dx) {
  if (planes.x_count() == 0) return;
  cuda::dispatch_stored(dtype, [&]<class T>() {
    by_shape<T>(planes, both_aligned(dy, dx), [&]<int, int kWidth>(const Planes& p) {
      LAUNCH((average_gather<T, kWidth>), cuda::grid_over(p.x_count()), stream, p, p.x_count(),
             static_cast<const T*>(dy), static_cast<T*>(dx));
    });
  });
}

}  // namespace sardonyx::ops::pool
