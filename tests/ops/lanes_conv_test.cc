// The lane kernels of Conv against plain double loops: random geometries, every instruction set of
// this processor, float and double, short blocks with NaN in the unused lanes and in outputs that
// nothing needs.
#include "tests/ops/lanes_support.h"

#include <algorithm>
#include <cstdio>
#include <functional>

namespace sardonyx::ops::lanes {
namespace {

std::string describe(const ConvShape& s) {
  char text[200];
  std::snprintf(text, sizeof(text),
                "c%d h%d w%d m%d r%d s%d p%d q%d stride %d,%d dilation %d,%d pads %d,%d groups %d "
                "needed %d,%d",
                s.c, s.h, s.w, s.m, s.r, s.s, s.p, s.q, s.stride_h, s.stride_w, s.dil_h, s.dil_w,
                s.pad_top, s.pad_left, s.groups, s.p_needed, s.q_needed);
  return text;
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
  for (size_t i = 0; masked && i < want.size(); ++i) want[i] = relu_output[i] <= 0 ? 0 : want[i];
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
  ConvShape banded{.c = 40,
                   .h = 20,
                   .w = 20,
                   .m = 3,
                   .r = 3,
                   .s = 3,
                   .p = 10,
                   .q = 20,
                   .stride_h = 2,
                   .pad_top = 1,
                   .pad_left = 1};
  ConvShape many_taps{
      .c = 5, .h = 1, .w = 16, .m = 9, .r = 1, .s = 15, .p = 1, .q = 16, .pad_left = 7};
  ConvShape full_planes{
      .c = 32, .h = 8, .w = 8, .m = 7, .r = 3, .s = 3, .p = 8, .q = 8, .pad_top = 1, .pad_left = 1};
  return {lenet1, lenet2,    same3,  stem,      point,      whole,
          wide,   only_pads, banded, many_taps, full_planes};
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

}  // namespace
}  // namespace sardonyx::ops::lanes
