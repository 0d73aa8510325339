// Speed of the lane kernels on the shapes of LeNet, one thread. Not a test: run it on a quiet
// machine with
//   ops_tests --gtest_also_run_disabled_tests --gtest_filter='LanesBench.*'
//
// A time is the fastest tenth of many calls; the percentage is of the multiply-add peak of one
// core, probed in between.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <new>
#include <vector>

#include "ops/core/lanes.h"

namespace sardonyx::ops::lanes {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double seconds_of(const std::function<void()>& work) {
  std::vector<double> times;
  const double end = now() + 0.2;
  do {
    const double start = now();
    work();
    times.push_back(now() - start);
  } while (now() < end);
  std::sort(times.begin(), times.end());
  return times[times.size() / 10];
}

class Table {
 public:
  explicit Table(const LaneKernels<float>& kernels) {
    float sink[4] = {0, 0.5f, 0.25f, 0};
    const double flops = static_cast<double>(kernels.peak_probe(20000, sink));
    peak_ = flops / seconds_of([&] { kernels.peak_probe(20000, sink); });
    std::printf("%s: peak of one core %.1f GFLOP/s\n", name(kernels.isa), peak_ * 1e-9);
  }

  double row(const char* what, double flops, const std::function<void()>& work) const {
    const double seconds = seconds_of(work);
    if (flops > 0) {
      std::printf("  %-24s %8.1f us %7.1f GFLOP/s %5.1f %%\n", what, seconds * 1e6,
                  flops / seconds * 1e-9, flops / seconds / peak_ * 100);
    } else {
      std::printf("  %-24s %8.1f us\n", what, seconds * 1e6);
    }
    return seconds;
  }

 private:
  double peak_;
};

// Whole cache lines, as in an arena.
template <typename T>
struct LineAllocator {
  using value_type = T;
  T* allocate(size_t n) {
    return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64}));
  }
  void deallocate(T* p, size_t) { ::operator delete (p, std::align_val_t{64}); }
  bool operator==(const LineAllocator&) const { return true; }
};

using Buffer = std::vector<float, LineAllocator<float>>;

Buffer small_values(size_t count) {
  Buffer buffer(count);
  for (size_t i = 0; i < count; ++i)
    buffer[i] = static_cast<float>(static_cast<int>(i * 7919 % 127) - 63) / 640;
  return buffer;
}

// Forward and backward of LeNet for one block of 16 images, without loss and update.
struct LeNet {
  const LaneKernels<float>& kernels;

  ConvShape conv1{.c = 1, .h = 28, .w = 28, .m = 20, .r = 3, .s = 3, .p = 26, .q = 26};
  ConvShape conv2{.c = 20,
                  .h = 13,
                  .w = 13,
                  .m = 50,
                  .r = 5,
                  .s = 5,
                  .p = 9,
                  .q = 9,
                  .p_needed = 8,
                  .q_needed = 8};
  PoolShape pool1{
      .c = 20, .h = 26, .w = 26, .r = 2, .s = 2, .p = 13, .q = 13, .stride_h = 2, .stride_w = 2};
  PoolShape pool2{
      .c = 50, .h = 9, .w = 9, .r = 2, .s = 2, .p = 4, .q = 4, .stride_h = 2, .stride_w = 2};
  GemmShape fc1{128, 800, WeightOrder::kRowIsOutput, 1};
  GemmShape fc2{10, 128, WeightOrder::kRowIsOutput, 1};

  Buffer images = small_values(16 * 784), x = Buffer(784 * 16);
  Buffer y1 = Buffer(20 * 676 * 16), y2 = Buffer(20 * 169 * 16), y3 = Buffer(50 * 81 * 16),
         y4 = Buffer(800 * 16);
  Buffer y5 = Buffer(128 * 16), y6 = Buffer(10 * 16);
  Buffer d1 = y1, d2 = y2, d3 = y3, d4 = y4, d5 = y5;
  Buffer w1 = small_values(180), w2 = small_values(25000), w3 = small_values(102400),
         w4 = small_values(1280);
  Buffer b = small_values(128), db = b, dw1 = w1, dw2 = w2, dw3 = w3, dw4 = w4;
  Buffer packed1 = Buffer(kernels.conv_forward_packed_size(conv1));
  Buffer packed2 = Buffer(kernels.conv_forward_packed_size(conv2));
  Buffer packed2_grad = Buffer(kernels.conv_grad_data_packed_size(conv2));

  struct Step {
    const char* what;
    double flops;
    std::function<void()> work;
  };

  std::vector<Step> packing() {
    return {{"pack conv1", 0, [&] { kernels.conv_pack_forward(conv1, w1.data(), packed1.data()); }},
            {"pack conv2", 0, [&] { kernels.conv_pack_forward(conv2, w2.data(), packed2.data()); }},
            {"pack conv2 gradient", 0,
             [&] { kernels.conv_pack_grad_data(conv2, w2.data(), packed2_grad.data()); }}};
  }

  std::vector<Step> steps() {
    const auto relu = Activation::kRelu;
    const auto no_relu = Activation::kNone;
    const auto padding = PoolPadding::kNotCounted;
    const LaneKernels<float>& k = kernels;
    const double conv1_flops = 2.0 * 16 * 676 * 180, conv2_flops = 2.0 * 16 * 64 * 25000;
    const double fc1_flops = 2.0 * 16 * 102400, fc2_flops = 2.0 * 16 * 1280;
    return {
        {"to lanes", 0, [&k, this] { k.to_lanes(images.data(), 784, 16, 784, x.data()); }},
        {"conv1", conv1_flops,
         [=, &k, this] {
           k.conv_forward(conv1, x.data(), packed1.data(), b.data(), relu, y1.data());
         }},
        {"pool1", 0, [=, &k, this] { k.avg_pool(pool1, padding, y1.data(), y2.data()); }},
        {"conv2", conv2_flops,
         [=, &k, this] {
           k.conv_forward(conv2, y2.data(), packed2.data(), b.data(), relu, y3.data());
         }},
        {"pool2", 0, [=, &k, this] { k.avg_pool(pool2, padding, y3.data(), y4.data()); }},
        {"fc1", fc1_flops,
         [=, &k, this] { k.gemm_forward(fc1, y4.data(), w3.data(), b.data(), relu, y5.data()); }},
        {"fc2", fc2_flops,
         [=, &k, this] {
           k.gemm_forward(fc2, y5.data(), w4.data(), b.data(), no_relu, y6.data());
         }},
        {"fc2 data", fc2_flops,
         [=, &k, this] { k.gemm_grad_data(fc2, y6.data(), w4.data(), y5.data(), d5.data()); }},
        {"fc2 weight", fc2_flops,
         [=, &k, this] {
           k.gemm_grad_weight(fc2, y5.data(), y6.data(), 16, dw4.data(), db.data());
         }},
        {"fc1 data", fc1_flops,
         [=, &k, this] { k.gemm_grad_data(fc1, d5.data(), w3.data(), nullptr, d4.data()); }},
        {"fc1 weight", fc1_flops,
         [=, &k, this] {
           k.gemm_grad_weight(fc1, y4.data(), d5.data(), 16, dw3.data(), db.data());
         }},
        {"pool2 data + relu", 0,
         [=, &k, this] { k.avg_pool_grad(pool2, padding, d4.data(), y3.data(), d3.data()); }},
        {"conv2 data", conv2_flops,
         [=, &k, this] {
           k.conv_grad_data(conv2, d3.data(), packed2_grad.data(), nullptr, d2.data());
         }},
        {"conv2 filter", conv2_flops,
         [=, &k, this] {
           k.conv_grad_filter(conv2, y2.data(), d3.data(), 16, dw2.data(), db.data());
         }},
        {"pool1 data + relu", 0,
         [=, &k, this] { k.avg_pool_grad(pool1, padding, d2.data(), y1.data(), d1.data()); }},
        {"conv1 filter", conv1_flops,
         [=, &k, this] {
           k.conv_grad_filter(conv1, x.data(), d1.data(), 16, dw1.data(), db.data());
         }},
    };
  }
};

void print_lenet(Isa isa) {
  if (!supported(isa)) GTEST_SKIP() << "no " << name(isa);
  const LaneKernels<float>& kernels = lane_kernels<float>(isa);
  const Table table(kernels);
  LeNet net{kernels};
  for (const LeNet::Step& step : net.packing()) table.row(step.what, step.flops, step.work);
  const std::vector<LeNet::Step> steps = net.steps();
  double flops = 0;
  for (const LeNet::Step& step : steps) {
    table.row(step.what, step.flops, step.work);
    flops += step.flops;
  }
  const double seconds = table.row("whole block of 16", flops, [&] {
    for (const LeNet::Step& step : steps) step.work();
  });
  std::printf("  %.0f img/s per core\n", 16 / seconds);
}

TEST(LanesBench, DISABLED_lenet_avx512) { print_lenet(Isa::kAvx512); }
TEST(LanesBench, DISABLED_lenet_avx2) { print_lenet(Isa::kAvx2); }
TEST(LanesBench, DISABLED_lenet_baseline) { print_lenet(Isa::kBaseline); }

}  // namespace
}  // namespace sardonyx::ops::lanes
