// Windows that belong to a warp, and ties and NaN between its lanes. Geometries and small windows
// are tried by the cases of tests/ops/pool_test.cc.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "ops/pool/pool_cuda.h"
#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

using Shape = std::vector<int64_t>;
namespace pool = ops::pool;

OpCase over_the_map(const char* op, OpInput x) {
  return {.claim = op, .op = op, .inputs = {std::move(x)}, .numeric = Numeric::kSkip};
}

TEST(CudaPool, windows_around_the_size_of_a_warp) {
  for (const int64_t width : {5, 31, 32, 33, 64, 257}) {
    for (const char* op : {"GlobalMaxPool", "GlobalAveragePool"}) {
      check_cuda(over_the_map(op, random({2, 3, 1, width})));
    }
  }
  check_cuda(over_the_map("GlobalAveragePool", random({1, 2, 3, 4, 5})));
}

TEST(CudaPool, the_first_of_equals_and_the_last_nan_win_in_a_warp) {
  std::vector<float> map(100, 1.0F);
  map[37] = map[70] = map[90] = 5.0F;
  const OpCase ties = {.claim = "ties",
                       .op = "MaxPool",
                       .inputs = {given(floats({1, 1, 10, 10}, map))},
                       .attributes = {{"kernel_shape", Shape{10, 10}}},
                       .num_outputs = 2,
                       .expected = {floats({1, 1, 1, 1}, {5}), ints({1, 1, 1, 1}, {37})},
                       .differentiate = std::vector<int>{}};
  check_cuda(ties);
  map[12] = map[63] = std::numeric_limits<float>::quiet_NaN();
  OpCase nans = ties;
  nans.claim = "nans";
  nans.inputs = {given(floats({1, 1, 10, 10}, map))};
  nans.expected = {Tensor(), ints({1, 1, 1, 1}, {63})};
  check_cuda(nans);
  nans.attributes = {{"kernel_shape", Shape{2, 2}}};
  nans.claim = "nans in small windows";
  nans.expected = {};
  check_cuda(nans);
}

TEST(CudaPool, large_windows_that_overlap) {
  for (const char* op : {"MaxPool", "AveragePool"}) {
    check_cuda({.claim = op,
                .op = op,
                .inputs = {random({2, 1, 12, 13})},
                .attributes = {{"kernel_shape", Shape{7, 6}},
                               {"strides", Shape{2, 3}},
                               {"pads", Shape{3, 1, 2, 2}}},
                .numeric = Numeric::kSkip,
                .batch = true});
  }
}

TEST(CudaPool, dilated_windows_share_cells) {
  check_cuda({.claim = "dilated average",
              .op = "AveragePool",
              .inputs = {random({1, 2, 9, 9})},
              .attributes = {{"kernel_shape", Shape{3, 2}},
                             {"dilations", Shape{2, 3}},
                             {"pads", Shape{2, 1, 1, 2}},
                             {"count_include_pad", int64_t{1}}}});
}

// What the launches make of x [2, 3, 4, 5] in one order of the elements, brought into [N, C, ...].
struct Pooled {
  std::vector<float> max, average, max_grad, average_grad;
};

std::vector<float> turned(const std::vector<float>& values, int64_t images, int64_t channels,
                          pool::Channels from) {
  if (from == pool::Channels::kFirst) return values;
  const int64_t cells = std::ssize(values) / images / channels;
  std::vector<float> result(values.size());
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    const int64_t channel = i % channels, cell = i / channels % cells, image = i / channels / cells;
    result[(image * channels + channel) * cells + cell] = values[i];
  }
  return result;
}

Pooled pooled(pool::Channels order) {
  pool::Planes planes;
  planes.axis[1] = {4, 2, 3, 2, 1, 1, 0, 4};
  planes.axis[2] = {5, 4, 2, 1, 1, 0, 0, 5};
  planes.images = 2;
  planes.channels = 3;
  planes.lay_out(order);
  const int64_t cells = planes.in_cells();
  std::vector<float> x, dy;
  // The numbers depend on the place in [N, C, ...].
  for (int64_t i = 0; i < planes.x_count(); ++i) {
    const int64_t last = (i / 3 / cells * 3 + i % 3) * cells + i / 3 % cells;
    x.push_back(static_cast<float>((order == pool::Channels::kLast ? last : i) * 37 % 101));
  }
  for (int64_t i = 0; i < planes.y_count(); ++i) {
    const int64_t last = (i / 3 / 8 * 3 + i % 3) * 8 + i / 3 % 8;
    dy.push_back(static_cast<float>((order == pool::Channels::kLast ? last : i) % 11 + 1));
  }
  ops::cuda::use_device(0);
  const ops::cuda::OwnedStream owned;
  const ops::cuda::Stream stream = owned.get();
  const size_t x_bytes = x.size() * sizeof(float), y_bytes = dy.size() * sizeof(float);
  const ops::cuda::Memory on_x(x_bytes), on_dy(y_bytes), on_y(y_bytes), on_dx(x_bytes);
  const ops::cuda::Memory winners(y_bytes);
  const ops::cuda::PinnedMemory host(x_bytes + y_bytes);
  std::memcpy(host.data(), x.data(), x_bytes);
  std::memcpy(host.data() + x_bytes, dy.data(), y_bytes);
  ops::cuda::copy_to_device(stream, on_x.data(), host.data(), x_bytes);
  ops::cuda::copy_to_device(stream, on_dy.data(), host.data() + x_bytes, y_bytes);
  const auto fetch = [&](const ops::cuda::Memory& from) {
    const ops::cuda::PinnedMemory bytes(from.size());
    ops::cuda::copy_to_host(stream, bytes.data(), from.data(), from.size());
    ops::cuda::synchronize(stream);
    std::vector<float> values(from.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), from.size());
    return turned(values, 2, 3, order);
  };
  Pooled result;
  pool::launch_max(stream, DType::kFloat32, planes, pool::Order::kRows, on_x.data(), on_y.data(),
                   nullptr);
  result.max = fetch(on_y);
  pool::launch_average(stream, DType::kFloat32, planes, on_x.data(), on_y.data());
  result.average = fetch(on_y);
  pool::launch_max_grad(stream, DType::kFloat32, planes, on_x.data(), on_dy.data(),
                        reinterpret_cast<int32_t*>(winners.data()), on_dx.data());
  result.max_grad = fetch(on_dx);
  pool::launch_average_grad(stream, DType::kFloat32, planes, on_dy.data(), on_dx.data());
  result.average_grad = fetch(on_dx);
  return result;
}

TEST(CudaPool, channels_may_come_last) {
  const Pooled first = pooled(pool::Channels::kFirst), last = pooled(pool::Channels::kLast);
  EXPECT_EQ(last.max, first.max);
  EXPECT_EQ(last.average, first.average);
  EXPECT_EQ(last.max_grad, first.max_grad);
  EXPECT_EQ(last.average_grad, first.average_grad);
  EXPECT_NE(first.max[0], first.max[1]);
}

TEST(CudaPool, any_number_of_channels_may_come_last) {
  for (const int64_t channels : {1, 3, 8, 17}) {
    for (const char* op : {"MaxPool", "AveragePool"}) {
      check_cuda({.claim = fmt::format("{} of {} channels", op, channels),
                  .op = op,
                  .inputs = {random({2, channels, 5, 6})},
                  .attributes = {{"kernel_shape", Shape{3, 2}},
                                 {"strides", Shape{2, 1}},
                                 {"pads", Shape{1, 0, 1, 1}}},
                  .batch = true,
                  .must_run = {"pool.cuda", "pool.cuda_nhwc"}});
    }
    for (const char* op : {"GlobalMaxPool", "GlobalAveragePool"}) {
      OpCase c = over_the_map(op, random({3, channels, 6, 7}));
      c.batch = true;
      c.must_run = {"pool.cuda", "pool.cuda_nhwc"};
      check_cuda(c);
    }
  }
}

TEST(CudaPool, four_spatial_axes_are_declined) {
  const OpCase four = {.claim = "four axes",
                       .op = "MaxPool",
                       .inputs = {random({1, 1, 2, 2, 2, 2})},
                       .attributes = {{"kernel_shape", Shape{2, 2, 2, 2}}}};
  EXPECT_EQ(cuda_refusal(four, "pool.cuda"), "knows one to three spatial axes");
}

}  // namespace

}  // namespace sardonyx::test
