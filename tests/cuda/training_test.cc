// Whole networks trained on the stand-in of the CUDA device, against the same steps on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "graph/support/error.h"
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
  DType wire = DType::kUndefined;  // of the sums of gradients
  int64_t bucket_bytes = 0;        // 0: as always
  passes::ChannelOrder channels = passes::ChannelOrder::kByPrecision;
  passes::Precision precision = passes::Precision::kAsStored;
  passes::Fallback fallback = passes::Fallback::kNone;
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

SessionOptions options_of(const Setting& setting) {
  SessionOptions options;
  options.devices = setting.devices;
  options.threads = static_cast<int>(setting.devices.size());
  options.pipeline.dtype = setting.dtype;
  options.pipeline.channels = setting.channels;
  options.pipeline.precision = setting.precision;
  options.pipeline.optimizer.momentum = 0.9;
  options.pipeline.optimizer.weight_decay = 5e-4;
  options.pipeline.reduce.wire = setting.wire;
  if (setting.bucket_bytes > 0) {
    options.pipeline.reduce.bucket_bytes = setting.bucket_bytes;
    options.pipeline.reduce.first_bucket_bytes = setting.bucket_bytes;
  }
  options.pipeline.fallback = setting.fallback;
  return options;
}

Trained train(const std::shared_ptr<const graph::Model>& model, std::vector<int64_t> sample,
              const Setting& setting) {
  Session session(model, options_of(setting));
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

TEST_F(CudaTraining, replicas_beside_the_cpu_train_as_on_the_cpu) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  expect_as_on_the_cpu(lenet, {1, 16, 16}, {{"cuda:0", "cpu"}, {{3, 2}, {2, 1}}}, kFloat64);
}

// Their sums go over NCCL.
TEST_F(CudaTraining, replicas_on_devices_of_their_own_train_as_on_the_cpu) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  const std::vector<int64_t> sample = {1, 16, 16};
  const std::vector<std::string> two = {"cuda:0", "cuda:1"}, three = {"cuda:2", "cuda:0", "cuda:1"};
  constexpr int64_t kManyBuckets = 4096;
  host_cuda::reset({.devices = 3});
  const std::vector<std::pair<std::vector<std::string>, Cut>> grid = {
      {two, {{4}, {4}}},
      {two, {{2, 2, 2}, {2, 2, 2}}},
      {two, {{5}, {2}}},  // the tail of an epoch
      {two, {{2, 2, 1}, {2, 1, 1}}},
      {three, {{3}, {3}, {3}}},
      {three, {{2, 1, 1}, {1, 1, 1}, {1, 1, 1}}},
      {three, {{3, 2}, {2, 1}, {}}},
  };
  for (const auto& [devices, cut] : grid) {
    expect_as_on_the_cpu(lenet, sample, {devices, cut}, kFloat64);
    expect_as_on_the_cpu(lenet, sample, {devices, cut, DType::kFloat32, 1}, kFloat32);
  }
  Setting many{three, {{2, 1}, {2}, {1, 1}}};
  many.bucket_bytes = kManyBuckets;
  expect_as_on_the_cpu(lenet, sample, many, kFloat64);
}

TEST_F(CudaTraining, two_replicas_add_up_to_the_same_bits_on_one_device_and_on_two) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  for (const DType wire : {DType::kUndefined, DType::kBFloat16}) {
    Setting setting{{"cuda:0", "cuda:0"}, {{3, 2}, {4}}, DType::kFloat32};
    setting.wire = wire;
    const Trained shared = train(lenet, {1, 16, 16}, setting);
    setting.devices = {"cuda:0", "cuda:1"};
    expect_near(train(lenet, {1, 16, 16}, setting), shared, 0);
  }
}

std::string error_of_step(Session& session, const Batch& batch, const Cut& cut) {
  try {
    session.train_step(batch, cut, 0.05);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(CudaTraining, a_sum_that_breaks_before_the_updates_leaves_the_states_and_the_run_goes_on) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  Setting setting{{"cuda:0", "cuda:1"}, {{3}, {2}}};
  setting.bucket_bytes = 4096;
  Session session(lenet, options_of(setting));
  const Batch batch = batch_of({1, 16, 16}, 5, 1);
  host_cuda::plant({.broken_rank = 1, .reason = "no route"});
  const std::string error = error_of_step(session, batch, setting.cut);
  EXPECT_TRUE(error.starts_with("NCCL: unhandled cuda error, in rank 1 of 2: no route")) << error;
  EXPECT_NE(error.find("while running replica 1"), std::string::npos) << error;
  host_cuda::plant({});
  Session undisturbed(lenet, options_of(setting));
  EXPECT_EQ(session.train_step(batch, setting.cut, 0.05).loss,
            undisturbed.train_step(batch, setting.cut, 0.05).loss);
  EXPECT_EQ(session.state("conv1.weight").to_doubles(),
            undisturbed.state("conv1.weight").to_doubles());
}

TEST_F(CudaTraining, a_sum_that_breaks_under_the_updates_ends_the_run_until_states_are_restored) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  const Setting setting{{"cuda:0", "cuda:1"}, {{3}, {2}}};  // one bucket
  Session session(lenet, options_of(setting));
  const Batch batch = batch_of({1, 16, 16}, 5, 1);
  session.prepare_training({setting.cut});
  std::vector<std::pair<std::string, Tensor>> good;
  for (const SavedState& state : session.saved_states()) {
    good.emplace_back(state.name, session.state(state.name));
  }
  host_cuda::plant({.broken_rank = 0, .reason = "no route"});
  const std::string error = error_of_step(session, batch, setting.cut);
  EXPECT_TRUE(error.starts_with("NCCL: unhandled cuda error, in rank 0 of 2: no route")) << error;
  host_cuda::plant({});
  EXPECT_EQ(error_of_step(session, batch, setting.cut),
            "a step failed on some of the replicas while others applied it (a sum between the "
            "devices broke off on its way to the updates); go on from a checkpoint");
  session.restore(good, 0);
  Session undisturbed(lenet, options_of(setting));
  EXPECT_EQ(session.train_step(batch, setting.cut, 0.05).loss,
            undisturbed.train_step(batch, setting.cut, 0.05).loss);
}

TEST_F(CudaTraining, without_nccl_a_session_has_a_notice_and_trains) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  const Setting setting{{"cuda:0", "cuda:1"}, {{5}, {3}}};
  host_cuda::plant({.missing = "NCCL 2 can't be loaded; install it"});
  expect_as_on_the_cpu(lenet, {1, 16, 16}, setting, kFloat64);
  const Session session(lenet, options_of(setting));
  EXPECT_EQ(session.notices(),
            (std::vector<std::string>{"sums between the devices go through host memory, which "
                                      "takes longer: NCCL 2 can't be loaded; install it"}));
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

TEST_F(CudaTraining, whatever_order_the_streams_run_in) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  for (const char* second : {"cuda:0", "cuda:1"}) {
    const Setting setting{{"cuda:0", second}, {{3, 2}, {3}}};
    host_cuda::reset();
    const Trained late = train(lenet, {1, 16, 16}, setting);
    for (const uint64_t seed : {1, 2, 3}) {
      host_cuda::reset({.schedule = host_cuda::Schedule::kRandom, .seed = seed});
      expect_near(train(lenet, {1, 16, 16}, setting), late, 0);
    }
  }
}

// Without kernels for CUDA devices: InstanceNormalization and DepthToSpace.
std::shared_ptr<const graph::Model> model_with_gaps() {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
net (float[N,2,6,6] x) => (float[N,10] y)
<float[8,2,3,3] w = {...}, float[8] scale = {...}, float[8] shift = {...}, float[10,2,3,3] v = {...}> {
  c = Conv(x, w)
  n = InstanceNormalization(c, scale, shift)
  r = Relu(n)
  d = DepthToSpace<blocksize = 2>(r)
  e = Conv(d, v)
  p = GlobalAveragePool(e)
  y = Flatten(p)
})");
  uint64_t seed = 0;
  for (const char* name : {"w", "scale", "shift", "v"}) {
    graph::Value* value = graph->find(name);
    value->data = test::random_tensor(DType::kFloat32, value->type.shape(), -1, 1, ++seed);
  }
  return model_of(*graph);
}

constexpr auto kToCpu = passes::Fallback::kCpu;

TEST_F(CudaTraining, with_what_has_no_kernel_on_the_cpu_is_as_on_the_cpu) {
  const auto model = model_with_gaps();
  const auto expect = [&](const std::vector<std::string>& devices, const Cut& cut) {
    Setting setting{devices, cut};
    setting.fallback = kToCpu;
    expect_as_on_the_cpu(model, {2, 6, 6}, setting, kFloat64);
  };
  expect({"cuda:0"}, {{7}});
  expect({"cuda:0"}, {{4, 3, 1}});
  expect({"cuda:0", "cuda:0", "cpu"}, {{3, 2}, {2}, {1}});
  expect({"cuda:0", "cuda:1"}, {{3, 2}, {2}});
  Setting channels_last{{"cuda:0"}, {{4, 3}}};
  channels_last.fallback = kToCpu;
  channels_last.channels = passes::ChannelOrder::kLast;
  expect_as_on_the_cpu(model, {2, 6, 6}, channels_last, kFloat64);
  host_cuda::reset({.schedule = host_cuda::Schedule::kRandom});
  ops::cuda::use_device(0);
  expect({"cuda:0"}, {{7}});
}

SessionOptions on_cuda(passes::Fallback fallback = passes::Fallback::kNone) {
  SessionOptions options;
  options.devices = {"cuda:0"};
  options.threads = 2;
  options.pipeline.fallback = fallback;
  return options;
}

std::string training_error(Session& session, const Batch& batch) {
  try {
    session.train_step(batch, {{batch.rows()}}, 0.1);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(CudaTraining, names_what_falls_back_and_allocates_nothing_in_a_step) {
  Session session(model_with_gaps(), on_cuda(kToCpu));
  const Batch batch = batch_of({2, 6, 6}, 4, 1);
  session.train_step(batch, {{4}}, 0.1);
  const auto told = [&](const std::string& line) {
    return std::ranges::count(session.notices(), line) == 1;
  };
  // 4 x 8 x 4 x 4 floats are 2 KiB.
  EXPECT_TRUE(
      told("--fallback cpu: 1 node of DepthToSpace runs on the CPU; each run of 4 rows waits there "
           "and copies 0.00 MiB"));
  const size_t allocations = host_cuda::counts().allocations;
  session.train_step(batch, {{4}}, 0.1);
  EXPECT_EQ(host_cuda::counts().allocations, allocations);
}

TEST_F(CudaTraining, lists_what_has_no_kernel_and_says_what_to_do) {
  Session session(model_with_gaps(), on_cuda());
  const std::string error = training_error(session, batch_of({2, 6, 6}, 4, 1));
  EXPECT_TRUE(
      error.starts_with("no kernel runs these nodes:\n  node InstanceNormalization -> n:\n"
                        "    no kernel is registered for this device\n"
                        "  node DepthToSpace -> d:"))
      << error;
  EXPECT_TRUE(error.ends_with(
      "\n  --fallback cpu runs them on the CPU, with copies there and back in each step"))
      << error;
}

TEST_F(CudaTraining, refuses_a_plan_that_the_device_has_no_room_for) {
  host_cuda::reset({.memory_bytes = size_t{4} << 20});
  ops::cuda::use_device(0);
  Session session(model_of(*models::lenet(image(1, 28))), on_cuda());
  const size_t allocations = host_cuda::counts().allocations;
  const std::string error = training_error(session, batch_of({1, 28, 28}, 256, 1));
  EXPECT_TRUE(error.starts_with("the plan takes ")) << error;
  EXPECT_NE(error.find("but cuda:0 has room for 4.0 MiB; use a smaller --micro-batch, a larger "
                       "--accumulate or a smaller --batch"),
            error.npos)
      << error;
  EXPECT_EQ(host_cuda::counts().allocations, allocations);
  EXPECT_TRUE(session.state_names().empty());
  EXPECT_EQ(training_error(session, batch_of({1, 28, 28}, 4, 1)), "no error");
  EXPECT_EQ(training_error(session, batch_of({1, 28, 28}, 3, 1)), "no error");
}

TEST_F(CudaTraining, two_replicas_on_a_device_need_room_for_both) {
  const auto lenet = model_of(*models::lenet(image(1, 28)));
  const auto error = [&](const std::vector<std::string>& devices) -> std::string {
    SessionOptions options = on_cuda();
    options.devices = devices;
    Session session(lenet, options);
    try {
      session.prepare_training({Cut(devices.size(), {16})});
    } catch (const Error& refused) {
      return refused.what();
    }
    return "no error";
  };
  host_cuda::reset({.memory_bytes = size_t{4} << 20});
  ops::cuda::use_device(0);
  EXPECT_EQ(error({"cuda:0"}), "no error");
  EXPECT_EQ(error({"cuda:0", "cuda:1"}), "no error");
  EXPECT_NE(error({"cuda:0", "cuda:0"}).find(" of memory (2 replicas, each "), std::string::npos);
}

TEST_F(CudaTraining, a_label_out_of_range_stops_it_as_on_the_cpu) {
  const auto lenet = model_of(*models::lenet(image(1, 16)));
  const char* message = "label 10 of sample 3 is out of range: there are 10 classes (0..9)";
  for (const char* device : {"cuda:0", "cpu"}) {
    SessionOptions options = on_cuda();
    options.devices = {device};
    options.pipeline.loss.ignore_index = -1;
    Session session(lenet, options);
    Batch batch = batch_of({1, 16, 16}, 4, 1);
    batch.labels = Tensor::of<int64_t>({4}, {0, -1, 9, 2});
    EXPECT_EQ(training_error(session, batch), "no error");
    const std::string name = session.state_names().front();
    const Tensor before = session.state(name);
    batch.labels = Tensor::of<int64_t>({4}, {0, 1, 9, 10});
    EXPECT_NE(training_error(session, batch).find(message), std::string::npos) << device;
    EXPECT_TRUE(session.state(name).identical(before));
    EXPECT_THROW(session.evaluate(batch, 4), Error);
  }
}

}  // namespace

}  // namespace sardonyx::runtime
