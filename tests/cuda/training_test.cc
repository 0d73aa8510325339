// Whole networks trained on the stand-in of the CUDA device, against the same steps on the CPU.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/onnx_export.h"
#include "models/lenet.h"
#include "models/resnet.h"
#include "runtime/session.h"
#include "tests/support/host_cuda/fixture.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {

namespace {

using graph::DType;
using graph::Tensor;

using CudaTraining = host_cuda::HostCuda;

struct Setting {
  std::vector<std::string> devices = {"cpu"};
  Cut cut;
  DType dtype = DType::kFloat64;
  int steps = 3;
};

Batch batch_of(std::vector<int64_t> sample, int64_t rows, uint64_t seed) {
  sample.insert(sample.begin(), rows);
  Batch batch;
  batch.inputs.emplace_back("", test::random_tensor(DType::kFloat32, sample, -1, 1, seed));
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < rows; ++i) labels.push_back((7 * i + static_cast<int64_t>(seed)) % 10);
  batch.labels = Tensor::of<int64_t>({rows}, labels);
  return batch;
}

struct Trained {
  std::vector<double> losses;
  std::vector<Tensor> states;
  std::vector<std::string> names;
};

Trained train(const std::shared_ptr<const graph::Model>& model, std::vector<int64_t> sample,
              const Setting& setting) {
  SessionOptions options;
  options.devices = setting.devices;
  options.threads = static_cast<int>(setting.devices.size());
  options.pipeline.dtype = setting.dtype;
  options.pipeline.optimizer.momentum = 0.9;
  options.pipeline.optimizer.weight_decay = 5e-4;
  Session session(model, options);
  Trained trained;
  int64_t rows = 0;
  for (const auto& parts : setting.cut) {
    for (const int64_t part : parts) rows += part;
  }
  for (int step = 0; step < setting.steps; ++step) {
    const Batch batch = batch_of(sample, rows, static_cast<uint64_t>(step + 1));
    trained.losses.push_back(session.train_step(batch, setting.cut, 0.05).loss);
  }
  EXPECT_EQ(session.replica_difference(), "");
  for (const std::string& name : session.state_names()) {
    if (name.starts_with("acc")) continue;
    trained.names.push_back(name);
    trained.states.push_back(session.state(name));
  }
  return trained;
}

void expect_near(const Trained& got, const Trained& wanted, double tolerance) {
  ASSERT_EQ(got.losses.size(), wanted.losses.size());
  for (size_t i = 0; i < got.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], wanted.losses[i], tolerance * std::abs(wanted.losses[i])) << i;
  }
  ASSERT_EQ(got.names, wanted.names);
  for (size_t i = 0; i < got.states.size(); ++i) {
    double largest = 0, scale = 1e-3;
    for (int64_t k = 0; k < wanted.states[i].numel(); ++k) {
      const double w = wanted.states[i].as_double(k);
      scale = std::max(scale, std::abs(w));
      largest = std::max(largest, std::abs(got.states[i].as_double(k) - w));
    }
    EXPECT_LE(largest, tolerance * scale) << got.names[i];
  }
}

std::shared_ptr<const graph::Model> model_of(const graph::Graph& graph) {
  return graph::Model::from_bytes(graph::to_onnx_bytes(graph));
}

models::ImageModel image(int64_t channels, int64_t side) {
  models::ImageModel image;
  image.channels = channels;
  image.height = image.width = side;
  image.init.kind = models::Init::Kind::kKaiming;
  return image;
}

// The cut over replicas, the same cut on the CPU.
void expect_as_on_the_cpu(const std::shared_ptr<const graph::Model>& model,
                          const std::vector<int64_t>& sample, const Setting& setting,
                          double tolerance) {
  Setting cpu = setting;
  cpu.devices.assign(setting.devices.size(), "cpu");
  expect_near(train(model, sample, setting), train(model, sample, cpu), tolerance);
}

constexpr double kFloat64 = 1e-9, kFloat32 = 2e-4;

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

TEST_F(CudaTraining, replicas_on_several_devices_train_as_on_the_cpu) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  const std::vector<int64_t> sample = {1, 16, 16};
  expect_as_on_the_cpu(lenet, sample, {{"cuda:0", "cuda:1"}, {{5}, {3}}}, kFloat64);
  expect_as_on_the_cpu(lenet, sample, {{"cuda:0", "cpu"}, {{3, 2}, {2, 1}}}, kFloat64);
}

TEST_F(CudaTraining, a_narrow_resnet_trains_as_on_the_cpu) {
  models::ResNet options;
  options.image = image(3, 16);
  options.width = 4;
  const auto resnet = model_of(*models::resnet(options));
  expect_as_on_the_cpu(resnet, {3, 16, 16}, {{"cuda:0"}, {{4, 3}}}, kFloat64);
}

TEST_F(CudaTraining, whatever_order_the_streams_run_in) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  const Setting setting{{"cuda:0", "cuda:0"}, {{3, 2}, {3}}};
  const Trained late = train(lenet, {1, 16, 16}, setting);
  for (const uint64_t seed : {1, 2, 3}) {
    host_cuda::reset({.schedule = host_cuda::Schedule::kRandom, .seed = seed});
    ops::cuda::use_device(0);
    expect_near(train(lenet, {1, 16, 16}, setting), late, 0);
  }
}

}  // namespace

}  // namespace sardonyx::runtime
