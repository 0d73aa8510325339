// Sizes and numbers that packs and blocks of threads could get wrong; the formulas are tried by the
// cases of tests/ops/activation_test.cc.
#include <gtest/gtest.h>

#include <limits>

#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

TEST(CudaActivation, sizes_around_packs_and_blocks) {
  for (const int64_t n : {0, 1, 2, 3, 4, 5, 255, 256, 257, 1023, 1024, 1025, 4099}) {
    check_cuda({.claim = fmt::format("relu of {}", n), .op = "Relu", .inputs = {random({n})}});
    check_cuda({.claim = fmt::format("relu gradient of {}", n),
                .domain = "sardonyx",
                .op = "ReluGrad",
                .inputs = {random({n}), random({n})}});
  }
}

TEST(CudaActivation, a_scalar_has_one_element) {
  check_cuda({.claim = "scalar", .op = "Tanh", .inputs = {random({})}});
}

TEST(CudaActivation, nan_and_infinity_come_through) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = floats({6}, {nan, inf, -inf, 0.0F, -0.0F, 3.0F});
  const Tensor dy = floats({6}, {1, 2, 3, 4, 5, nan});
  for (const char* op : {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "Softplus", "Gelu",
                         "Swish", "Mish", "HardSwish", "HardSigmoid", "ThresholdedRelu", "Clip"}) {
    check_cuda({.claim = op, .op = op, .inputs = {given(x)}, .differentiate = std::vector<int>{}});
  }
  for (const char* op : {"ReluGrad", "LeakyReluGrad", "EluGrad", "GeluGrad", "SwishGrad",
                         "MishGrad", "HardSwishGrad", "HardSigmoidGrad", "ClipGrad"}) {
    check_cuda({.claim = op,
                .domain = "sardonyx",
                .op = op,
                .inputs = {given(x), given(dy)},
                .differentiate = std::vector<int>{}});
  }
}

TEST(CudaActivation, bounds_of_clip_are_read_on_the_device) {
  check_cuda(
      {.claim = "both bounds computed",
       .op = "Clip",
       .inputs = {random({300}, -2, 2), given(floats({}, {-0.5F})), given(floats({}, {1}))}});
  check_cuda({.claim = "upper bound only",
              .op = "Clip",
              .inputs = {random({5}, -2, 2), left_out(), constant(floats({}, {1}))}});
  check_cuda({.claim = "integers",
              .op = "Clip",
              .inputs = {given(ints({5}, {-3, -1, 0, 2, 9})), given(ints({}, {-1})),
                         given(ints({}, {2}))}});
}

TEST(CudaActivation, clip_takes_channels_last) {
  check_cuda({.claim = "relu6",
              .op = "Clip",
              .inputs = {random({2, 3, 2, 5}, -8, 8), constant(floats({}, {0})),
                         constant(floats({}, {6}))},
              .batch = true,
              .must_run = {"activation.cuda", "activation.cuda_nhwc"}});
}

TEST(CudaActivation, types_without_a_kernel_are_declined_with_a_sentence) {
  const OpCase halves = {.claim = "float16",
                         .op = "Relu",
                         .inputs = {exactly(given(floats({2}, {1, 2}).cast(DType::kFloat16)))}};
  EXPECT_EQ(cuda_refusal(halves, "activation.cuda"), "takes float, double and bfloat16 only");
}

}  // namespace

}  // namespace sardonyx::test
