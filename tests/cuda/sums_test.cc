// ops/core/cuda_sums: sums per channel in every memory order, and the additions that kernels share.
#include "ops/core/cuda_sums.h"

#include <gtest/gtest.h>

#include "ops/core/cuda_context.h"
#include "tests/cuda/device_array.h"

namespace sardonyx::test {

namespace {

namespace cuda = ops::cuda;
using cuda::ChannelCells;
using cuda::Write;
using graph::DType;

// Small integers: every order of additions gives the same.
std::vector<float> numbers(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 37 % 101 - 50);
  return values;
}

std::vector<float> sums_of(const ChannelCells& cells, const std::vector<float>& x, double scale) {
  std::vector<float> sums;
  for (int64_t c = 0; c < cells.channels; ++c) {
    double sum = 0;
    for (int64_t row = 0; row < cells.rows; ++row) {
      for (int64_t i = 0; i < cells.cells; ++i) {
        sum += x[row * cells.row_stride + c * cells.channel_stride + i * cells.cell_stride];
      }
    }
    sums.push_back(static_cast<float>(scale * sum));
  }
  return sums;
}

class CudaSums : public ::testing::Test {
 protected:
  void check(const ChannelCells& cells) {
    SCOPED_TRACE(testing::Message() << cells.rows << " rows, " << cells.channels << " channels, "
                                    << cells.cells << " cells");
    const std::vector<float> x = numbers(cells.numel());
    const DeviceArray<float> from(stream_.get(), x);
    const DeviceArray<float> to(stream_.get(), std::vector<float>(cells.channels, 1));
    const cuda::Memory workspace(cuda::sum_workspace(cells));
    cuda::sum_channels(stream_.get(), DType::kFloat32, cells, from.data(), 0.5, Write::kOverwrite,
                       to.data(), workspace.data());
    std::vector<float> want = sums_of(cells, x, 0.5);
    EXPECT_EQ(to.values(), want);
    cuda::sum_channels(stream_.get(), DType::kFloat32, cells, from.data(), 2, Write::kAdd,
                       to.data(), workspace.data());
    for (float& sum : want) sum *= 5;
    EXPECT_EQ(to.values(), want);
  }

  const cuda::OwnedStream stream_ = on_the_device();

 private:
  static cuda::OwnedStream on_the_device() {
    cuda::use_device(0);
    return cuda::OwnedStream();
  }
};

TEST_F(CudaSums, channels_in_front_of_their_cells) {
  for (const int64_t cells : {1, 2, 7, 255, 256, 257}) {
    for (const int64_t channels : {1, 3, 33}) {
      for (const int64_t rows : {0, 1, 5, 40}) {
        check(ChannelCells::dense(rows, channels, cells));
      }
    }
  }
}

TEST_F(CudaSums, channels_behind_their_cells) {
  for (const int64_t cells : {1, 6, 257}) {
    for (const int64_t channels : {1, 4, 31, 65}) {
      check({3, channels, cells, cells * channels, 1, channels});
    }
  }
}

TEST_F(CudaSums, channels_in_packs) {
  for (const int64_t rows : {1, 7, 3000}) {
    for (const int64_t channels : {4, 8, 24, 136}) check(ChannelCells::dense(rows, channels, 1));
  }
}

TEST_F(CudaSums, bfloat16_is_added_up_in_double) {
  for (const int64_t channels : {3, 16}) {
    // 1 and 1024 ones of 2^-8, which bfloat16 could not add to it.
    std::vector<uint16_t> x(1025 * channels, 0x3b80);
    std::fill_n(x.begin(), channels, 0x3f80);
    const ChannelCells cells = ChannelCells::dense(1025, channels, 1);
    const DeviceArray<uint16_t> from(stream_.get(), x);
    const DeviceArray<uint16_t> to(stream_.get(), std::vector<uint16_t>(channels, 0));
    const cuda::Memory workspace(cuda::sum_workspace(cells));
    cuda::sum_channels(stream_.get(), DType::kBFloat16, cells, from.data(), 1, Write::kOverwrite,
                       to.data(), workspace.data());
    EXPECT_EQ(to.values(), std::vector<uint16_t>(channels, 0x40a0));  // 5
  }
}

TEST_F(CudaSums, many_rows_are_cut_into_pieces) {
  check(ChannelCells::dense(20000, 2, 1));
  check(ChannelCells::dense(3000, 1, 9));
  EXPECT_GT(cuda::ChannelGrid(ChannelCells::dense(20000, 2, 1)).pieces, 1);
}

TEST_F(CudaSums, a_term_per_channel_is_added_to_its_cells) {
  const DeviceArray<double> b(stream_.get(), {10, 20, 30});
  const DeviceArray<double> y(stream_.get(), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  cuda::add_per_channel(stream_.get(), DType::kFloat64, 12, 3, 2, b.data(), y.data());
  EXPECT_EQ(y.values(), (std::vector<double>{10, 11, 22, 23, 34, 35, 16, 17, 28, 29, 40, 41}));
}

TEST_F(CudaSums, what_a_micro_batch_adds_is_added_element_by_element) {
  for (const int64_t n : {0, 1, 257}) {
    const DeviceArray<float> from(stream_.get(), numbers(n));
    const DeviceArray<float> to(stream_.get(), numbers(n));
    ops::CudaContext context;
    context.stream = stream_.get();
    ops::launch_add(context, DType::kFloat32, n, from.data(), to.data());
    std::vector<float> want = numbers(n);
    for (float& value : want) value *= 2;
    EXPECT_EQ(to.values(), want);
  }
}

}  // namespace

}  // namespace sardonyx::test
