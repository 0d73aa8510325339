// The lane kernels against plain double loops: random geometries, every instruction set of this
// processor, float and double, short blocks with NaN in the unused lanes.
//
// Kernels get float or double values; the references run in double on the same values.
#include "ops/core/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace sardonyx::ops::lanes {
namespace {

using Values = std::vector<double>;

template <typename T>
std::vector<const LaneKernels<T>*> all_kernels() {
  std::vector<const LaneKernels<T>*> all;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (supported(isa)) all.push_back(&lane_kernels<T>(isa));
  }
  return all;
}

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  // Multiples of 1/64 in [-1, 1], so that ties happen and floats hold them.
  double value() { return between(-64, 64) / 64.0; }

 private:
  std::mt19937 engine_;
};

template <typename T>
std::vector<T> random_values(Random& random, size_t count) {
  std::vector<T> values(count);
  for (T& v : values) v = static_cast<T>(random.value());
  return values;
}

// [count][16] with NaN in the lanes >= valid.
template <typename T>
std::vector<T> random_block(Random& random, size_t count, int valid) {
  std::vector<T> values = random_values<T>(random, count * kLanes);
  for (size_t i = 0; i < values.size(); ++i) {
    if (static_cast<int>(i % kLanes) >= valid) values[i] = std::numeric_limits<T>::quiet_NaN();
  }
  return values;
}

template <typename T>
double tolerance(int terms) {
  return sizeof(T) == 4 ? 2e-7 * (4 + terms) : 1e-13;
}

// Compares the lanes < valid of a block.
template <typename T>
void expect_block(const std::vector<T>& got, const Values& want, int valid, double bound,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (static_cast<int>(i % kLanes) >= valid) continue;
    ASSERT_LE(std::abs(got[i] - want[i]), bound)
        << what << " at " << i << ": " << got[i] << " for " << want[i];
  }
}

template <typename T>
void expect_all(const std::vector<T>& got, const Values& want, double bound,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - want[i]), bound)
        << what << " at " << i << ": " << got[i] << " for " << want[i];
  }
}

// ---- Conv ----

std::string describe(const ConvShape& s) {
  char text[200];
  std::snprintf(text, sizeof(text),
                "c%d h%d w%d m%d r%d s%d p%d q%d stride %d,%d dilation %d,%d pads %d,%d groups %d "
                "needed %d,%d",
                s.c, s.h, s.w, s.m, s.r, s.s, s.p, s.q, s.stride_h, s.stride_w, s.dil_h, s.dil_w,
                s.pad_top, s.pad_left, s.groups, s.p_needed, s.q_needed);
  return text;
}

int out_size(int in, int pads, int taps, int dilation, int stride) {
  return (in + pads - (taps - 1) * dilation - 1) / stride + 1;
}

ConvShape random_conv(Random& random) {
  for (;;) {
    ConvShape s;
    const bool depthwise = random.between(0, 9) == 0;
    s.groups = depthwise                   ? random.between(2, 7)
               : random.between(0, 3) == 0 ? random.between(2, 3)
                                           : 1;
    s.c = s.groups * (depthwise ? 1 : random.between(1, 9));
    s.m = s.groups * (depthwise ? random.between(1, 2) : random.between(1, 14));
    const bool one_d = random.between(0, 7) == 0;
    s.h = one_d ? 1 : random.between(1, 12);
    s.w = random.between(1, 20);
    s.r = one_d ? 1 : random.between(1, 5);
    s.s = random.between(1, 7);
    s.stride_h = one_d ? 1 : random.between(1, 3);
    s.stride_w = random.between(1, 3);
    s.dil_h = one_d ? 1 : random.between(1, 3);
    s.dil_w = random.between(1, 3);
    s.pad_top = one_d ? 0 : random.between(0, 4);
    s.pad_left = random.between(0, 4);
    const int bottom = one_d ? 0 : random.between(0, 4);
    const int right = random.between(0, 4);
    if (s.h + s.pad_top + bottom < (s.r - 1) * s.dil_h + 1) continue;
    if (s.w + s.pad_left + right < (s.s - 1) * s.dil_w + 1) continue;
    s.p = out_size(s.h, s.pad_top + bottom, s.r, s.dil_h, s.stride_h);
    s.q = out_size(s.w, s.pad_left + right, s.s, s.dil_w, s.stride_w);
    if (random.between(0, 3) == 0) {
      s.p_needed = random.between(1, s.p);
      s.q_needed = random.between(1, s.q);
    }
    return s;
  }
}

size_t x_count(const ConvShape& s) { return static_cast<size_t>(s.c) * s.h * s.w; }
size_t y_count(const ConvShape& s) { return static_cast<size_t>(s.m) * s.p * s.q; }
size_t w_count(const ConvShape& s) {
  return static_cast<size_t>(s.m) * (s.c / s.groups) * s.r * s.s;
}

bool needed(const ConvShape& s, int p, int q) {
  return (s.p_needed == 0 || p < s.p_needed) && (s.q_needed == 0 || q < s.q_needed);
}

// Calls visit(x index, w index, y index) for every product of the convolution that is needed.
void for_each_product(const ConvShape& s,
                      const std::function<void(size_t, size_t, size_t)>& visit) {
  const int inputs = s.c / s.groups;
  for (int m = 0; m < s.m; ++m) {
    for (int p = 0; p < s.p; ++p) {
      for (int q = 0; q < s.q; ++q) {
        if (!needed(s, p, q)) continue;
        for (int k = 0; k < inputs; ++k) {
          const int c = m / (s.m / s.groups) * inputs + k;
          for (int r = 0; r < s.r; ++r) {
            for (int t = 0; t < s.s; ++t) {
              const int h = p * s.stride_h - s.pad_top + r * s.dil_h;
              const int w = q * s.stride_w - s.pad_left + t * s.dil_w;
              if (h < 0 || h >= s.h || w < 0 || w >= s.w) continue;
              visit((static_cast<size_t>(c) * s.h + h) * s.w + w,
                    ((static_cast<size_t>(m) * inputs + k) * s.r + r) * s.s + t,
                    (static_cast<size_t>(m) * s.p + p) * s.q + q);
            }
          }
        }
      }
    }
  }
}

template <typename T>
void check_conv_forward(const LaneKernels<T>& kernels, const ConvShape& s, Random& random) {
  const int valid = random.between(1, kLanes);
  const bool with_bias = random.between(0, 1) == 1;
  const Activation activation = random.between(0, 1) == 1 ? Activation::kRelu : Activation::kNone;
  const std::vector<T> x = random_block<T>(random, x_count(s), valid);
  const std::vector<T> w = random_values<T>(random, w_count(s));
  const std::vector<T> b = random_values<T>(random, s.m);
  Values want(y_count(s) * kLanes);
  for (size_t i = 0; i < want.size(); ++i) want[i] = with_bias ? b[i / kLanes / (s.p * s.q)] : 0;
  for_each_product(s, [&](size_t xi, size_t wi, size_t yi) {
    for (int n = 0; n < kLanes; ++n) want[yi * kLanes + n] += double{x[xi * kLanes + n]} * w[wi];
  });
  std::vector<T> packed(kernels.conv_forward_packed_size(s));
  kernels.conv_pack_forward(s, w.data(), packed.data());
  const T untouched = 77;
  std::vector<T> y(want.size(), untouched);
  kernels.conv_forward(s, x.data(), packed.data(), with_bias ? b.data() : nullptr, activation,
                       y.data());
  for (size_t i = 0; i < want.size(); ++i) {
    const int cell = static_cast<int>(i / kLanes) % (s.p * s.q);
    if (!needed(s, cell / s.q, cell % s.q)) {
      want[i] = untouched;
    } else if (activation == Activation::kRelu) {
      want[i] = std::max(want[i], 0.0);
    }
  }
  expect_block(y, want, valid, tolerance<T>(s.c / s.groups * s.r * s.s), "y of " + describe(s));
}

template <typename T>
void check_conv_grad_data(const LaneKernels<T>& kernels, const ConvShape& s, Random& random) {
  const int valid = random.between(1, kLanes);
  const bool masked = random.between(0, 1) == 1;
  std::vector<T> dy = random_block<T>(random, y_count(s), valid);
  for (size_t i = 0; i < dy.size(); ++i) {
    const int cell = static_cast<int>(i / kLanes) % (s.p * s.q);
    if (!needed(s, cell / s.q, cell % s.q)) dy[i] = std::numeric_limits<T>::quiet_NaN();
  }
  const std::vector<T> w = random_values<T>(random, w_count(s));
  const std::vector<T> relu_output = random_block<T>(random, x_count(s), valid);
  Values want(x_count(s) * kLanes);
  for_each_product(s, [&](size_t xi, size_t wi, size_t yi) {
    for (int n = 0; n < kLanes; ++n) want[xi * kLanes + n] += double{dy[yi * kLanes + n]} * w[wi];
  });
  for (size_t i = 0; masked && i < want.size(); ++i) want[i] = relu_output[i] > 0 ? want[i] : 0;
  std::vector<T> packed(kernels.conv_grad_data_packed_size(s));
  kernels.conv_pack_grad_data(s, w.data(), packed.data());
  std::vector<T> dx(want.size(), T(77));
  kernels.conv_grad_data(s, dy.data(), packed.data(), masked ? relu_output.data() : nullptr,
                         dx.data());
  expect_block(dx, want, valid, tolerance<T>(s.m / s.groups * s.r * s.s), "dx of " + describe(s));
}

template <typename T>
void check_conv_grad_filter(const LaneKernels<T>& kernels, const ConvShape& s, Random& random) {
  const int valid = random.between(1, kLanes);
  const bool with_bias = random.between(0, 1) == 1;
  const std::vector<T> x = random_block<T>(random, x_count(s), valid);
  std::vector<T> dy = random_block<T>(random, y_count(s), valid);
  std::vector<T> dw = random_values<T>(random, w_count(s));
  std::vector<T> db = random_values<T>(random, s.m);
  Values want_dw(dw.begin(), dw.end());
  Values want_db(db.begin(), db.end());
  for (size_t i = 0; i < dy.size(); ++i) {
    const int cell = static_cast<int>(i / kLanes) % (s.p * s.q);
    if (!needed(s, cell / s.q, cell % s.q)) {
      dy[i] = std::numeric_limits<T>::quiet_NaN();
    } else if (with_bias && static_cast<int>(i % kLanes) < valid) {
      want_db[i / kLanes / (s.p * s.q)] += dy[i];
    }
  }
  for_each_product(s, [&](size_t xi, size_t wi, size_t yi) {
    for (int n = 0; n < valid; ++n) want_dw[wi] += double{x[xi * kLanes + n]} * dy[yi * kLanes + n];
  });
  kernels.conv_grad_filter(s, x.data(), dy.data(), valid, dw.data(),
                           with_bias ? db.data() : nullptr);
  expect_all(dw, want_dw, tolerance<T>(s.p * s.q * valid), "dw of " + describe(s));
  expect_all(db, want_db, tolerance<T>(s.p * s.q * valid), "db of " + describe(s));
}

std::vector<ConvShape> fixed_convs() {
  ConvShape lenet1{.c = 1, .h = 28, .w = 28, .m = 20, .r = 3, .s = 3, .p = 26, .q = 26};
  ConvShape lenet2{.c = 20,
                   .h = 13,
                   .w = 13,
                   .m = 50,
                   .r = 5,
                   .s = 5,
                   .p = 9,
                   .q = 9,
                   .p_needed = 8,
                   .q_needed = 8};
  ConvShape same3{.c = 8,
                  .h = 14,
                  .w = 14,
                  .m = 16,
                  .r = 3,
                  .s = 3,
                  .p = 14,
                  .q = 14,
                  .pad_top = 1,
                  .pad_left = 1};
  ConvShape stem{.c = 3,
                 .h = 20,
                 .w = 24,
                 .m = 8,
                 .r = 7,
                 .s = 7,
                 .p = 10,
                 .q = 12,
                 .stride_h = 2,
                 .stride_w = 2,
                 .pad_top = 3,
                 .pad_left = 3};
  ConvShape point{.c = 9,
                  .h = 5,
                  .w = 7,
                  .m = 13,
                  .r = 1,
                  .s = 1,
                  .p = 3,
                  .q = 4,
                  .stride_h = 2,
                  .stride_w = 2};
  ConvShape whole{.c = 2, .h = 11, .w = 11, .m = 6, .r = 11, .s = 11, .p = 1, .q = 1};
  ConvShape wide{
      .c = 2, .h = 1, .w = 300, .m = 3, .r = 1, .s = 130, .p = 1, .q = 200, .pad_left = 20};
  ConvShape only_pads{
      .c = 1, .h = 1, .w = 1, .m = 2, .r = 3, .s = 3, .p = 9, .q = 9, .pad_top = 5, .pad_left = 5};
  return {lenet1, lenet2, same3, stem, point, whole, wide, only_pads};
}

template <typename T>
void check_convs(void (*check)(const LaneKernels<T>&, const ConvShape&, Random&)) {
  for (const LaneKernels<T>* kernels : all_kernels<T>()) {
    SCOPED_TRACE(name(kernels->isa));
    Random random(1);
    for (const ConvShape& s : fixed_convs()) {
      check(*kernels, s, random);
      if (testing::Test::HasFatalFailure()) return;
    }
    for (int i = 0; i < 250; ++i) {
      check(*kernels, random_conv(random), random);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(LanesConv, forward_equals_plain_loops_in_float) {
  check_convs<float>(check_conv_forward<float>);
}
TEST(LanesConv, forward_equals_plain_loops_in_double) {
  check_convs<double>(check_conv_forward<double>);
}
TEST(LanesConv, data_gradient_equals_plain_loops_in_float) {
  check_convs<float>(check_conv_grad_data<float>);
}
TEST(LanesConv, data_gradient_equals_plain_loops_in_double) {
  check_convs<double>(check_conv_grad_data<double>);
}
TEST(LanesConv, filter_gradient_adds_and_ignores_poisoned_lanes_in_float) {
  check_convs<float>(check_conv_grad_filter<float>);
}
TEST(LanesConv, filter_gradient_adds_and_ignores_poisoned_lanes_in_double) {
  check_convs<double>(check_conv_grad_filter<double>);
}

// ---- Pool ----

std::string describe(const PoolShape& s) {
  char text[200];
  std::snprintf(text, sizeof(text),
                "c%d h%d w%d r%d s%d p%d q%d stride %d,%d dilation %d,%d pads %d,%d,%d,%d", s.c,
                s.h, s.w, s.r, s.s, s.p, s.q, s.stride_h, s.stride_w, s.dil_h, s.dil_w, s.pad_top,
                s.pad_left, s.pad_bottom, s.pad_right);
  return text;
}

// Output size with ceil_mode: a window that starts at or past input plus begin pad is dropped.
int ceil_size(int in, int begin, int end, int taps, int dilation, int stride) {
  const int span = in + begin + end - (taps - 1) * dilation - 1;
  int n = (span + stride - 1) / stride + 1;
  if ((n - 1) * stride >= in + begin) --n;
  return n;
}

PoolShape random_pool(Random& random) {
  for (;;) {
    PoolShape s;
    const bool one_d = random.between(0, 7) == 0;
    s.c = random.between(1, 4);
    s.h = one_d ? 1 : random.between(1, 11);
    s.w = random.between(1, 17);
    s.r = one_d ? 1 : random.between(1, 4);
    s.s = random.between(1, 4);
    s.stride_h = random.between(1, 4);
    s.stride_w = random.between(1, 4);
    s.dil_h = random.between(1, 2);
    s.dil_w = random.between(1, 2);
    s.pad_top = random.between(0, s.r - 1);
    s.pad_bottom = random.between(0, s.r - 1);
    s.pad_left = random.between(0, s.s - 1);
    s.pad_right = random.between(0, s.s - 1);
    if (s.h + s.pad_top + s.pad_bottom < (s.r - 1) * s.dil_h + 1) continue;
    if (s.w + s.pad_left + s.pad_right < (s.s - 1) * s.dil_w + 1) continue;
    if (random.between(0, 1) == 1) {
      s.p = ceil_size(s.h, s.pad_top, s.pad_bottom, s.r, s.dil_h, s.stride_h);
      s.q = ceil_size(s.w, s.pad_left, s.pad_right, s.s, s.dil_w, s.stride_w);
    } else {
      s.p = out_size(s.h, s.pad_top + s.pad_bottom, s.r, s.dil_h, s.stride_h);
      s.q = out_size(s.w, s.pad_left + s.pad_right, s.s, s.dil_w, s.stride_w);
    }
    return s;
  }
}

std::vector<PoolShape> pools(Random& random) {
  std::vector<PoolShape> all = {
      {.c = 20, .h = 26, .w = 26, .r = 2, .s = 2, .p = 13, .q = 13, .stride_h = 2, .stride_w = 2},
      {.c = 3, .h = 9, .w = 9, .r = 2, .s = 2, .p = 4, .q = 4, .stride_h = 2, .stride_w = 2},
      {.c = 3, .h = 3, .w = 5, .r = 2, .s = 2, .p = 1, .q = 2, .stride_h = 2, .stride_w = 2},
      {.c = 2,
       .h = 8,
       .w = 9,
       .r = 3,
       .s = 3,
       .p = 4,
       .q = 5,
       .stride_h = 2,
       .stride_w = 2,
       .pad_top = 1,
       .pad_left = 1,
       .pad_bottom = 1,
       .pad_right = 1},
      {.c = 4, .h = 7, .w = 7, .r = 7, .s = 7, .p = 1, .q = 1},
  };
  for (int i = 0; i < 300; ++i) all.push_back(random_pool(random));
  return all;
}

size_t x_count(const PoolShape& s) { return static_cast<size_t>(s.c) * s.h * s.w; }
size_t y_count(const PoolShape& s) { return static_cast<size_t>(s.c) * s.p * s.q; }

// Cells of the window of output (p, q) inside the input, in row-major order, and how many an
// average counts.
struct Window {
  std::vector<size_t> cells;
  int counted = 0;
};

Window window_of(const PoolShape& s, PoolPadding padding, int c, int p, int q) {
  Window window;
  for (int r = 0; r < s.r; ++r) {
    for (int t = 0; t < s.s; ++t) {
      const int h = p * s.stride_h - s.pad_top + r * s.dil_h;
      const int w = q * s.stride_w - s.pad_left + t * s.dil_w;
      const bool real = h >= 0 && h < s.h && w >= 0 && w < s.w;
      const bool declared = h < s.h + s.pad_bottom && w < s.w + s.pad_right;
      if (real) window.cells.push_back((static_cast<size_t>(c) * s.h + h) * s.w + w);
      if (padding == PoolPadding::kCounted ? declared : real) ++window.counted;
    }
  }
  return window;
}

template <typename F>
void for_each_window(const PoolShape& s, PoolPadding padding, F visit) {
  size_t y = 0;
  for (int c = 0; c < s.c; ++c) {
    for (int p = 0; p < s.p; ++p) {
      for (int q = 0; q < s.q; ++q, ++y) visit(window_of(s, padding, c, p, q), y);
    }
  }
}

template <typename T>
void check_avg_pool(const LaneKernels<T>& kernels, const PoolShape& s, Random& random) {
  const int valid = random.between(1, kLanes);
  const PoolPadding padding =
      random.between(0, 1) == 1 ? PoolPadding::kCounted : PoolPadding::kNotCounted;
  const bool masked = random.between(0, 1) == 1;
  const std::vector<T> x = random_block<T>(random, x_count(s), valid);
  const std::vector<T> dy = random_block<T>(random, y_count(s), valid);
  Values want_y(y_count(s) * kLanes);
  Values want_dx(x_count(s) * kLanes);
  for_each_window(s, padding, [&](const Window& window, size_t at) {
    for (size_t cell : window.cells) {
      for (int n = 0; n < kLanes; ++n) {
        want_y[at * kLanes + n] += double{x[cell * kLanes + n]} / window.counted;
        want_dx[cell * kLanes + n] += double{dy[at * kLanes + n]} / window.counted;
      }
    }
  });
  for (size_t i = 0; masked && i < want_dx.size(); ++i) want_dx[i] = x[i] > 0 ? want_dx[i] : 0;
  std::vector<T> y(want_y.size(), T(77));
  std::vector<T> dx(want_dx.size(), T(77));
  kernels.avg_pool(s, padding, x.data(), y.data());
  kernels.avg_pool_grad(s, padding, dy.data(), masked ? x.data() : nullptr, dx.data());
  expect_block(y, want_y, valid, tolerance<T>(s.r * s.s), "average of " + describe(s));
  expect_block(dx, want_dx, valid, tolerance<T>(s.r * s.s), "average gradient of " + describe(s));
}

template <typename T>
void check_max_pool(const LaneKernels<T>& kernels, const PoolShape& s, Random& random) {
  const int valid = random.between(1, kLanes);
  std::vector<T> x = random_block<T>(random, x_count(s), valid);
  for (T& v : x) v = std::round(v * 4);  // many ties
  const std::vector<T> dy = random_block<T>(random, y_count(s), valid);
  Values want_y(y_count(s) * kLanes, static_cast<double>(std::numeric_limits<T>::lowest()));
  Values want_dx(x_count(s) * kLanes);
  for_each_window(s, PoolPadding::kNotCounted, [&](const Window& window, size_t at) {
    if (window.cells.empty()) return;
    for (int n = 0; n < kLanes; ++n) {
      size_t best = window.cells[0];
      for (size_t cell : window.cells) {
        if (x[cell * kLanes + n] > x[best * kLanes + n]) best = cell;
      }
      want_y[at * kLanes + n] = x[best * kLanes + n];
      want_dx[best * kLanes + n] += dy[at * kLanes + n];
    }
  });
  std::vector<T> y(want_y.size(), T(77));
  std::vector<T> dx(want_dx.size(), T(77));
  kernels.max_pool(s, x.data(), y.data());
  kernels.max_pool_grad(s, x.data(), dy.data(), dx.data());
  expect_block(y, want_y, valid, 0, "maximum of " + describe(s));
  expect_block(dx, want_dx, valid, tolerance<T>(s.r * s.s), "maximum gradient of " + describe(s));
}

template <typename T>
void check_pools(void (*check)(const LaneKernels<T>&, const PoolShape&, Random&)) {
  for (const LaneKernels<T>* kernels : all_kernels<T>()) {
    SCOPED_TRACE(name(kernels->isa));
    Random random(2);
    for (const PoolShape& s : pools(random)) {
      check(*kernels, s, random);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(LanesPool, average_equals_plain_loops_in_float) { check_pools<float>(check_avg_pool<float>); }
TEST(LanesPool, average_equals_plain_loops_in_double) {
  check_pools<double>(check_avg_pool<double>);
}
TEST(LanesPool, maximum_gives_the_first_of_equals_the_gradient_in_float) {
  check_pools<float>(check_max_pool<float>);
}
TEST(LanesPool, maximum_gives_the_first_of_equals_the_gradient_in_double) {
  check_pools<double>(check_max_pool<double>);
}

TEST(LanesPool, nan_wins_a_maximum_and_takes_the_gradient) {
  const PoolShape s{.c = 1, .h = 1, .w = 3, .r = 1, .s = 3, .p = 1, .q = 1};
  for (const LaneKernels<float>* kernels : all_kernels<float>()) {
    std::vector<float> x(3 * kLanes, 1.0f);
    x[1 * kLanes + 5] = std::numeric_limits<float>::quiet_NaN();
    x[2 * kLanes + 5] = 9;
    std::vector<float> y(kLanes), dy(kLanes, 2.0f), dx(3 * kLanes);
    kernels->max_pool(s, x.data(), y.data());
    kernels->max_pool_grad(s, x.data(), dy.data(), dx.data());
    EXPECT_TRUE(std::isnan(y[5]));
    EXPECT_EQ(y[4], 1.0f);
    EXPECT_EQ(dx[1 * kLanes + 5], 2.0f);
    EXPECT_EQ(dx[2 * kLanes + 5], 0.0f);
    EXPECT_EQ(dx[0 * kLanes + 4], 2.0f);
  }
}

// ---- Gemm ----

std::string describe(const GemmShape& s) {
  return "m " + std::to_string(s.m) + " k " + std::to_string(s.k) + " blocks " +
         std::to_string(s.blocks) + (s.order == WeightOrder::kRowIsOutput ? " [m][k]" : " [k][m]");
}

template <typename T>
void check_gemm(const LaneKernels<T>& kernels, const GemmShape& s, Random& random) {
  const int last = random.between(1, kLanes);
  const int valid = (s.blocks - 1) * kLanes + last;
  const bool with_bias = random.between(0, 1) == 1;
  const bool masked = random.between(0, 1) == 1;
  const Activation activation = random.between(0, 1) == 1 ? Activation::kRelu : Activation::kNone;
  const auto blocks_of = [&](int rows) {
    std::vector<T> values = random_values<T>(random, static_cast<size_t>(s.blocks) * rows * kLanes);
    for (size_t i = static_cast<size_t>(s.blocks - 1) * rows * kLanes; i < values.size(); ++i) {
      if (static_cast<int>(i % kLanes) >= last) values[i] = std::numeric_limits<T>::quiet_NaN();
    }
    return values;
  };
  const std::vector<T> x = blocks_of(s.k);
  const std::vector<T> dy = blocks_of(s.m);
  const std::vector<T> relu_output = blocks_of(s.k);
  const std::vector<T> w = random_values<T>(random, static_cast<size_t>(s.m) * s.k);
  const std::vector<T> b = random_values<T>(random, s.m);
  std::vector<T> dw = random_values<T>(random, w.size());
  std::vector<T> db = random_values<T>(random, s.m);
  Values want_y(dy.size()), want_dx(x.size()), want_dw(dw.begin(), dw.end()),
      want_db(db.begin(), db.end());
  for (int block = 0; block < s.blocks; ++block) {
    for (int m = 0; m < s.m; ++m) {
      for (int n = 0; n < kLanes; ++n) {
        const size_t yi = (static_cast<size_t>(block) * s.m + m) * kLanes + n;
        const bool counts = block * kLanes + n < valid;
        want_y[yi] = with_bias ? b[m] : 0;
        if (counts && with_bias) want_db[m] += dy[yi];
        for (int k = 0; k < s.k; ++k) {
          const size_t xi = (static_cast<size_t>(block) * s.k + k) * kLanes + n;
          const size_t wi = s.order == WeightOrder::kRowIsOutput ? static_cast<size_t>(m) * s.k + k
                                                                 : static_cast<size_t>(k) * s.m + m;
          want_y[yi] += double{w[wi]} * x[xi];
          want_dx[xi] += double{w[wi]} * dy[yi];
          if (counts) want_dw[wi] += double{x[xi]} * dy[yi];
        }
        if (activation == Activation::kRelu) want_y[yi] = std::max(want_y[yi], 0.0);
      }
    }
  }
  for (size_t i = 0; masked && i < want_dx.size(); ++i)
    want_dx[i] = relu_output[i] > 0 ? want_dx[i] : 0;
  std::vector<T> y(dy.size(), T(77)), dx(x.size(), T(77));
  kernels.gemm_forward(s, x.data(), w.data(), with_bias ? b.data() : nullptr, activation, y.data());
  kernels.gemm_grad_data(s, dy.data(), w.data(), masked ? relu_output.data() : nullptr, dx.data());
  kernels.gemm_grad_weight(s, x.data(), dy.data(), valid, dw.data(),
                           with_bias ? db.data() : nullptr);
  const auto valid_only = [&](std::vector<T>& got, Values& want) {
    for (size_t i = 0; i < got.size(); ++i) {
      const int block = static_cast<int>(i * s.blocks / got.size());
      if (block == s.blocks - 1 && static_cast<int>(i % kLanes) >= last) got[i] = T(want[i] = 0);
    }
  };
  valid_only(y, want_y);
  valid_only(dx, want_dx);
  expect_all(y, want_y, tolerance<T>(s.k), "y of " + describe(s));
  expect_all(dx, want_dx, tolerance<T>(s.m), "dx of " + describe(s));
  expect_all(dw, want_dw, tolerance<T>(valid), "dw of " + describe(s));
  expect_all(db, want_db, tolerance<T>(valid), "db of " + describe(s));
}

template <typename T>
void check_gemms() {
  for (const LaneKernels<T>* kernels : all_kernels<T>()) {
    SCOPED_TRACE(name(kernels->isa));
    Random random(3);
    for (WeightOrder order : {WeightOrder::kRowIsOutput, WeightOrder::kRowIsInput}) {
      for (int i = 0; i < 100; ++i) {
        const GemmShape s{random.between(1, 70), random.between(1, 150), order,
                          random.between(1, 11)};
        check_gemm(*kernels, s, random);
        if (testing::Test::HasFatalFailure()) return;
      }
      check_gemm(*kernels, {128, 800, order, 1}, random);
      check_gemm(*kernels, {10, 128, order, 4}, random);
      check_gemm(*kernels, {1, 1, order, 1}, random);
    }
  }
}

TEST(LanesGemm, all_three_products_equal_plain_loops_in_float) { check_gemms<float>(); }
TEST(LanesGemm, all_three_products_equal_plain_loops_in_double) { check_gemms<double>(); }

// ---- Layout ----

template <typename T>
void check_turns() {
  for (const LaneKernels<T>* kernels : all_kernels<T>()) {
    for (int length : {1, 3, 16, 31, 64, 100}) {
      for (int valid = 1; valid <= kLanes; ++valid) {
        const ptrdiff_t stride = length + 5;
        std::vector<T> rows(kLanes * stride, T(-1));
        for (int n = 0; n < valid; ++n) {
          for (int i = 0; i < length; ++i) rows[n * stride + i] = static_cast<T>(n * 1000 + i);
        }
        std::vector<T> lanes(length * kLanes, T(77));
        kernels->to_lanes(rows.data(), stride, valid, length, lanes.data());
        for (int i = 0; i < length; ++i) {
          for (int n = 0; n < kLanes; ++n) {
            ASSERT_EQ(lanes[i * kLanes + n], n < valid ? T(n * 1000 + i) : T(0))
                << name(kernels->isa) << length;
          }
        }
        std::vector<T> back(rows.size(), T(-1));
        kernels->from_lanes(lanes.data(), valid, length, back.data(), stride);
        ASSERT_EQ(back, rows) << name(kernels->isa) << " " << length << " " << valid;
      }
    }
  }
}

TEST(LanesLayout, to_lanes_and_back_keeps_rows_and_zeroes_the_rest_in_float) {
  check_turns<float>();
}
TEST(LanesLayout, to_lanes_and_back_keeps_rows_and_zeroes_the_rest_in_double) {
  check_turns<double>();
}

TEST(LanesDispatch, the_default_is_the_widest_supported_set) {
  const Isa isa = lane_kernels<float>().isa;
  EXPECT_EQ(isa, supported(Isa::kAvx512) ? Isa::kAvx512
                 : supported(Isa::kAvx2) ? Isa::kAvx2
                                         : Isa::kBaseline);
  EXPECT_EQ(lane_kernels<double>().isa, isa);
  EXPECT_STREQ(name(Isa::kAvx2), "avx2");
}

}  // namespace
}  // namespace sardonyx::ops::lanes
