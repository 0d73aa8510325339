// Training through BatchNormalization: every micro-batch has its own statistics, replicas average
// what their micro-batches moved, a refused step moves nothing. Against a step worked out by hand
// in double: y = BN(x w), cross-entropy, SGD.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <random>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "graph/support/error.h"
#include "runtime/data/batch_cut.h"
#include "runtime/session.h"
#include "runtime/trainer.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;
using sardonyx::testing::error_of;

constexpr int kFeatures = 7, kClasses = 5;
constexpr double kRate = 0.3;
constexpr double kEpsilon = 1e-3f, kMomentum = 0.8f;  // as the file has them

const char* const kModel = R"(<ir_version: 8, opset_import: ["" : 15]>
net (float[N,7] x) => (float[N,5] y)
<float[7,5] w = {...}, float[5] s = {...}, float[5] b = {...}, float[5] m = {...}, float[5] v = {...}> {
  a = MatMul(x, w)
  y = BatchNormalization<epsilon = 0.001, momentum = 0.8>(a, s, b, m, v)
})";

std::shared_ptr<const graph::Model> model(const char* text = kModel) {
  const auto graph = graph::parse(text);
  std::mt19937_64 random(5);
  for (graph::Value& value : graph->values()) {
    if (!value.is_constant()) continue;
    Tensor data(DType::kFloat32, value.type.shape());
    for (float& x : data.mutable_data<float>()) {
      x = static_cast<float>(random() >> 40) * 0x1p-24f + 0.25f;
    }
    value.data = data;
  }
  return graph::Model::from_bytes(graph::to_onnx_bytes(*graph));
}

Batch batch_of(int64_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> x(static_cast<size_t>(rows * kFeatures));
  for (float& value : x) value = static_cast<float>(random() >> 40) * 0x1p-22f - 1.0f;
  std::vector<int64_t> labels(static_cast<size_t>(rows));
  for (int64_t& label : labels) label = static_cast<int64_t>(random() % kClasses);
  Batch batch;
  batch.inputs.emplace_back("x", Tensor::of<float>({rows, kFeatures}, x));
  batch.labels = Tensor::of<int64_t>({rows}, labels);
  return batch;
}

SessionOptions options_of(size_t replicas, DType dtype = DType::kFloat64) {
  SessionOptions options;
  options.devices.assign(replicas, "cpu");
  options.threads = static_cast<int>(replicas);
  options.pipeline.dtype = dtype;
  return options;
}

// --- the step by hand

using Vector = std::vector<double>;

struct ByHand {
  Vector w, s, b, m, v;
  bool sample_variance = false;

  static ByHand of(const std::shared_ptr<const graph::Model>& model) {
    const auto file = graph::import_model(model);
    const auto read = [&](const char* name) { return file.graph->find(name)->data.to_doubles(); };
    return {read("w"), read("s"), read("b"), read("m"), read("v")};
  }

  // The loss before the step.
  double step(const Batch& batch, const Cut& cut) {
    Vector dw(w.size(), 0), ds(kClasses, 0), db(kClasses, 0), mean_sum(kClasses, 0),
        var_sum(kClasses, 0);
    double loss = 0, replicas = 0;
    int64_t row = 0;
    for (const auto& own : cut) {
      Vector mean = m, var = v;
      for (const int64_t rows : own) {
        loss += micro_batch(batch, row, rows, mean, var, dw, ds, db);
        row += rows;
      }
      if (own.empty()) continue;
      replicas += 1;
      for (int c = 0; c < kClasses; ++c) {
        mean_sum[c] += mean[c];
        var_sum[c] += var[c];
      }
    }
    const auto rows = static_cast<double>(row);
    for (size_t i = 0; i < w.size(); ++i) w[i] -= kRate * dw[i] / rows;
    for (int c = 0; c < kClasses; ++c) {
      s[c] -= kRate * ds[c] / rows;
      b[c] -= kRate * db[c] / rows;
      m[c] = mean_sum[c] / replicas;
      v[c] = var_sum[c] / replicas;
    }
    return loss / rows;
  }

 private:
  double micro_batch(const Batch& batch, int64_t first, int64_t rows, Vector& mean, Vector& var,
                     Vector& dw, Vector& ds, Vector& db) const {
    const auto x = [&](int64_t r, int f) {
      return batch.inputs[0].second.as_double((first + r) * kFeatures + f);
    };
    const auto n = static_cast<double>(rows);
    const auto at = [](int64_t r, int c) { return static_cast<size_t>(r * kClasses + c); };
    Vector a(static_cast<size_t>(rows * kClasses), 0), hat(a.size()), dy(a.size());
    Vector inverse(kClasses);
    for (int c = 0; c < kClasses; ++c) {
      double sum = 0, square = 0;
      for (int64_t r = 0; r < rows; ++r) {
        for (int f = 0; f < kFeatures; ++f) {
          a[at(r, c)] += x(r, f) * w[static_cast<size_t>(f * kClasses + c)];
        }
        sum += a[at(r, c)];
      }
      const double mu = sum / n;
      for (int64_t r = 0; r < rows; ++r) square += std::pow(a[at(r, c)] - mu, 2);
      inverse[c] = 1 / std::sqrt(square / n + kEpsilon);
      for (int64_t r = 0; r < rows; ++r) hat[at(r, c)] = (a[at(r, c)] - mu) * inverse[c];
      mean[c] = kMomentum * mean[c] + (1 - kMomentum) * mu;
      var[c] = kMomentum * var[c] + (1 - kMomentum) * square / (sample_variance ? n - 1 : n);
    }
    double loss = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t label = batch.labels.as_int(first + r);
      double total = 0;
      for (int c = 0; c < kClasses; ++c) total += std::exp(hat[at(r, c)] * s[c] + b[c]);
      for (int c = 0; c < kClasses; ++c) {
        const double y = hat[at(r, c)] * s[c] + b[c];
        dy[at(r, c)] = std::exp(y) / total - (c == label ? 1 : 0);
        if (c == label) loss += std::log(total) - y;
      }
    }
    for (int c = 0; c < kClasses; ++c) {
      double bias = 0, scale = 0;
      for (int64_t r = 0; r < rows; ++r) {
        bias += dy[at(r, c)];
        scale += dy[at(r, c)] * hat[at(r, c)];
      }
      db[c] += bias;
      ds[c] += scale;
      for (int64_t r = 0; r < rows; ++r) {
        const double da = s[c] * inverse[c] * (dy[at(r, c)] - bias / n - hat[at(r, c)] * scale / n);
        for (int f = 0; f < kFeatures; ++f) {
          dw[static_cast<size_t>(f * kClasses + c)] += x(r, f) * da;
        }
      }
    }
    return loss;
  }
};

void expect_near(const Session& session, const std::string& name, const Vector& want,
                 double tolerance) {
  const Vector got = session.state(name).to_doubles();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << name << " " << i;
  }
}

void expect_by_hand(SessionOptions options, const Cut& cut, double tolerance) {
  const auto file = model();
  ByHand by_hand = ByHand::of(file);
  by_hand.sample_variance = options.pipeline.sample_variance;
  Session session(file, std::move(options));
  for (uint64_t step = 0; step < 3; ++step) {
    const Batch batch = batch_of(rows_in(cut), step);
    const double loss = by_hand.step(batch, cut);
    EXPECT_NEAR(session.train_step(batch, cut, kRate).loss, loss, tolerance);
    EXPECT_EQ(session.replica_difference(), "");
  }
  expect_near(session, "w", by_hand.w, tolerance);
  expect_near(session, "s", by_hand.s, tolerance);
  expect_near(session, "b", by_hand.b, tolerance);
  expect_near(session, "m", by_hand.m, tolerance);
  expect_near(session, "v", by_hand.v, tolerance);
}

TEST(BatchNormTraining, any_cut_gives_the_step_by_hand) {
  for (const int64_t replicas : {1, 2, 3}) {
    for (const int64_t accumulate : {1, 2, 3, 4}) {
      CutOptions cut;
      cut.replicas = replicas;
      cut.accumulate = accumulate;
      SCOPED_TRACE(fmt::format("{} replicas, {} micro-batches", replicas, accumulate));
      const auto n = static_cast<size_t>(replicas);
      expect_by_hand(options_of(n), cut_batch(61, cut), 1e-12);
      expect_by_hand(options_of(n, DType::kFloat32), cut_batch(61, cut), 2e-5);
    }
  }
}

TEST(BatchNormTraining, only_replicas_with_samples_count_in_the_average) {
  for (const Cut& cut : {Cut{{20}, {}}, {{}, {9, 11}}, {{7, 5}, {}, {9}}, {{3}, {2, 2, 8}}}) {
    expect_by_hand(options_of(cut.size()), cut, 1e-12);
  }
}

TEST(BatchNormTraining, blocks_and_lanes_give_the_step_by_hand) {
  for (const int64_t block : {16, 32}) {
    for (const int64_t lanes : {0, 16}) {
      for (const Cut& cut : {Cut{{61}}, {{40, 21}}, {{33}, {17, 19}}}) {
        SessionOptions options = options_of(cut.size());
        options.threads *= 2;
        options.pipeline.block = block;
        options.pipeline.lanes = lanes;
        expect_by_hand(options, cut, 1e-12);
      }
    }
  }
}

TEST(BatchNormTraining, small_buckets_and_the_sample_variance_change_nothing_else) {
  SessionOptions options = options_of(2);
  options.pipeline.reduce.first_bucket_bytes = options.pipeline.reduce.bucket_bytes = 1;
  expect_by_hand(options, {{10, 9}, {12}}, 1e-12);
  options.pipeline.sample_variance = true;
  expect_by_hand(options, {{10, 9}, {12}}, 1e-12);
}

std::map<std::string, Tensor> saved_values(const Session& session) {
  std::map<std::string, Tensor> values;
  for (const SavedState& state : session.saved_states()) {
    values[state.name] = session.state(state.name);
  }
  return values;
}

void expect_identical(const std::map<std::string, Tensor>& a,
                      const std::map<std::string, Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) EXPECT_TRUE(value.identical(b.at(name))) << name;
}

TEST(BatchNormTraining, a_refused_step_moves_no_statistic_on_any_replica) {
  for (const Cut& cut : {Cut{{20}}, {{8, 12}}, {{10}, {10}}, {{4, 6}, {10}}, {{20}, {}}}) {
    Session session(model(), options_of(cut.size()));
    session.train_step(batch_of(20, 1), cut, kRate);
    const auto before = saved_values(session);
    Batch bad = batch_of(20, 2);
    bad.inputs[0].second.mutable_data<float>()[0] = std::numeric_limits<float>::infinity();
    EXPECT_TRUE(session.train_step(bad, cut, kRate, NonFinite::kSkip).skipped);
    expect_identical(saved_values(session), before);
    EXPECT_THROW(session.train_step(bad, cut, kRate), Error);
    expect_identical(saved_values(session), before);
    EXPECT_EQ(session.replica_difference(), "");
    session.train_step(batch_of(20, 3), cut, kRate);
    EXPECT_EQ(session.replica_difference(), "");
    EXPECT_FALSE(session.state("m").identical(before.at("m")));
  }
}

TEST(BatchNormTraining, a_resumed_run_has_the_same_bits) {
  const Cut cut = {{8, 12}, {11}};
  Session whole(model(), options_of(2, DType::kFloat32));
  for (uint64_t i = 0; i < 2; ++i) whole.train_step(batch_of(31, i), cut, kRate);
  std::vector<std::pair<std::string, Tensor>> values;
  for (const auto& [name, value] : saved_values(whole)) values.emplace_back(name, value);
  Session resumed(model(), options_of(2, DType::kFloat32));
  resumed.prepare_training({cut});
  resumed.restore(values, 2);
  whole.train_step(batch_of(31, 2), cut, kRate);
  resumed.train_step(batch_of(31, 2), cut, kRate);
  expect_identical(saved_values(whole), saved_values(resumed));
}

TEST(BatchNormTraining, a_forward_pass_moves_nothing_and_gradients_move_all_replicas) {
  Session session(model(), options_of(2));
  const Batch batch = batch_of(6, 1);
  session.prepare_training({{{3}, {3}}});
  const auto before = saved_values(session);
  session.forward(batch, passes::Mode::kTrain);
  expect_identical(saved_values(session), before);
  const Tensor seed(DType::kFloat64, {6, kClasses});
  session.gradients(batch, {{"y", seed}}, {"x"}, passes::Mode::kTrain);
  EXPECT_FALSE(session.state("m").identical(before.at("m")));
  EXPECT_EQ(session.replica_difference(), "");
  const auto moved = saved_values(session);
  session.gradients(batch, {{"y", seed}}, {"x"}, passes::Mode::kEval);
  expect_identical(saved_values(session), moved);
}

TEST(BatchNormTraining, a_frozen_layer_keeps_and_uses_its_statistics) {
  SessionOptions options = options_of(1);
  options.pipeline.trainable.freeze = {"s", "b"};
  Session session(model(), options);
  const Batch batch = batch_of(12, 1);
  const double evaluated = session.evaluate(batch, 12).loss_sum;
  EXPECT_NEAR(session.train_step(batch, {{12}}, kRate).loss_sum, evaluated, 1e-12);
  const auto by_hand = ByHand::of(model());
  for (const auto& [name, want] : {std::pair{"m", by_hand.m}, {"v", by_hand.v}}) {
    EXPECT_EQ(session.state(name).to_doubles(), want);
  }
  options.pipeline.trainable.freeze = {"s"};
  Session scale_only(model(), options);
  scale_only.train_step(batch, {{12}}, kRate);
  EXPECT_NE(scale_only.state("m").to_doubles(), by_hand.m);
}

TEST(BatchNormTraining, one_value_per_channel_is_refused_before_the_first_step) {
  Session session(model(), options_of(1));
  const std::string message = error_of([&] { session.prepare_training({{{4, 1}}}); });
  EXPECT_NE(message.find("one value per channel"), std::string::npos) << message;
  EXPECT_NE(message.find("train with micro-batches of at least 2"), std::string::npos) << message;
}

TEST(BatchNormTraining, the_trainer_lets_a_single_sample_join_the_micro_batch_before) {
  const std::string line =
      "a micro-batch of one sample joins the one before it: BatchNormalization can't take it alone";
  for (const auto& [samples, steps, joins] :
       {std::tuple{13, 2, true}, std::tuple{12, 2, false}, std::tuple{14, 3, false}}) {
    Flags flags;
    flags.data = fmt::format("synthetic:{}", samples);
    flags.batch = 6;
    flags.micro_batch = 3;
    flags.threads = 1;
    Session session(model(), session_options(flags));
    const Feed feed = find_feed(session, flags);
    const FedData data = open_data(session, feed, flags, 3, DataUse::kTraining);
    Trainer trainer(session, feed, data, trainer_options(flags, feed.baked_rows()));
    EXPECT_EQ(std::ranges::count(session.notices(), line), joins ? 1 : 0) << samples;
    EXPECT_EQ(trainer.run({}, [] { return false; }).step, steps) << samples;
  }
}

TEST(BatchNormTraining, with_respect_the_file_decides_node_by_node) {
  SessionOptions options = options_of(1);
  options.pipeline.respect_training_mode = true;
  Session session(model(), options);
  const Batch batch = batch_of(12, 1);
  const double evaluated = session.evaluate(batch, 12).loss_sum;
  EXPECT_NEAR(session.train_step(batch, {{12}}, kRate).loss_sum, evaluated, 1e-12);
  EXPECT_EQ(session.state("m").to_doubles(), ByHand::of(model()).m);
  EXPECT_NE(session.state("s").to_doubles(), ByHand::of(model()).s);
}

class SavedBatchNorm : public ::testing::Test {
 protected:
  SavedBatchNorm()
      : file_(std::filesystem::temp_directory_path() /
              fmt::format("sardonyx_batch_norm_{}.onnx", getpid())) {}
  ~SavedBatchNorm() override { std::filesystem::remove(file_); }
  std::filesystem::path file_;
};

TEST_F(SavedBatchNorm, the_file_evaluates_like_the_session) {
  Session session(model(), options_of(2, DType::kFloat32));
  for (uint64_t i = 0; i < 3; ++i) session.train_step(batch_of(21, i), {{5, 6}, {10}}, kRate);
  session.save(file_);
  Session again(graph::Model::open(file_), options_of(1, DType::kFloat32));
  const Batch batch = batch_of(9, 7);
  EXPECT_EQ(again.evaluate(batch, 9).loss_sum, session.evaluate(batch, 9).loss_sum);
}

// As exporters write a fresh network: scale and variance are one tensor of ones, bias and mean one
// of zeros, the second by way of an alias.
const char* const kMerged = R"(<ir_version: 8, opset_import: ["" : 15]>
net (float[N,7] x) => (float[N,5] y)
<float[7,5] w = {...}, float[5,5] u = {...}, float[5] one = {1,1,1,1,1}, float[5] zero = {0,0,0,0,0}> {
  also = Identity(zero)
  a = MatMul(x, w)
  [first] h = BatchNormalization(a, one, zero, zero, one)
  g = MatMul(h, u)
  y = BatchNormalization(g, one, zero, also, one)
})";

std::shared_ptr<const graph::Model> merged() {
  const auto graph = graph::parse(kMerged);
  std::mt19937_64 random(5);
  for (const char* name : {"w", "u"}) {
    graph::Value* value = graph->find(name);
    value->data = Tensor(DType::kFloat32, value->type.shape());
    for (float& x : value->data.mutable_data<float>()) {
      x = static_cast<float>(random() >> 40) * 0x1p-24f;
    }
  }
  return graph::Model::from_bytes(graph::to_onnx_bytes(*graph));
}

TEST_F(SavedBatchNorm, merged_tensors_are_split_per_use_and_saved_so) {
  Session session(merged(), options_of(1, DType::kFloat32));
  session.train_step(batch_of(12, 1), {{12}}, kRate);
  const auto values = saved_values(session);
  for (const char* name : {"one@first:1", "one@first:4", "zero@first:2", "zero@first:3", "one@y:1",
                           "one@y:4", "zero@y:2", "zero@y:3"}) {
    EXPECT_TRUE(values.contains(name)) << name;
  }
  EXPECT_EQ(values.size(), 10u);
  EXPECT_NE(session.notices().size(), 0u);
  EXPECT_EQ(session.notices().back(),
            "tensors that the exporter merged are split, one per use (NAME@NODE:INPUT): 'one' (4 "
            "uses), 'zero' (4 uses)");
  session.save(file_);
  Session again(graph::Model::open(file_), options_of(1, DType::kFloat32));
  const Batch batch = batch_of(9, 7);
  EXPECT_EQ(again.evaluate(batch, 9).loss_sum, session.evaluate(batch, 9).loss_sum);
  EXPECT_EQ(again.notices().size(), 0u);
}

TEST_F(SavedBatchNorm, a_frozen_name_of_the_file_freezes_its_parts) {
  SessionOptions options = options_of(1, DType::kFloat32);
  options.pipeline.trainable.freeze = {"one", "zero@y*"};
  Session session(merged(), options);
  session.prepare_training({{{12}}});
  std::map<std::string, passes::ParameterRow::Role> roles;
  for (const passes::ParameterRow& row : session.parameters(12)) roles[row.name] = row.role;
  EXPECT_EQ(roles.at("one@first:1"), passes::ParameterRow::Role::kConstant);
  EXPECT_EQ(roles.at("zero@first:2"), passes::ParameterRow::Role::kTrainable);
  EXPECT_EQ(roles.at("zero@y:2"), passes::ParameterRow::Role::kConstant);
  EXPECT_EQ(roles.at("one@y:4"), passes::ParameterRow::Role::kState);
}

}  // namespace
}  // namespace sardonyx::runtime
