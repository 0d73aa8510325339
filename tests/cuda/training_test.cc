// Whole networks trained on a CUDA device, against the same steps on the CPU; what becomes of a
// step whose sums break off is in training_faults_test.cc.
#include "models/lenet.h"
#include "models/resnet.h"
#include "tests/cuda/on_device.h"
#include "tests/cuda/trained.h"

namespace sardonyx::runtime {

namespace {

using CudaTraining = test::OnDevice;

TEST_F(CudaTraining, lenet_trains_as_on_the_cpu) {
  const auto lenet = model_of(*models::lenet(image(1, 28)));
  const std::string cuda = "cuda:0";
  const std::vector<int64_t> sample = {1, 28, 28};
  expect_as_on_the_cpu(lenet, sample, {{cuda}, {{10}}}, kFloat64);
  // One step: rounding that turns a Relu beside zero would grow in the next ones.
  expect_as_on_the_cpu(lenet, sample, {{cuda}, {{10}}, DType::kFloat32, 1}, kFloat32);
  expect_as_on_the_cpu(lenet, sample, {{cuda}, {{4, 4, 2}}}, kFloat64);
}

TEST_F(CudaTraining, replicas_on_one_device_train_as_on_the_cpu) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  const std::vector<int64_t> sample = {1, 16, 16};
  expect_as_on_the_cpu(lenet, sample, {{"cuda:0", "cuda:0"}, {{5}, {3}}}, kFloat64);
  expect_as_on_the_cpu(lenet, sample, {{"cuda:0", "cuda:0", "cuda:0"}, {{3, 2}, {2, 1}, {}}},
                       kFloat64);
}

TEST_F(CudaTraining, replicas_beside_the_cpu_train_as_on_the_cpu) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  expect_as_on_the_cpu(lenet, {1, 16, 16}, {{"cuda:0", "cpu"}, {{3, 2}, {2, 1}}}, kFloat64);
}

TEST_F(CudaTraining, two_replicas_add_up_to_the_same_bits_on_one_device_and_on_two) {
  if (!test::has_devices({"cuda:1"})) GTEST_SKIP() << "this machine has one device";
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  for (const DType wire : {DType::kUndefined, DType::kBFloat16}) {
    Setting setting{{"cuda:0", "cuda:0"}, {{3, 2}, {4}}, DType::kFloat32};
    setting.wire = wire;
    const Trained shared = train(lenet, {1, 16, 16}, setting);
    setting.devices = {"cuda:0", "cuda:1"};
    expect_near(train(lenet, {1, 16, 16}, setting), shared, 0);
  }
}

TEST_F(CudaTraining, a_narrow_resnet_trains_as_on_the_cpu) {
  models::ResNet options;
  options.image = image(3, 16);
  options.width = 4;
  const auto resnet = model_of(*models::resnet(options));
  expect_as_on_the_cpu(resnet, {3, 16, 16}, {{"cuda:0"}, {{4, 3}}}, kFloat64);
}

TEST_F(CudaTraining, networks_with_channels_last_train_as_on_the_cpu) {
  Setting setting{{"cuda:0"}, {{4, 3}}};
  setting.channels = passes::ChannelOrder::kLast;
  expect_as_on_the_cpu(model_of(*models::lenet(image(1, 16))), {1, 16, 16}, setting, kFloat64);
  models::ResNet options;
  options.image = image(3, 16);
  options.width = 4;
  expect_as_on_the_cpu(model_of(*models::resnet(options)), {3, 16, 16}, setting, kFloat64);
}

// Products of 10-bit mantissas: off by more than float32 rounds, and not by much more. (Gradients
// differ by more where one of these turns a Relu beside zero.)
TEST_F(CudaTraining, tf32_rounds_products_only) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  Setting setting{{"cuda:0"}, {{7}}, DType::kFloat32, 1};
  const double as_stored = train(lenet, {1, 16, 16}, setting).losses[0];
  setting.precision = passes::Precision::kTf32;
  const double tf32 = train(lenet, {1, 16, 16}, setting).losses[0];
  EXPECT_NEAR(tf32, as_stored, 0x1p-10 * as_stored);
  EXPECT_GT(std::abs(tf32 - as_stored), 0x1p-22 * as_stored);
}

TEST_F(CudaTraining, bfloat16_between_products_stays_near_float32_and_the_states_are_float32) {
  models::ResNet options;
  options.image = image(3, 16);
  options.width = 8;
  for (const auto& [model, sample] :
       {std::pair(model_of(*models::lenet(image(1, 16))), std::vector<int64_t>{1, 16, 16}),
        std::pair(model_of(*models::resnet(options)), std::vector<int64_t>{3, 16, 16})}) {
    Setting setting{{"cuda:0"}, {{4, 3}}, DType::kFloat32, 2};
    const Trained wide = train(model, sample, setting);
    setting.precision = passes::Precision::kBFloat16;
    const Trained narrow = train(model, sample, setting);
    for (size_t i = 0; i < wide.losses.size(); ++i) {
      EXPECT_NEAR(narrow.losses[i], wide.losses[i], 0x1p-5 * wide.losses[i]) << i;
      EXPECT_NE(narrow.losses[i], wide.losses[i]) << i;
    }
    for (const Tensor& state : narrow.states) EXPECT_NE(state.dtype(), DType::kBFloat16);
  }
}

TEST_F(CudaTraining, whatever_order_the_streams_run_in) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  for (const char* second : {"cuda:0", "cuda:1"}) {
    const Setting setting{{"cuda:0", second}, {{3, 2}, {3}}};
    if (!test::has_devices(setting.devices)) continue;
    test::recover();
    const Trained first = train(lenet, {1, 16, 16}, setting);
    for (const uint64_t seed : {1, 2, 3}) {
      test::run_in_another_order(seed);
      expect_near(train(lenet, {1, 16, 16}, setting), first, 0);
    }
  }
}

}  // namespace

}  // namespace sardonyx::runtime
