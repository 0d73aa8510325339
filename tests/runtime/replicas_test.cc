// Training on several replicas: the step is that of the whole batch, however it is cut; replicas
// stay bit-identical; a replica that fails stops the others and changes nothing.
#include "runtime/replicas.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "graph/support/error.h"
#include "runtime/data/batch_cut.h"
#include "runtime/session.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;

constexpr int64_t kIgnored = -100;
constexpr int kSteps = 4;
constexpr int64_t kClasses = 5;

// Two layers with Dropout in between; the seed of the Dropout is that of the session.
const char* const kModel = R"(<ir_version: 8, opset_import: ["" : 13]>
net (float[N,7] x) => (float[N,5] y)
<float[7,16] w1 = {...}, float[16] b1 = {...}, float[16,5] w2 = {...}, float[5] b2 = {...}> {
  ratio = Constant<value = float[] {0.4}>()
  training = Constant<value = bool[] {1}>()
  a = Gemm(x, w1, b1)
  h = Relu(a)
  d = Dropout(h, ratio, training)
  y = Gemm(d, w2, b2)
})";

// The same with the loss in the file: class weights, labels that don't count.
const char* const kWithLoss = R"(<ir_version: 8, opset_import: ["" : 13]>
net (float[N,7] x, int64[N] t) => (float[] loss)
<float[7,16] w1 = {...}, float[16] b1 = {...}, float[16,5] w2 = {...}, float[5] b2 = {...},
 float[5] c = {...}> {
  ratio = Constant<value = float[] {0.4}>()
  training = Constant<value = bool[] {1}>()
  a = Gemm(x, w1, b1)
  h = Relu(a)
  d = Dropout(h, ratio, training)
  y = Gemm(d, w2, b2)
  loss = SoftmaxCrossEntropyLoss<ignore_index = -100>(y, t, c)
})";

// Gradients that are complete in another order than they can be added up in: of a bias that is
// added, of weights that are scaled, transposed and used twice.
const char* const kHard = R"(<ir_version: 8, opset_import: ["" : 13]>
net (float[N,2,6,6] x) => (float[N,5] y)
<float[4,2,3,3] w1 = {...}, float[4,1,1] b1 = {...}, float[64,64] w2 = {...}, float[64,1] g = {...},
 float[64,5] w3 = {...}, float[5] b2 = {...}> {
  a = Conv(x, w1)
  h = Add(a, b1)
  r = Relu(h)
  f = Flatten(r)
  m = Mul(w2, g)
  t = Transpose<perm = [1, 0]>(w2)
  u = MatMul(f, m)
  v = MatMul(u, t)
  y = Gemm(v, w3, b2)
})";

std::shared_ptr<const graph::Model> model(const char* text) {
  const auto graph = graph::parse(text);
  std::mt19937_64 random(11);
  for (graph::Value& value : graph->values()) {
    if (!value.is_constant()) continue;
    Tensor data(DType::kFloat32, value.type.shape());
    const bool weights_of_classes = value.name == "c";
    for (float& x : data.mutable_data<float>()) {
      x = static_cast<float>(random() >> 40) * 0x1p-24f - 0.5f;
      if (weights_of_classes) x = 1.0f + 0.9f * x;
      if (value.type.numel() > 1024) x *= 0.1f;
    }
    value.data = data;
  }
  return graph::Model::from_bytes(graph::to_onnx_bytes(*graph));
}

// The first third of the labels doesn't count for kSomeIgnored: then the weights of pieces differ.
enum class Labels : uint8_t { kAllCount, kSomeIgnored };

Batch batch_of(const std::vector<int64_t>& sample, int64_t rows, uint64_t seed, Labels kind) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> shape = sample;
  shape.insert(shape.begin(), rows);
  std::vector<float> x(static_cast<size_t>(
      graph::TensorType(DType::kFloat32, {shape.begin(), shape.end()}).numel()));
  for (float& value : x) value = static_cast<float>(random() >> 40) * 0x1p-23f - 1.0f;
  std::vector<int64_t> labels(static_cast<size_t>(rows));
  for (int64_t& label : labels) label = static_cast<int64_t>(random() % kClasses);
  for (int64_t i = 0; kind == Labels::kSomeIgnored && i < rows / 3; ++i) {
    labels[static_cast<size_t>(i)] = kIgnored;
  }
  Batch batch;
  batch.inputs.emplace_back("x", Tensor::of<float>(shape, x));
  batch.labels = Tensor::of<int64_t>({rows}, labels);
  return batch;
}

passes::OptimizerOptions sgd() {
  passes::OptimizerOptions options;
  options.momentum = 0.9;
  options.weight_decay = 1e-3;
  return options;
}

struct Kind {
  const char* text = kModel;
  DType dtype = DType::kFloat64;
  Labels labels = Labels::kAllCount;
  int threads = 0;
  int64_t block = -1;
  passes::ReduceOptions reduce = {};
  passes::OptimizerOptions optimizer = sgd();
};

std::unique_ptr<Session> open(const Kind& setup, size_t replicas) {
  SessionOptions options;
  options.devices.assign(replicas, "cpu");
  options.threads = setup.threads;
  options.seed = 3;
  options.pipeline.dtype = setup.dtype;
  options.pipeline.optimizer = setup.optimizer;
  options.pipeline.reduce = setup.reduce;
  options.pipeline.block = setup.block;
  if (setup.text == kWithLoss) {
    options.pipeline.loss.loss_output = "loss";
  } else {
    options.pipeline.loss.ignore_index = kIgnored;
  }
  options.pipeline.trainable.exactly = {"w1", "b1", "w2", "b2"};
  if (setup.text == kHard) options.pipeline.trainable.exactly = {"w1", "b1", "w2", "g", "w3", "b2"};
  return std::make_unique<Session>(model(setup.text), options);
}

Batch fed(const Kind& setup, int64_t rows, uint64_t seed) {
  const std::vector<int64_t> sample =
      setup.text == kHard ? std::vector<int64_t>{2, 6, 6} : std::vector<int64_t>{7};
  Batch batch = batch_of(sample, rows, seed, setup.labels);
  if (setup.text == kWithLoss) batch.inputs.emplace_back("t", batch.labels);
  return batch;
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, Tensor> states;
};

Trained train(const Kind& setup, int64_t rows, const CutOptions& options) {
  const auto session = open(setup, static_cast<size_t>(options.replicas));
  const Cut cut = cut_batch(rows, options);
  Trained run;
  for (int step = 0; step < kSteps; ++step) {
    const StepResult result =
        session->train_step(fed(setup, rows, static_cast<uint64_t>(step)), cut, 0.1);
    run.losses.push_back(result.loss);
    EXPECT_EQ(session->replica_difference(), "");
  }
  for (const SavedState& state : session->saved_states()) {
    run.states[state.name] = session->state(state.name);
  }
  return run;
}

void expect_equal_steps(const Trained& whole, const Trained& cut, double tolerance,
                        const std::string& what) {
  for (size_t i = 0; i < whole.losses.size(); ++i) {
    EXPECT_NEAR(cut.losses[i], whole.losses[i], tolerance * std::abs(whole.losses[i])) << what;
  }
  ASSERT_EQ(whole.states.size(), cut.states.size());
  for (const auto& [name, value] : whole.states) {
    double scale = 1e-30, difference = 0;
    for (int64_t i = 0; i < value.numel(); ++i) {
      scale = std::max(scale, std::abs(value.as_double(i)));
      difference =
          std::max(difference, std::abs(value.as_double(i) - cut.states.at(name).as_double(i)));
    }
    EXPECT_LE(difference, tolerance * scale) << name << ", " << what;
  }
}

void expect_grid(const Kind& setup, double tolerance) {
  for (const int64_t rows : {60, 61}) {
    const Trained whole = train(setup, rows, {});
    EXPECT_GT(whole.losses[0], 0.5);
    EXPECT_NE(whole.losses[0], whole.losses[kSteps - 1]);
    for (const int64_t replicas : {1, 2, 3, 4}) {
      for (const int64_t accumulate : {1, 2, 3, 4}) {
        CutOptions cut;
        cut.replicas = replicas;
        cut.accumulate = accumulate;
        expect_equal_steps(
            whole, train(setup, rows, cut), tolerance,
            fmt::format("{} rows, {} replicas, {} pieces", rows, replicas, accumulate));
      }
    }
  }
}

// Cuts that make replicas run different plans in one step.
void expect_uneven_cuts(const Kind& setup, double tolerance) {
  const Trained whole = train(setup, 61, {});
  for (const std::vector<double>& shares :
       {std::vector<double>{3, 1}, {1, 0}, {0, 1}, {1, 3}, {2, 1}, {0, 0, 1}, {1, 0, 2, 0}}) {
    for (const int64_t micro_batch : {61, 20, 16, 10, 1}) {
      CutOptions cut;
      cut.replicas = static_cast<int64_t>(shares.size());
      cut.shares = shares;
      cut.micro_batch = micro_batch;
      expect_equal_steps(
          whole, train(setup, 61, cut), tolerance,
          fmt::format("shares {}, pieces of {}", fmt::join(shares, ","), micro_batch));
    }
  }
}

// A bucket for each gradient, in the order in which they are complete.
passes::ReduceOptions a_bucket_each() {
  passes::ReduceOptions reduce;
  reduce.first_bucket_bytes = reduce.bucket_bytes = 1;
  return reduce;
}

TEST(Replicas, any_cut_gives_the_step_of_the_whole_batch_in_double) { expect_grid({}, 1e-12); }

TEST(Replicas, any_cut_gives_the_step_of_the_whole_batch_in_float) {
  Kind setup;
  setup.dtype = DType::kFloat32;
  expect_grid(setup, 1e-5);
}

TEST(Replicas, moments_averages_and_clipping_are_those_of_the_whole_batch) {
  Kind setup;
  setup.optimizer.kind = "adamw";
  setup.optimizer.weight_decay = 0.1;
  setup.optimizer.clip_norm = 0.1;
  setup.optimizer.ema = 0.9;
  setup.optimizer.groups = {{.glob = "b*", .lr_factor = 0.5, .weight_decay = 0.0}};
  expect_grid(setup, 1e-12);
  setup.dtype = DType::kFloat32;
  expect_grid(setup, 1e-5);
  setup.dtype = DType::kFloat64;
  setup.optimizer.clip_norm = 0;
  setup.optimizer.clip_value = 0.01;
  expect_grid(setup, 1e-12);
}

TEST(Replicas, replicas_that_run_different_plans_meet_in_the_same_sums) {
  Kind setup;
  setup.text = kHard;
  setup.reduce = a_bucket_each();
  for (const int64_t block : {-1, 0, 16}) {
    setup.block = block;
    expect_uneven_cuts(setup, 1e-12);
  }
  // Adam divides by the root of small second moments, which enlarges the rounding of a gradient.
  setup.optimizer.kind = "adamw";
  setup.optimizer.clip_norm = 0.1;
  expect_uneven_cuts(setup, 1e-11);
  expect_grid(setup, 1e-11);
  setup.dtype = DType::kFloat32;
  expect_uneven_cuts(setup, 1e-4);
}

TEST(Replicas, labels_that_do_not_count_may_lie_unevenly_over_the_cut) {
  Kind setup;
  setup.labels = Labels::kSomeIgnored;
  expect_grid(setup, 1e-12);
}

TEST(Replicas, class_weights_in_the_file_s_own_loss_may_lie_unevenly_over_the_cut) {
  Kind setup;
  setup.text = kWithLoss;
  setup.labels = Labels::kSomeIgnored;
  expect_grid(setup, 1e-12);
}

TEST(Replicas, shares_change_the_cut_and_not_the_step) { expect_uneven_cuts({}, 1e-12); }

TEST(Replicas, more_replicas_than_samples_is_no_error) {
  const Trained whole = train({}, 2, {});
  CutOptions cut;
  cut.replicas = 4;
  expect_equal_steps(whole, train({}, 2, cut), 1e-12, "2 rows on 4 replicas");
}

TEST(Replicas, small_buckets_give_the_same_step) {
  Kind setup;
  setup.reduce.first_bucket_bytes = 64;
  setup.reduce.bucket_bytes = 256;
  CutOptions cut;
  cut.replicas = 3;
  cut.accumulate = 2;
  expect_equal_steps(train({}, 61, {}), train(setup, 61, cut), 1e-12, "small buckets");
}

TEST(Replicas, the_same_calls_give_the_same_bits) {
  for (const int threads : {0, 3, 6}) {
    Kind setup;
    setup.dtype = DType::kFloat32;
    setup.threads = threads;
    CutOptions cut;
    cut.replicas = 3;
    cut.accumulate = 2;
    const Trained a = train(setup, 61, cut), b = train(setup, 61, cut);
    EXPECT_EQ(a.losses, b.losses);
    for (const auto& [name, value] : a.states) EXPECT_TRUE(value.identical(b.states.at(name)));
  }
}

TEST(Replicas, a_bfloat16_sum_is_close_and_the_counts_stay_exact) {
  Kind setup;
  setup.dtype = DType::kFloat32;
  const Trained exact = train(setup, 60, {});
  for (const passes::ReduceOptions& buckets : {passes::ReduceOptions(), a_bucket_each()}) {
    setup.reduce = buckets;
    setup.reduce.wire = DType::kBFloat16;
    for (const std::vector<double>& shares : {std::vector<double>{1, 1}, {3, 1}, {1, 0}, {0, 1}}) {
      for (const int64_t micro_batch : {60, 20}) {
        CutOptions cut;
        cut.replicas = 2;
        cut.shares = shares;
        cut.micro_batch = micro_batch;
        const Trained rounded = train(setup, 60, cut);
        // The first loss is that of the first parameters: no rounding has happened yet.
        EXPECT_NEAR(rounded.losses[0], exact.losses[0], 1e-6 * exact.losses[0]);
        expect_equal_steps(exact, rounded, 2e-2, "bfloat16");
        EXPECT_FALSE(exact.states.at("w1").identical(rounded.states.at("w1")));
      }
    }
  }
}

TEST(Replicas, evaluation_counts_every_sample_once) {
  const auto one = open({}, 1);
  for (const size_t replicas : {2, 3}) {
    const auto session = open({}, replicas);
    for (const int64_t chunk : {1, 7, 20, 61}) {
      const Batch batch = fed({}, 61, 5);
      const EvalResult expected = one->evaluate(batch, 61), found = session->evaluate(batch, chunk);
      EXPECT_EQ(found.rows, 61);
      EXPECT_EQ(found.weight, 61.0);
      EXPECT_EQ(found.correct, expected.correct);
      EXPECT_NEAR(found.loss_sum, expected.loss_sum, 1e-12 * expected.loss_sum);
    }
  }
}

std::map<std::string, Tensor> states_of(const Session& session) {
  std::map<std::string, Tensor> states;
  for (const SavedState& state : session.saved_states()) {
    states[state.name] = session.state(state.name);
  }
  return states;
}

void expect_failed_step(Session& session, const Batch& bad, const Cut& cut,
                        const std::string& message) {
  const auto before = states_of(session);
  const int64_t steps = session.steps();
  try {
    session.train_step(bad, cut, 0.1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
  EXPECT_EQ(session.steps(), steps);
  for (const auto& [name, value] : before) EXPECT_TRUE(value.identical(session.state(name)));
  EXPECT_EQ(session.replica_difference(), "");
}

TEST(Replicas, a_replica_that_fails_stops_the_others_and_changes_nothing) {
  const auto session = open({}, 3);
  const Cut cut = cut_batch(60, {.replicas = 3, .accumulate = 2});
  session->train_step(fed({}, 60, 1), cut, 0.1);
  for (const int64_t row : {0, 25, 45, 59}) {  // of each replica, and of a second micro-batch
    Batch bad = fed({}, 60, 2);
    bad.labels.mutable_data<int64_t>()[static_cast<size_t>(row)] = 77;
    expect_failed_step(*session, bad, cut, fmt::format("running replica {}", row / 20));
  }
  EXPECT_GT(session->train_step(fed({}, 60, 2), cut, 0.1).loss, 0.0);
}

TEST(Replicas, the_replica_and_micro_batch_with_the_bad_value_are_named) {
  const auto session = open({}, 2);
  const Cut cut = cut_batch(60, {.replicas = 2, .accumulate = 3});
  session->train_step(fed({}, 60, 1), cut, 0.1);
  Batch bad = fed({}, 60, 2);
  bad.inputs[0].second.mutable_data<float>()[45 * 7] = std::nanf("");
  expect_failed_step(
      *session, bad, cut,
      "sample 45 of the batch holds nan for input 'x' (replica 1, micro-batch 2 of 3)");
  // Where the rows stand in the data set is known to who loads them.
  for (int64_t row = 0; row < 60; ++row) bad.samples.push_back(1000 - row);
  expect_failed_step(*session, bad, cut,
                     "sample 955 of the data set (from 0) holds nan for input 'x'");
}

TEST(Replicas, a_cut_for_another_number_of_replicas_is_refused) {
  const auto session = open({}, 2);
  expect_failed_step(*session, fed({}, 60, 2), {{60}},
                     "the session has 2 replicas, the batch is cut for 1");
}

TEST(Replicas, every_replica_needs_a_thread) {
  Kind setup;
  setup.threads = 2;
  EXPECT_THROW(open(setup, 3), Error);
  EXPECT_EQ(open(setup, 2)->threads(), 2);
}

TEST(Replicas, without_the_sums_in_the_graph_replicas_drift_apart) {
  SessionOptions options;
  options.devices = {"cpu", "cpu"};
  options.pipeline.skip = {"insert_all_reduce"};
  options.pipeline.trainable.exactly = {"w1", "b1", "w2", "b2"};
  Session session(model(kModel), options);
  session.train_step(fed({}, 60, 1), cut_batch(60, {.replicas = 2}), 0.1);
  const std::string difference = session.replica_difference();
  EXPECT_TRUE(difference.starts_with("'w1' differs: element 0 is ")) << difference;
}

}  // namespace
}  // namespace sardonyx::runtime
