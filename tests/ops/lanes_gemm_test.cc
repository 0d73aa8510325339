// The lane kernels of matrix products against plain double loops: both weight orders, several
// blocks, a short last one.
#include "tests/ops/lanes_support.h"

#include <algorithm>

namespace sardonyx::ops::lanes {
namespace {

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
    want_dx[i] = relu_output[i] <= 0 ? 0 : want_dx[i];
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

TEST(LanesGemm, nan_passes_a_fused_relu_and_its_gradient) {
  for (const LaneKernels<float>* kernels : all_kernels<float>()) {
    const GemmShape s{1, 1, WeightOrder::kRowIsOutput, 1};
    std::vector<float> x(kLanes, -2.0f), y(kLanes), dx(kLanes);
    x[3] = std::numeric_limits<float>::quiet_NaN();
    const float w = 1, dy[kLanes] = {1, 1, 1, 5};
    kernels->gemm_forward(s, x.data(), &w, nullptr, Activation::kRelu, y.data());
    kernels->gemm_grad_data(s, dy, &w, y.data(), dx.data());
    EXPECT_TRUE(std::isnan(y[3]));
    EXPECT_EQ(y[2], 0.0f);
    EXPECT_EQ(dx[3], 5.0f);
    EXPECT_EQ(dx[2], 0.0f);
  }
}

}  // namespace
}  // namespace sardonyx::ops::lanes
