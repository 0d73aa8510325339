// Shapes that the blocks and pieces of the sums could get wrong, everything that may be fused, and
// numbers that aren't; the formulas are tried by the cases of tests/ops/batch_norm_test.cc.
#include <gtest/gtest.h>

#include <limits>

#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

// Few and many rows, channels and cells; sizes around packs, warps and blocks.
const std::vector<std::vector<int64_t>> kShapes = {
    {1, 1, 1, 1}, {1, 3, 2, 2}, {2, 257},     {257, 3},     {5, 31, 3},  {3, 2, 255}, {2, 2, 256},
    {2, 1, 257},  {7},          {600, 2, 17}, {4, 8, 4, 4}, {3, 5, 132}, {0, 3, 2, 2}};

int64_t channels_of(const std::vector<int64_t>& shape) { return shape.size() > 1 ? shape[1] : 1; }

OpInput per_channel(const std::vector<int64_t>& shape, double low, double high, uint64_t seed) {
  return random({channels_of(shape)}, low, high, seed);
}
OpInput in_double(OpInput input) {
  input.value = random_tensor(DType::kFloat64, input.shape, input.low, input.high, input.seed);
  return exactly(std::move(input));
}

OpCase own(const char* op, std::vector<OpInput> inputs, int outputs) {
  return {.claim = fmt::format("{} of {}", op, graph::shape_str(inputs[0].shape)),
          .domain = ops::kDomain,
          .op = op,
          .inputs = std::move(inputs),
          .num_outputs = outputs,
          .differentiate = std::vector<int>{}};
}

TEST(CudaBatchNorm, sums_of_every_shape) {
  for (const auto& shape : kShapes) check_cuda(own("BatchNormSums", {random(shape)}, 1));
}

OpCase apply(const std::vector<int64_t>& shape) {
  return own("BatchNormApply",
             {random(shape), per_channel(shape, 0.5, 1.5, 2), per_channel(shape, -1, 1, 3),
              in_double(per_channel(shape, -1, 1, 4)), in_double(per_channel(shape, 0.5, 2, 5)),
              exactly(given(doubles({}, {20})))},
             1);
}

TEST(CudaBatchNorm, apply_with_addend_and_relu) {
  for (const auto& shape : kShapes) {
    OpCase c = apply(shape);
    check_cuda(c);
    c.attributes["activation"] = std::string("Relu");
    check_cuda(c);
    c.inputs.push_back(random(shape, -1, 1, 7));
    check_cuda(c);
    c.attributes.erase("activation");
    check_cuda(c);
  }
}

TEST(CudaBatchNorm, relu_lets_nan_through) {
  OpCase c = apply({2, 2, 2});
  c.inputs[0] = given(floats({2, 2, 2}, {kNan, 1, -1, kInf, -kInf, 0, 2, kNan}));
  c.attributes["activation"] = std::string("Relu");
  check_cuda(c);
}

OpCase grad_sums(const std::vector<int64_t>& shape) {
  return own("BatchNormGradSums",
             {random(shape), random(shape, -1, 1, 8), in_double(per_channel(shape, -1, 1, 4)),
              in_double(per_channel(shape, 0.5, 2, 5)), random(shape, -1, 1, 9),
              random(shape, -1, 1, 10), left_out(), left_out()},
             3);
}

TEST(CudaBatchNorm, gradient_sums_with_a_second_term_and_either_mask) {
  for (const auto& shape : kShapes) {
    OpCase c = grad_sums(shape);
    check_cuda(c);
    c.claim += " without dz";
    c.wanted_outputs = {true, true, false};
    check_cuda(c);
    c.claim += " by what x gives again";
    c.inputs[5] = left_out();
    c.inputs[6] = per_channel(shape, 0.5, 1.5, 2);
    c.inputs[7] = per_channel(shape, -1, 1, 3);
    check_cuda(c);
    c.claim += " and one term";
    c.inputs[4] = left_out();
    check_cuda(c);
    c.wanted_outputs = {};
    check_cuda(c);
  }
}

TEST(CudaBatchNorm, a_mask_of_nan_lets_the_gradient_through) {
  OpCase c = grad_sums({1, 1, 5});
  c.inputs[5] = given(floats({1, 1, 5}, {kNan, 0, -0.0F, 1, -1}));
  check_cuda(c);
  c.inputs[0] = given(floats({1, 1, 5}, {1, kNan, 2, 3, kNan}));
  check_cuda(c);
}

// Through the statistics, masked, of two terms.
OpCase grad_data(const std::vector<int64_t>& shape, bool sums) {
  OpCase c = own(
      "BatchNormGradData",
      {random(shape), per_channel(shape, 0.5, 1.5, 2), in_double(per_channel(shape, 0.5, 2, 5)),
       random(shape, -1, 1, 8), in_double(per_channel(shape, -1, 1, 4)),
       in_double(per_channel(shape, -1, 1, 6)), in_double(per_channel(shape, -1, 1, 7)),
       exactly(given(doubles({}, {20}))), per_channel(shape, -1, 1, 3), random(shape, -1, 1, 9)},
      2);
  c.float_tolerance = {1e-5, 1e-4};  // sums of rounded numbers
  c.wanted_outputs = {true, sums};
  return c;
}

TEST(CudaBatchNorm, gradient_of_x_in_every_form) {
  for (const auto& shape : kShapes) {
    OpCase c = own(
        "BatchNormGradData",
        {random(shape), per_channel(shape, 0.5, 1.5, 2), in_double(per_channel(shape, 0.5, 2, 5))},
        2);
    c.float_tolerance = {1e-5, 1e-4};  // sums of rounded numbers
    for (const bool sums : {true, false}) {
      OpCase form = c;
      form.wanted_outputs = {true, sums};
      check_cuda(form);
      form.claim += " through its statistics";
      form.inputs.push_back(random(shape, -1, 1, 8));
      for (const uint64_t seed : {4, 6, 7}) {
        form.inputs.push_back(in_double(per_channel(shape, -1, 1, seed)));
      }
      form.inputs.push_back(exactly(given(doubles({}, {20}))));
      check_cuda(form);
      form.claim += " with a mask";
      form.inputs.push_back(per_channel(shape, -1, 1, 3));
      check_cuda(form);
      form.claim += " and two terms";
      form.inputs.push_back(random(shape, -1, 1, 9));
      check_cuda(form);
      form.claim += " but no mask";
      form.inputs[8] = left_out();
      check_cuda(form);
    }
  }
}

// Channels around packs of bfloat16 and around warps, cells of one to three axes, rows in one piece
// and in several.
const std::vector<std::vector<int64_t>> kChannelsLast = {
    {1, 1, 2, 3},  {2, 3, 5},      {2, 17, 3, 2},    {3, 8, 4, 1},   {2, 24, 1, 1},
    {1, 64, 5, 9}, {2, 264, 2, 2}, {2, 16, 2, 2, 3}, {40, 8, 12, 11}};

OpCase with_channels_last(OpCase c) {
  for (OpInput& input : c.inputs) {
    const size_t rank = input.value.defined() ? input.value.shape().size() : input.shape.size();
    if (rank == 1) input = parameter(input);
  }
  c.batch = true;
  c.must_run = {"batch_norm.cuda", "batch_norm.cuda_nhwc"};
  return c;
}

TEST(CudaBatchNorm, channels_last_forward) {
  for (const auto& shape : kChannelsLast) {
    check_cuda(with_channels_last(own("BatchNormSums", {random(shape)}, 1)));
    OpCase c = with_channels_last(apply(shape));
    check_cuda(c);
    c.attributes["activation"] = std::string("Relu");
    c.inputs.push_back(random(shape, -1, 1, 7));
    check_cuda(c);
  }
}

TEST(CudaBatchNorm, channels_last_gradients) {
  for (const auto& shape : kChannelsLast) {
    OpCase c = with_channels_last(grad_sums(shape));
    c.float_tolerance = {1e-5, 1e-4};  // sums of rounded numbers
    check_cuda(c);
    c.claim += " by what x gives again";
    c.wanted_outputs = {true, true, false};
    c.inputs[4] = c.inputs[5] = left_out();
    c.inputs[6] = parameter(per_channel(shape, 0.5, 1.5, 2));
    c.inputs[7] = parameter(per_channel(shape, -1, 1, 3));
    check_cuda(c);
    for (const bool sums : {true, false}) check_cuda(with_channels_last(grad_data(shape, sums)));
  }
}

TEST(CudaBatchNorm, statistics_of_many_channels) {
  for (const int64_t channels : {1, 255, 256, 257}) {
    check_cuda(own("BatchNormMoments", {in_double(random({3, channels}, 1, 2, 3))}, 3));
    OpCase running =
        own("BatchNormRunning",
            {random({channels}), random({channels}, 1, 2, 2), in_double(random({channels})),
             in_double(random({channels}, 1, 2, 4)), exactly(given(doubles({}, {4})))},
            2);
    running.attributes = {{"momentum", 0.9}, {"sample_variance", int64_t{1}}};
    check_cuda(running);
  }
}

TEST(CudaBatchNorm, a_step_that_is_refused_keeps_the_statistics) {
  for (const float scale : {0.5F, kNan, kInf}) {
    OpCase c = own("CommitStatistic",
                   {random({300}), random({300}, 2, 3, 9), given(floats({}, {scale}))}, 1);
    check_cuda(c);
    c.inputs.push_back(given(floats({}, {2})));
    check_cuda(c);
  }
}

}  // namespace

}  // namespace sardonyx::test
