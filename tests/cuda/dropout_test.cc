// Masks of the device are those of the CPU bit by bit, for every sample of the global batch; more
// cases in tests/ops/dropout_test.cc.
#include <gtest/gtest.h>

#include "ops/core/random.h"
#include "ops/dropout/dropout_cuda.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

namespace cuda = ops::cuda;

OpCase dropout(std::vector<int64_t> shape, double ratio) {
  return {.claim = fmt::format("dropout {} of {}", ratio, graph::shape_str(shape)),
          .domain = ops::kDomain,
          .op = "Dropout",
          .inputs = {random(std::move(shape))},
          .attributes = {{"ratio", ratio}, {"key", int64_t{77}}},
          .num_outputs = 2,
          .batch = true};
}

TEST(CudaDropout, samples_around_chunks_of_numbers) {
  for (const int64_t elements : {1, 15, 16, 17, 63, 64, 65, 257}) {
    check_cuda(dropout({3, elements}, 0.5));
  }
  check_cuda(dropout({2, 3, 5, 7}, 0.3));
  for (const double ratio : {0.0, 1.0}) check_cuda(dropout({2, 70}, ratio));
}

TEST(CudaDropout, a_mask_that_nobody_reads_is_not_written) {
  OpCase c = dropout({2, 70}, 0.5);
  c.wanted_outputs = {true, false};
  check_cuda(c);
}

TEST(CudaDropout, samples_count_from_the_first_of_the_batch) {
  cuda::use_device(0);
  const cuda::OwnedStream stream;
  const uint64_t random_stream = ops::stream_key(5, 6, 7);
  constexpr int64_t kFirst = int64_t{1} << 33, kRows = 3, kElements = 100;
  constexpr uint64_t kHalf = uint64_t{1} << 31;
  const DeviceArray<float> x(stream.get(), std::vector<float>(kRows * kElements, 1));
  const DeviceArray<float> y(stream.get(), std::vector<float>(kRows * kElements));
  const DeviceArray<uint8_t> mask(stream.get(), std::vector<uint8_t>(kRows * kElements));
  ops::dropout::launch_drop(stream.get(), DType::kFloat32,
                            {random_stream, kFirst, kRows, kElements, kHalf}, 2, x.data(), y.data(),
                            mask.data());
  std::vector<float> want;
  std::vector<uint8_t> want_mask;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < kElements; ++i) {
      const bool keep = ops::random_bits(random_stream, kFirst + row, i) >= kHalf;
      want.push_back(keep ? 2 : 0);
      want_mask.push_back(keep ? 1 : 0);
    }
  }
  EXPECT_EQ(y.values(), want);
  EXPECT_EQ(mask.values(), want_mask);
}

}  // namespace

}  // namespace sardonyx::test
