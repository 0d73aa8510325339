// Convolutions through the library and through plain loops: windows of every kind, with what the
// library declines; more cases in tests/ops/conv_test.cc and conv_transpose_test.cc.
#include <gtest/gtest.h>

#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

using graph::Attributes;
using Ints = std::vector<int64_t>;

OpCase conv(Ints x, Ints w, Attributes attributes = {}) {
  const int64_t outputs = w[0];
  return {.claim = fmt::format("{} by {}", graph::shape_str(x), graph::shape_str(w)),
          .op = "Conv",
          .inputs = {random(std::move(x)), parameter(random(std::move(w), -1, 1, 2)),
                     parameter(random({outputs}, -1, 1, 3))},
          .attributes = std::move(attributes),
          .float_tolerance = {1e-5, 1e-5},
          .batch = true};
}

Attributes window(Ints strides, Ints pads, Ints dilations, int64_t group = 1) {
  return {{"strides", std::move(strides)},
          {"pads", std::move(pads)},
          {"dilations", std::move(dilations)},
          {"group", group}};
}

TEST(CudaConv, one_two_and_three_spatial_axes) {
  check_cuda(conv({2, 3, 17}, {4, 3, 5}, window({2}, {1, 3}, {2})));
  check_cuda(conv({2, 3, 9, 7}, {4, 3, 3, 2}, window({2, 1}, {1, 0, 2, 1}, {1, 2})));
  check_cuda(
      conv({1, 2, 4, 5, 6}, {3, 2, 2, 3, 2}, window({1, 2, 1}, {1, 0, 1, 0, 1, 0}, {1, 1, 2})));
}

TEST(CudaConv, groups_up_to_one_per_channel) {
  check_cuda(conv({2, 6, 5, 5}, {4, 3, 3, 3}, window({1, 1}, {1, 1, 1, 1}, {1, 1}, 2)));
  check_cuda(conv({2, 6, 5, 5}, {6, 1, 3, 3}, window({2, 2}, {1, 1, 1, 1}, {1, 1}, 6)));
  check_cuda(conv({2, 3, 5, 5}, {6, 1, 3, 3}, window({1, 1}, {0, 0, 0, 0}, {1, 1}, 3)));
}

TEST(CudaConv, sizes_around_blocks) {
  for (const int64_t size : {1, 15, 16, 255, 256, 257}) {
    check_cuda(conv({1, 1, size}, {1, 1, 1}));
    check_cuda(conv({1, 1, 3, 3}, {size, 1, 3, 3}, window({1, 1}, {1, 1, 1, 1}, {1, 1})));
    check_cuda(conv({1, size, 2, 2}, {2, size, 1, 1}));
  }
}

TEST(CudaConv, a_batch_of_one_of_nineteen_and_of_none) {
  OpCase c = conv({1, 2, 4, 4}, {3, 2, 3, 3}, window({1, 1}, {1, 1, 1, 1}, {1, 1}));
  check_cuda(c);
  c.inputs[2] = left_out();
  check_cuda(c);
}

TEST(CudaConv, a_padding_larger_than_the_window_is_zeros) {
  check_cuda(conv({1, 1, 3, 3}, {2, 1, 2, 2}, window({2, 2}, {3, 3, 3, 3}, {1, 1})));
}

// The end pad that the library gets is that of the front where no window notices.
TEST(CudaConv, unequal_pads_count_as_they_are) {
  for (const Ints& pads :
       {Ints{0, 0, 1, 1}, Ints{1, 1, 0, 0}, Ints{2, 0, 0, 2}, Ints{0, 1, 2, 3}}) {
    for (const int64_t size : {6, 7}) {
      check_cuda(conv({1, 2, size, size}, {2, 2, 3, 3}, window({2, 2}, pads, {1, 1})));
      check_cuda(conv({1, 2, size, size}, {2, 2, 3, 3}, window({1, 1}, pads, {1, 1})));
    }
  }
}

TEST(CudaConv, cells_that_nothing_reads_may_hold_anything) {
  OpCase c = conv({2, 2, 6, 6}, {2, 2, 3, 3}, window({1, 1}, {1, 1, 1, 1}, {1, 1}));
  c.attributes["needed"] = Ints{5, 4};
  check_cuda(c);
}

TEST(CudaConv, what_the_kernels_decline) {
  const OpCase empty = conv({0, 2, 4, 4}, {3, 2, 3, 3});
  EXPECT_EQ(cuda_refusal(empty, "conv.cudnn"), "needs at least one image");
  EXPECT_EQ(cuda_refusal(empty, "conv.cuda_plain"), "");
  const OpCase deep = conv({1, 1, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1});
  EXPECT_EQ(cuda_refusal(deep, "conv.cuda_plain"), "knows one to three spatial axes");
}

TEST(CudaConvTranspose, with_output_padding_groups_and_bias) {
  for (const int64_t group : {1, 2}) {
    OpCase c = conv({2, 4, 3, 5}, {4, 3, 3, 2}, window({2, 3}, {1, 0, 0, 1}, {1, 2}, group));
    c.op = "ConvTranspose";
    c.attributes["output_padding"] = Ints{1, 2};
    c.inputs[2] = parameter(random({3 * group}, -1, 1, 3));
    check_cuda(c);
    c.inputs[2] = left_out();
    check_cuda(c);
  }
}

}  // namespace

}  // namespace sardonyx::test
