// Updates as a session takes them: 200 steps against PyTorch (tests/peers/torch_optimizers.py wrote
// torch_optimizers.jsonl), skipped steps, averages in evaluation and in files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "ops/core/lanes.h"
#include "runtime/session.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/paths.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;
using nlohmann::json;
using sardonyx::testing::error_of;
using test::doubles;

// The gradient of a is x, that of b is z.
constexpr const char* kModel = R"(
<ir_version: 8, opset_import: ["" : 13]>
g (float[N,4] x, float[N,3] z) => (float l)
<float[4] a = {1, -2, 0.5, 3}, float[3] b = {0.25, -0.125, 1.5}>
{
  xa = Mul(x, a)
  zb = Mul(z, b)
  sa = ReduceSum<keepdims = 0>(xa)
  sb = ReduceSum<keepdims = 0>(zb)
  l = Add(sa, sb)
}
)";

std::unique_ptr<Session> open(passes::OptimizerOptions optimizer, DType dtype) {
  SessionOptions options;
  options.threads = 1;
  options.pipeline.dtype = dtype;
  options.pipeline.loss.loss_output = "l";
  options.pipeline.loss.mean = false;
  options.pipeline.trainable.exactly = {"a", "b"};  // products with data look like preprocessing
  options.pipeline.optimizer = std::move(optimizer);
  const std::string bytes = graph::to_onnx_bytes(*graph::parse(kModel));
  return std::make_unique<Session>(graph::Model::from_bytes(bytes), std::move(options));
}

// As in torch_optimizers.py.
std::vector<double> gradient(int64_t step, int64_t first, int64_t count) {
  std::vector<double> g;
  for (int64_t i = 0; i < count; ++i) {
    g.push_back(static_cast<double>((step * 7919 + (first + i) * 104729) % 2003 - 1001) / 256);
  }
  if (first == 0) {
    g[1] = 0;
    g[2] /= 0x1p20;
  }
  return g;
}

Batch batch_of(const std::vector<double>& x, const std::vector<double>& z) {
  Batch batch;
  batch.inputs.emplace_back("x", doubles({1, 4}, x));
  batch.inputs.emplace_back("z", doubles({1, 3}, z));
  return batch;
}

StepResult step_with(Session& session, const std::vector<double>& x, const std::vector<double>& z,
                     double lr) {
  return session.train_step(batch_of(x, z), {{1}}, lr);
}

passes::OptimizerOptions optimizer_of(const json& run) {
  passes::OptimizerOptions options;
  options.kind = run.at("kind");
  options.momentum = run.value("momentum", 0.0);
  options.dampening = run.value("dampening", 0.0);
  options.nesterov = run.value("nesterov", false);
  options.weight_decay = run.value("weight_decay", 0.0);
  options.alpha = run.value("alpha", 0.99);
  options.centered = run.value("centered", false);
  options.trust = run.value("trust", 0.001);
  const auto betas = run.value("betas", std::vector<double>{0.9, 0.999});
  options.beta1 = betas.at(0);
  options.beta2 = betas.at(1);
  options.eps = run.value("eps", 1e-8);
  options.clip_norm = run.value("clip_norm", 0.0);
  options.clip_value = run.value("clip_value", 0.0);
  options.ema = run.value("ema", 0.0);
  if (run.contains("group_lr_factor")) {
    options.groups.push_back({"b", run["group_lr_factor"], run.at("group_weight_decay")});
  }
  return options;
}

struct PeerRun {
  std::string name;
  DType dtype = DType::kFloat64;
  passes::OptimizerOptions optimizer;
  std::map<int64_t, json> states;  // by step
};

std::vector<PeerRun> runs_of(DType dtype) {
  std::vector<PeerRun> runs;
  std::ifstream file(tests::source_folder() / "tests/runtime/torch_optimizers.jsonl");
  for (std::string line; std::getline(file, line);) {
    const json record = json::parse(line);
    if (record.at("dtype") != (dtype == DType::kFloat64 ? "float64" : "float32")) continue;
    const std::string name = record.at("run");
    if (runs.empty() || runs.back().name != name) {
      runs.push_back({name, dtype, optimizer_of(record), {}});
    }
    runs.back().states[record.at("step")] = record.at("states");
  }
  return runs;
}

// The largest difference of any state from PyTorch's, relative to the size of the tensor's largest
// element.
double largest_difference(const PeerRun& run) {
  const auto session = open(run.optimizer, run.dtype);
  double largest = 0;
  for (int64_t step = 1; step <= run.states.rbegin()->first; ++step) {
    step_with(*session, gradient(step, 0, 4), gradient(step, 4, 3), step <= 100 ? 0.01 : 0.003);
    const auto kept = run.states.find(step);
    if (kept == run.states.end()) continue;
    for (const auto& [name, values] : kept->second.items()) {
      const Tensor got = session->state(name);
      const auto want = values.get<std::vector<double>>();
      double size = 0;
      for (const double value : want) size = std::max(size, std::abs(value));
      for (size_t i = 0; i < want.size(); ++i) {
        const double difference = std::abs(got.as_double(static_cast<int64_t>(i)) - want[i]);
        largest = std::max(largest, difference / size);
      }
    }
  }
  return largest;
}

TEST(Optimizer, two_hundred_steps_in_double_are_those_of_pytorch) {
  const std::vector<PeerRun> runs = runs_of(DType::kFloat64);
  EXPECT_EQ(runs.size(), 24u);
  for (const PeerRun& run : runs) EXPECT_LE(largest_difference(run), 1e-14) << run.name;
}

TEST(Optimizer, two_hundred_steps_in_float_are_those_of_pytorch_to_two_ulps) {
  // Processors without fused products and sums can't round as PyTorch's numbers were.
  const double ulps = ops::lanes::supported(ops::lanes::Isa::kAvx2) ? 2 : 16;
  const std::vector<PeerRun> runs = runs_of(DType::kFloat32);
  EXPECT_EQ(runs.size(), 24u);
  for (const PeerRun& run : runs) EXPECT_LE(largest_difference(run), ulps * 0x1p-23) << run.name;
}

TEST(Optimizer, a_step_that_is_not_finite_changes_no_state) {
  for (const char* kind : {"sgd", "adam", "adamw", "adagrad", "rmsprop", "lion", "lamb", "lars"}) {
    passes::OptimizerOptions options;
    options.kind = kind;
    options.momentum = 0.9;
    options.centered = true;
    options.weight_decay = 0.1;
    options.ema = 0.5;
    const auto session = open(options, DType::kFloat32);
    step_with(*session, {1, 2, 3, 4}, {5, 6, 7}, 0.1);
    std::map<std::string, Tensor> before;
    for (const std::string& name : session->state_names()) before[name] = session->state(name);
    EXPECT_EQ(before.at("optimizer/step").as_double(0), 1);
    EXPECT_NE(error_of([&] { step_with(*session, {1, 2, NAN, 4}, {5, 6, 7}, 0.1); }), "no error");
    for (const auto& [name, value] : before) {
      EXPECT_TRUE(session->state(name).identical(value)) << kind << ": " << name;
    }
    step_with(*session, {1, 2, 3, 4}, {5, 6, 7}, 0.1);
    EXPECT_EQ(session->state("optimizer/step").as_double(0), 2);
  }
}

// The loss is a mean with class weights, all of them so small that 1 / weight is no float.
TEST(Optimizer, a_step_whose_weight_can_not_be_divided_by_is_skipped_whole) {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[N,3] x, int64[N] t) => (float l) <float[3] a = {0, 0, 0}, float[3] c = {...}> {
  y = Add(x, a)
  l = SoftmaxCrossEntropyLoss(y, t, c)
})");
  graph->find("c")->data = test::floats({3}, {1e-41f, 1e-41f, 1e-41f});
  SessionOptions options;
  options.pipeline.loss.loss_output = "l";
  options.pipeline.trainable.exactly = {"a"};
  options.pipeline.optimizer.momentum = 0.9;
  options.pipeline.optimizer.ema = 0.5;
  Session session(graph::Model::from_bytes(graph::to_onnx_bytes(*graph)), options);
  Batch batch;
  batch.inputs.emplace_back("x", test::floats({2, 3}, {0, 0, 0, 0, 0, 0}));
  batch.inputs.emplace_back("t", test::ints({2}, {0, 1}));
  const StepResult result = session.train_step(batch, {{2}}, 0.1, NonFinite::kSkip);
  EXPECT_TRUE(result.skipped);
  EXPECT_TRUE(std::isfinite(result.loss_sum));
  for (const char* name : {"a", "momentum/a", "ema/a"}) {
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(session.state(name).as_double(i), 0) << name;
  }
  EXPECT_EQ(session.state("optimizer/step").as_double(0), 0);
  const std::string error = error_of([&] { session.train_step(batch, {{2}}, 0.1); });
  EXPECT_NE(error.find("by the weight of the loss, is not finite (inf)"), std::string::npos)
      << error;
  EXPECT_EQ(session.state("a").as_double(0), 0);
}

TEST(Optimizer, the_norm_that_is_reported_is_that_before_clipping) {
  passes::OptimizerOptions options;
  options.clip_norm = 1;
  const auto session = open(options, DType::kFloat64);
  const StepResult result = step_with(*session, {2, 0, 0, 0}, {1, 2, 0}, 0.5);
  EXPECT_NEAR(result.grad_norm, 3, 1e-12);
  // 2 / (3 + 1e-6) * 0.5
  EXPECT_NEAR(session->state("a").as_double(0), 1 - 1 / 3.000001, 1e-12);
}

TEST(Optimizer, evaluation_reads_the_averages) {
  passes::OptimizerOptions options;
  options.ema = 0.75;
  const auto session = open(options, DType::kFloat64);
  const auto output = [&](passes::Mode mode) {
    return session->forward(batch_of({1, 1, 1, 1}, {0, 0, 0}), mode).at(0).second.as_double(0);
  };
  EXPECT_NEAR(output(passes::Mode::kEval), 2.5, 1e-12);
  step_with(*session, {1, 0, 0, 0}, {0, 0, 0}, 1);
  EXPECT_NEAR(output(passes::Mode::kTrain), 1.5, 1e-12);
  EXPECT_NEAR(output(passes::Mode::kEval), 2.25, 1e-12);
  EXPECT_NEAR(session->state("ema/a").as_double(0), 0.75, 1e-12);
}

TEST(Optimizer, saves_the_averages_or_the_weights_themselves) {
  passes::OptimizerOptions options;
  options.ema = 0.75;
  const auto session = open(options, DType::kFloat32);
  step_with(*session, {1, 0, 0, 0}, {0, 0, 0}, 1);
  const auto path = std::filesystem::temp_directory_path() /
                    ("optimizer_test." + std::to_string(getpid()) + ".onnx");
  const auto saved = [&](SavedWeights weights) {
    session->save(path, {.weights = weights});
    SessionOptions plain;
    plain.pipeline.loss.loss_output = "l";
    const auto file = Session::open(path, plain);
    std::filesystem::remove(path);
    return file->imported().find("a")->data.as_double(0);
  };
  EXPECT_EQ(saved(SavedWeights::kAverages), 0.75);
  EXPECT_EQ(saved(SavedWeights::kLast), 0.0);
}

TEST(Optimizer, micro_batches_share_one_update_of_moments_and_averages) {
  passes::OptimizerOptions options;
  options.kind = "adamw";
  options.weight_decay = 0.1;
  options.ema = 0.5;
  options.clip_norm = 2;
  std::vector<double> states[2];
  for (const bool cut : {false, true}) {
    const auto session = open(options, DType::kFloat64);
    Batch batch;
    batch.inputs.emplace_back("x", doubles({2, 4}, {1, 2, 3, 4, -3, 0, 5, 1}));
    batch.inputs.emplace_back("z", doubles({2, 3}, {1, 0, 2, 2, 2, 1}));
    for (int i = 0; i < 3; ++i) session->train_step(batch, cut ? Cut{{1, 1}} : Cut{{2}}, 0.1);
    for (const char* name : {"a", "b", "adam/m/a", "adam/v/b", "ema/a", "optimizer/step"}) {
      for (const double value : session->state(name).to_doubles()) states[cut].push_back(value);
    }
  }
  ASSERT_EQ(states[0].size(), states[1].size());
  for (size_t i = 0; i < states[0].size(); ++i) EXPECT_NEAR(states[0][i], states[1][i], 1e-12) << i;
}

}  // namespace
}  // namespace sardonyx::runtime
