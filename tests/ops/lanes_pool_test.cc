// The lane kernels of pooling against plain double loops over random geometries, ceil_mode and ties
// included.
#include "tests/ops/lanes_support.h"

#include <algorithm>
#include <cstdio>

namespace sardonyx::ops::lanes {
namespace {

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
  for (size_t i = 0; masked && i < want_dx.size(); ++i) want_dx[i] = x[i] <= 0 ? 0 : want_dx[i];
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

}  // namespace
}  // namespace sardonyx::ops::lanes
