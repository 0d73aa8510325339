// The waist on a device that is there: every claim skips where none is.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <numeric>
#include <vector>

#include "graph/support/error.h"
#include "ops/core/cublas.h"
#include "ops/core/cuda.h"
#include "ops/core/cudnn.h"
#include "runtime/collectives/cuda_nccl.h"

namespace sardonyx::testing {
namespace {

namespace cuda = ops::cuda;

class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_unavailable();
    cuda::use_device(0);
    stream_ = std::make_unique<cuda::OwnedStream>();
  }
  cuda::Stream stream() const { return stream_->get(); }

  template <class T>
  cuda::Memory upload(const std::vector<T>& values) const {
    const size_t bytes = values.size() * sizeof(T);
    const cuda::PinnedMemory staging(bytes);
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(staging.data()));
    cuda::Memory memory(bytes);
    cuda::copy_to_device(stream(), memory.data(), staging.data(), bytes);
    cuda::synchronize(stream());
    return memory;
  }
  template <class T>
  std::vector<T> download(const cuda::Memory& memory) const {
    const cuda::PinnedMemory staging(memory.size());
    cuda::copy_to_host(stream(), staging.data(), memory.data(), memory.size());
    cuda::synchronize(stream());
    const T* begin = reinterpret_cast<const T*>(staging.data());
    return {begin, begin + memory.size() / sizeof(T)};
  }

 private:
  std::unique_ptr<cuda::OwnedStream> stream_;
};

// Small whole numbers: sums of products are exact, whatever their order.
std::vector<float> whole_numbers(int64_t count, int64_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i * 7 + seed) % 5 - 2));
  return values;
}

TEST_F(OnDevice, copies_zeros_and_facts_are_true) {
  const cuda::DeviceFacts facts = cuda::device_facts(0);
  EXPECT_GE(facts.major, 8);
  EXPECT_GT(facts.processors, 0);
  EXPECT_GT(facts.memory_bytes, cuda::free_bytes() / 2);
  const cuda::Memory memory = upload(std::vector<float>{1, 2, 3, 4});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 256, 0u);
  const cuda::Memory other(memory.size());
  cuda::copy_on_device(stream(), other.data(), memory.data(), memory.size());
  cuda::fill_zero(stream(), memory.data(), 2 * sizeof(float));
  EXPECT_EQ(download<float>(memory), (std::vector<float>{0, 0, 3, 4}));
  EXPECT_EQ(download<float>(other), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(OnDevice, event_that_was_never_recorded_is_a_fault_and_others_order_streams) {
  const cuda::OwnedStream other(cuda::Priority::kHigh);
  const cuda::OwnedEvent begin(cuda::Timing::kOn), end(cuda::Timing::kOn), never;
  EXPECT_THROW(cuda::wait(stream(), never.get()), InternalError);
  cuda::record(begin.get(), stream());
  cuda::wait(other.get(), begin.get());
  cuda::record(end.get(), other.get());
  cuda::synchronize(end.get());
  EXPECT_TRUE(cuda::done(begin.get()));
  EXPECT_GE(cuda::seconds_between(begin.get(), end.get()), 0);
}

TEST_F(OnDevice, more_memory_than_there_is_is_refused_with_what_is_free) {
  try {
    cuda::Memory memory(size_t{1} << 50);
    FAIL() << "got 1 PiB";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(" are free; use a smaller batch"), std::string::npos);
  }
}

// 2 images, 4 to 6 channels, 5x5, kernel 3, a pad of 1: y, dx or dw by plain loops.
struct Small {
  ops::cudnn::ConvolutionShape shape = {.n = 2,
                                        .c = 4,
                                        .k = 6,
                                        .groups = 2,
                                        .in = {5, 5},
                                        .kernel = {3, 3},
                                        .out = {5, 5},
                                        .pads_begin = {1, 1},
                                        .pads_end = {1, 1},
                                        .strides = {1, 1},
                                        .dilations = {1, 1}};

  int64_t x(int64_t n, int64_t c, int64_t h, int64_t w, ops::cudnn::Order order) const {
    return order == ops::cudnn::Order::kChannelsFirst ? ((n * 4 + c) * 5 + h) * 5 + w
                                                      : ((n * 5 + h) * 5 + w) * 4 + c;
  }
  int64_t y(int64_t n, int64_t k, int64_t h, int64_t w, ops::cudnn::Order order) const {
    return order == ops::cudnn::Order::kChannelsFirst ? ((n * 6 + k) * 5 + h) * 5 + w
                                                      : ((n * 5 + h) * 5 + w) * 6 + k;
  }
  int64_t w(int64_t k, int64_t c, int64_t r, int64_t s, ops::cudnn::Order order) const {
    return order == ops::cudnn::Order::kChannelsFirst ? ((k * 2 + c) * 3 + r) * 3 + s
                                                      : ((k * 3 + r) * 3 + s) * 2 + c;
  }
  // f(x, w, y): the three places of each product.
  template <class F>
  void for_products(ops::cudnn::Order order, const F& f) const {
    for (int64_t i = 0; i < 2 * 6 * 5 * 5 * 2 * 3 * 3; ++i) {
      const int64_t s = i % 3, r = i / 3 % 3, c = i / 9 % 2, q = i / 18 % 5, p = i / 90 % 5,
                    k = i / 450 % 6, n = i / 2700;
      const int64_t h = p + r - 1, v = q + s - 1;
      if (h < 0 || h >= 5 || v < 0 || v >= 5) continue;
      f(x(n, k / 3 * 2 + c, h, v, order), w(k, c, r, s, order), y(n, k, p, q, order));
    }
  }
};

TEST_F(OnDevice, convolutions_of_all_passes_and_orders_equal_plain_loops) {
  using ops::cudnn::Pass;
  ops::cudnn::Handle handle;
  const Small small;
  for (const auto order : {ops::cudnn::Order::kChannelsFirst, ops::cudnn::Order::kChannelsLast}) {
    for (const Pass pass : {Pass::kForward, Pass::kData, Pass::kFilter}) {
      const std::vector<float> x = whole_numbers(200, 1), w = whole_numbers(108, 2),
                               y = whole_numbers(300, 3);
      const std::vector<float>& a = pass == Pass::kData ? y : x;
      const std::vector<float>& b = pass == Pass::kFilter ? y : w;
      std::vector<float> expected(pass == Pass::kForward ? 300 : pass == Pass::kData ? 200 : 108);
      small.for_products(order, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
        if (pass == Pass::kForward) expected[at_y] += x[at_x] * w[at_w];
        if (pass == Pass::kData) expected[at_x] += y[at_y] * w[at_w];
        if (pass == Pass::kFilter) expected[at_w] += x[at_x] * y[at_y];
      });
      ops::cudnn::ConvolutionDesc desc;
      desc.pass = pass;
      desc.shape = small.shape;
      desc.order = order;
      const auto convolution = ops::cudnn::Convolution::make(handle, desc);
      const cuda::Memory device_a = upload(a), device_b = upload(b),
                         out(expected.size() * sizeof(float)),
                         workspace(convolution->workspace_bytes());
      convolution->run(handle, stream(), device_a.data(), device_b.data(), nullptr, out.data(),
                       workspace.data());
      EXPECT_EQ(download<float>(out), expected)
          << "pass " << static_cast<int>(pass) << ", order " << static_cast<int>(order);
    }
  }
}

TEST_F(OnDevice, products_with_transposes_bias_and_relu_equal_plain_loops) {
  using ops::cublas::Trans;
  ops::cublas::Handle handle;
  constexpr int64_t m = 8, n = 12, k = 16;
  const std::vector<float> a = whole_numbers(m * k, 1), b = whole_numbers(k * n, 2),
                           bias = whole_numbers(n, 4);
  const cuda::Memory device_a = upload(a), device_b = upload(b), device_bias = upload(bias);
  for (const Trans trans_a : {Trans::kNo, Trans::kYes}) {
    for (const Trans trans_b : {Trans::kNo, Trans::kYes}) {
      std::vector<float> expected;
      for (int64_t i = 0; i < m * n; ++i) {
        float sum = bias[i % n];
        for (int64_t j = 0; j < k; ++j) {
          sum += a[trans_a == Trans::kNo ? i / n * k + j : j * m + i / n] *
                 b[trans_b == Trans::kNo ? j * n + i % n : i % n * k + j];
        }
        expected.push_back(std::max(sum, 0.0f));
      }
      ops::cublas::ProductDesc desc;
      desc.m = m, desc.n = n, desc.k = k;
      desc.trans_a = trans_a, desc.trans_b = trans_b;
      desc.epilogue = ops::cublas::Epilogue::kBiasRelu;
      const auto product = ops::cublas::Product::make(handle, desc);
      const cuda::Memory out(expected.size() * sizeof(float)),
          workspace(product->workspace_bytes());
      product->run(handle, stream(), device_a.data(), device_b.data(), device_bias.data(),
                   out.data(), workspace.data());
      EXPECT_EQ(download<float>(out), expected);
    }
  }
}

TEST_F(OnDevice, rank_that_is_alone_keeps_its_sum) {
  namespace nccl = runtime::nccl;
  const auto communicator = nccl::Communicator::start(nccl::unique_id(), 0, 1);
  while (communicator->poll() == nccl::State::kBusy) continue;
  const cuda::Memory memory = upload(std::vector<float>{1, 2, 3});
  communicator->all_reduce(memory.data(), 3, graph::DType::kFloat32, stream());
  while (communicator->poll() == nccl::State::kBusy) continue;
  EXPECT_EQ(download<float>(memory), (std::vector<float>{1, 2, 3}));
}

TEST_F(OnDevice, rank_that_is_alone_goes_through_either_wire_again_and_again) {
  runtime::NcclRank rank(runtime::nccl::unique_id(), 0, 1, [] {});
  rank.connect(std::chrono::minutes(1));
  const cuda::Memory memory = upload(std::vector<float>{1, 259, 3});
  const auto pass = [&](graph::DType wire) {
    rank.start_sum(memory.data(), 3, graph::DType::kFloat32, wire, stream());
    rank.wait(memory.data(), stream());
  };
  pass(graph::DType::kFloat32);
  EXPECT_EQ(download<float>(memory), (std::vector<float>{1, 259, 3}));
  // 259 is no bfloat16.
  for (int i = 0; i < 3; ++i) pass(graph::DType::kBFloat16);
  rank.finish();
  EXPECT_EQ(download<float>(memory), (std::vector<float>{1, 260, 3}));
}

}  // namespace
}  // namespace sardonyx::testing
