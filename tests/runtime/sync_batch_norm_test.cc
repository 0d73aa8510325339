// --sync-bn: a micro-batch's statistics are those of its rows on all replicas. Against one replica
// whose micro-batches have the rows of all: micro-batch i of the replicas, one behind the other.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "graph/support/error.h"
#include "runtime/data/batch_cut.h"
#include "runtime/session.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;
using sardonyx::testing::error_of;

constexpr int64_t kPixels = 2 * 6 * 6, kClasses = 5;
constexpr double kRate = 0.2;

// Two branches and a residual, so that the order of the sums isn't that of a chain.
const char* const kModel = R"(<ir_version: 8, opset_import: ["" : 15]>
net (float[N,2,6,6] x) => (float[N,5] y)
<float[3,2,3,3] w0 = {...}, float[3] s0 = {...}, float[3] b0 = {...}, float[3] m0 = {...}, float[3] v0 = {...},
 float[3,2,1,1] w1 = {...}, float[3] s1 = {...}, float[3] b1 = {...}, float[3] m1 = {...}, float[3] v1 = {...},
 float[5,3] w2 = {...}, float[5] s2 = {...}, float[5] b2 = {...}, float[5] m2 = {...}, float[5] v2 = {...}> {
  [conv] a = Conv<pads = [1,1,1,1]>(x, w0)
  [bn0] c = BatchNormalization<momentum = 0.8>(a, s0, b0, m0, v0)
  r = Relu(c)
  d = Conv(x, w1)
  [bn1] e = BatchNormalization<momentum = 0.8>(d, s1, b1, m1, v1)
  f = Add(r, e)
  p = GlobalAveragePool(f)
  q = Flatten(p)
  g = Gemm<transB = 1>(q, w2)
  [bn2] y = BatchNormalization<momentum = 0.8>(g, s2, b2, m2, v2)
})";

std::shared_ptr<const graph::Model> model(const char* text = kModel) {
  const auto graph = graph::parse(text);
  std::mt19937_64 random(5);
  for (graph::Value& value : graph->values()) {
    if (!value.is_constant()) continue;
    Tensor data(DType::kFloat32, value.type.shape());
    for (float& x : data.mutable_data<float>()) {
      x = static_cast<float>(random() >> 40) * 0x1p-24f + (value.name[0] == 'w' ? -0.5f : 0.25f);
    }
    value.data = data;
  }
  return graph::Model::from_bytes(graph::to_onnx_bytes(*graph));
}

struct Rows {
  std::vector<float> x;
  std::vector<int64_t> labels;
  Batch batch() const {
    const auto count = static_cast<int64_t>(labels.size());
    Batch batch;
    batch.inputs.emplace_back("x", Tensor::of<float>({count, 2, 6, 6}, x));
    batch.labels = Tensor::of<int64_t>({count}, labels);
    return batch;
  }
};

Rows rows_of(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Rows rows;
  for (int64_t i = 0; i < count * kPixels; ++i) {
    rows.x.push_back(static_cast<float>(random() >> 40) * 0x1p-22f - 1.0f);
  }
  for (int64_t i = 0; i < count; ++i) rows.labels.push_back(static_cast<int64_t>(random() % 5));
  return rows;
}

// In the order in which one replica takes them: by micro-batch, then by replica.
Rows by_micro_batch(const Rows& rows, const Cut& cut) {
  Rows ordered;
  for (size_t i = 0; i < rows_over_replicas(cut).size(); ++i) {
    int64_t row = 0;
    for (const auto& own : cut) {
      for (size_t k = 0; k < own.size(); row += own[k++]) {
        if (k != i) continue;
        ordered.x.insert(ordered.x.end(), rows.x.begin() + row * kPixels,
                         rows.x.begin() + (row + own[k]) * kPixels);
        ordered.labels.insert(ordered.labels.end(), rows.labels.begin() + row,
                              rows.labels.begin() + row + own[k]);
      }
    }
  }
  return ordered;
}

SessionOptions options_of(size_t replicas, DType dtype = DType::kFloat64) {
  SessionOptions options;
  options.devices.assign(replicas, "cpu");
  options.threads = static_cast<int>(replicas);
  options.pipeline.dtype = dtype;
  options.pipeline.optimizer.momentum = 0.9;
  options.pipeline.sync_statistics = true;
  return options;
}

std::map<std::string, Tensor> saved_values(const Session& session) {
  std::map<std::string, Tensor> values;
  for (const SavedState& state : session.saved_states()) {
    values[state.name] = session.state(state.name);
  }
  return values;
}

// The largest |a - b| / (1 + |b|) over all states that are saved.
double difference(const Session& a, const Session& b) {
  double largest = 0;
  for (const auto& [name, value] : saved_values(b)) {
    const std::vector<double> got = a.state(name).to_doubles(), want = value.to_doubles();
    for (size_t i = 0; i < want.size(); ++i) {
      largest = std::max(largest, std::abs(got[i] - want[i]) / (1 + std::abs(want[i])));
    }
  }
  return largest;
}

double difference_after_5_steps(const SessionOptions& options, const Cut& cut) {
  Session together(model(), options);
  SessionOptions alone = options_of(1, options.pipeline.dtype);
  alone.pipeline.sample_variance = options.pipeline.sample_variance;
  Session single(model(), alone);
  const Cut whole = {rows_over_replicas(cut)};
  for (uint64_t step = 0; step < 5; ++step) {
    const Rows rows = rows_of(rows_in(cut), step);
    const double loss = together.train_step(rows.batch(), cut, kRate).loss;
    const double wanted = single.train_step(by_micro_batch(rows, cut).batch(), whole, kRate).loss;
    if (options.pipeline.sync_statistics) {
      EXPECT_NEAR(loss, wanted, options.pipeline.dtype == DType::kFloat64 ? 1e-12 : 1e-4);
    }
    EXPECT_EQ(together.replica_difference(), "");
  }
  return difference(together, single);
}

const std::vector<Cut> kCuts = {
    {{8}, {8}},          {{12}, {4}},       {{16}, {}},           {{1}, {4}},
    {{6, 5}, {4}},       {{4}, {6, 5}},     {{}, {5, 4}},         {{3, 3, 3}, {4}, {2, 2}},
    {{4, 4, 4}, {4, 4}}, {{7}, {}, {3, 4}}, {{2, 2}, {2, 2}, {2}}};

TEST(SyncBatchNorm, any_cut_is_the_step_of_one_replica_with_all_rows) {
  for (const Cut& cut : kCuts) {
    SCOPED_TRACE(::testing::PrintToString(cut));
    EXPECT_LT(difference_after_5_steps(options_of(cut.size()), cut), 1e-12);
    EXPECT_LT(difference_after_5_steps(options_of(cut.size(), DType::kFloat32), cut), 1e-3);
  }
}

TEST(SyncBatchNorm, without_the_flag_the_step_is_another) {
  SessionOptions options = options_of(2);
  options.pipeline.sync_statistics = false;
  EXPECT_GT(difference_after_5_steps(options, {{8}, {8}}), 1e-3);
}

TEST(SyncBatchNorm, small_buckets_and_the_sample_variance_change_nothing_else) {
  for (const Cut& cut : kCuts) {
    SCOPED_TRACE(::testing::PrintToString(cut));
    SessionOptions options = options_of(cut.size());
    options.pipeline.reduce.first_bucket_bytes = options.pipeline.reduce.bucket_bytes = 1;
    options.pipeline.sample_variance = true;
    EXPECT_LT(difference_after_5_steps(options, cut), 1e-12);
  }
}

TEST(SyncBatchNorm, blocks_and_lanes_change_nothing_else) {
  for (const int64_t block : {16, 32}) {
    for (const int64_t lanes : {0, 16}) {
      for (const Cut& cut : {Cut{{33}, {20}}, {{40}, {}}, {{17, 19}, {21}}}) {
        SessionOptions options = options_of(cut.size());
        options.threads *= 2;
        options.pipeline.block = block;
        options.pipeline.lanes = lanes;
        EXPECT_LT(difference_after_5_steps(options, cut), 1e-12);
      }
    }
  }
}

void expect_identical(const std::map<std::string, Tensor>& a,
                      const std::map<std::string, Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, value] : a) EXPECT_TRUE(value.identical(b.at(name))) << name;
}

TEST(SyncBatchNorm, the_same_calls_give_the_same_bits_and_a_resumed_run_has_them) {
  const Cut cut = {{8, 12}, {11}};
  Session whole(model(), options_of(2, DType::kFloat32));
  Session again(model(), options_of(2, DType::kFloat32));
  for (uint64_t i = 0; i < 2; ++i) {
    whole.train_step(rows_of(31, i).batch(), cut, kRate);
    again.train_step(rows_of(31, i).batch(), cut, kRate);
  }
  expect_identical(saved_values(whole), saved_values(again));
  std::vector<std::pair<std::string, Tensor>> values;
  for (const auto& [name, value] : saved_values(whole)) values.emplace_back(name, value);
  Session resumed(model(), options_of(2, DType::kFloat32));
  resumed.prepare_training({cut});
  resumed.restore(values, 2);
  whole.train_step(rows_of(31, 2).batch(), cut, kRate);
  resumed.train_step(rows_of(31, 2).batch(), cut, kRate);
  expect_identical(saved_values(whole), saved_values(resumed));
}

TEST(SyncBatchNorm, evaluation_needs_no_other_replica) {
  Session together(model(), options_of(2));
  SessionOptions options = options_of(1);
  Session single(model(), options);
  const Rows rows = rows_of(13, 1);
  together.prepare_training({{{7}, {6}}});
  EXPECT_NEAR(together.evaluate(rows.batch(), 5).loss_sum,
              single.evaluate(rows.batch(), 13).loss_sum, 1e-12);
}

TEST(SyncBatchNorm, a_replica_that_fails_in_any_micro_batch_wakes_the_others) {
  for (const Cut& cut : {Cut{{5}, {5}}, {{4, 3}, {3}}, {{3}, {4, 3}}, {{10}, {}}, {{}, {10}}}) {
    for (const size_t bad : {0, 9}) {
      Session session(model(), options_of(2));
      session.train_step(rows_of(10, 1).batch(), cut, kRate);
      const auto before = saved_values(session);
      Rows rows = rows_of(10, 2);
      rows.labels[bad] = 7;
      const std::string message = error_of([&] { session.train_step(rows.batch(), cut, kRate); });
      EXPECT_NE(message.find("7"), std::string::npos) << message;
      expect_identical(saved_values(session), before);
      session.train_step(rows_of(10, 3).batch(), cut, kRate);
      EXPECT_EQ(session.replica_difference(), "");
    }
  }
}

TEST(SyncBatchNorm, a_refused_step_moves_no_statistic_on_any_replica) {
  for (const Cut& cut : {Cut{{10}, {10}}, {{4, 6}, {10}}, {{20}, {}}}) {
    Session session(model(), options_of(cut.size()));
    session.train_step(rows_of(20, 1).batch(), cut, kRate);
    const auto before = saved_values(session);
    Rows bad = rows_of(20, 2);
    bad.x[0] = std::numeric_limits<float>::infinity();
    EXPECT_TRUE(session.train_step(bad.batch(), cut, kRate, NonFinite::kSkip).skipped);
    expect_identical(saved_values(session), before);
    EXPECT_EQ(session.replica_difference(), "");
  }
}

// The overflow of one replica is in the statistics of all: the step is replayed on all at once, and
// the earliest node counts.
TEST(SyncBatchNorm, the_first_node_that_is_not_finite_is_found_on_its_replica) {
  const struct {
    Cut cut;
    int64_t row;
    std::string place;
  } cases[] = {{{{5}, {5}}, 7, "replica 1, micro-batch 1 of 1"},
               {{{5}, {5}}, 2, "replica 0, micro-batch 1 of 1"},
               {{{3, 3}, {2, 2}}, 9, "replica 1, micro-batch 2 of 2"},
               {{{2, 2, 3}, {3}}, 5, "replica 0, micro-batch 3 of 3"},
               {{{}, {5, 5}}, 8, "replica 1, micro-batch 2 of 2"}};
  for (const auto& c : cases) {
    Session session(model(), options_of(2, DType::kFloat32));
    Rows rows = rows_of(10, 2);
    for (int64_t i = 0; i < kPixels; ++i) {
      rows.x[static_cast<size_t>(c.row * kPixels + i)] = std::numeric_limits<float>::max();
    }
    const std::string message = error_of([&] { session.train_step(rows.batch(), c.cut, kRate); });
    const std::string found = "output 0 of node conv (Conv) (" + c.place + ")";
    EXPECT_NE(message.find(found), std::string::npos) << message << "\nnot: " << found;
    EXPECT_EQ(session.replica_difference(), "");
  }
}

TEST(SyncBatchNorm, one_row_over_all_replicas_is_refused_and_one_on_each_is_not) {
  Session session(model(), options_of(2));
  session.train_step(rows_of(2, 1).batch(), {{1}, {1}}, kRate);
  EXPECT_EQ(error_of([&] {
              session.prepare_training({{{2, 1}, {2}}});
            }),
            "micro-batch 2 of 2 has 1 row over all replicas, one value per channel of a "
            "BatchNormalization, which always normalises to zero; cut the batch into larger parts");
}

TEST(SyncBatchNorm, a_frozen_layer_keeps_its_statistics) {
  SessionOptions options = options_of(2);
  options.pipeline.trainable.freeze = {"s0", "b0"};
  Session session(model(), options);
  session.train_step(rows_of(10, 1).batch(), {{5}, {5}}, kRate);
  const auto file = graph::import_model(model());
  for (const char* name : {"m0", "v0"}) {
    EXPECT_EQ(session.state(name).to_doubles(), file.graph->find(name)->data.to_doubles());
  }
  EXPECT_NE(session.state("m1").to_doubles(), file.graph->find("m1")->data.to_doubles());
}

// As exporters write an instance normalisation: samples stand on axis 1, where the channels are.
const char* const kPerSample = R"(<ir_version: 8, opset_import: ["" : 15]>
net (float[N,2,6,6] x) => (float[N,5] y)
<float[72,5] w = {...}, float[4] s = {...}, float[4] b = {...}, float[4] m = {...}, float[4] v = {...},
 float[5] s0 = {...}, float[5] b0 = {...}, float[5] m0 = {...}, float[5] v0 = {...}> {
  f = Flatten(x)
  a = MatMul(f, w)
  t = Transpose<perm = [1, 0]>(a)
  n = BatchNormalization(t, s, b, m, v)
  u = Transpose<perm = [1, 0]>(n)
  y = BatchNormalization(u, s0, b0, m0, v0)
})";

TEST(SyncBatchNorm, a_normalisation_of_each_sample_by_itself_is_left_alone) {
  for (const Cut& cut : {Cut{{4}, {4}}, {{4, 4}, {4}}, {{4}, {}}, {{}, {4, 4, 4}}}) {
    SCOPED_TRACE(::testing::PrintToString(cut));
    Session session(model(kPerSample), options_of(2));
    for (uint64_t step = 0; step < 3; ++step) {
      session.train_step(rows_of(rows_in(cut), step).batch(), cut, kRate);
      EXPECT_EQ(session.replica_difference(), "");
    }
    EXPECT_EQ(session.notices(),
              std::vector<std::string>{"--sync-bn leaves the statistics of 't' to each replica: "
                                       "its axis 0 isn't that of the samples"});
  }
}

// With the layer over samples frozen nothing is shared: the step is that without the flag, whatever
// part of the micro-batches a replica takes.
TEST(SyncBatchNorm, what_is_left_alone_is_averaged_over_the_replicas_as_without_the_flag) {
  for (const Cut& cut : {Cut{{4}, {4}}, {{4, 4}, {4}}, {{4}, {}}, {{}, {4, 4, 4}}}) {
    SCOPED_TRACE(::testing::PrintToString(cut));
    SessionOptions options = options_of(2);
    options.pipeline.trainable.freeze = {"s0", "b0"};
    Session synced(model(kPerSample), options);
    options.pipeline.sync_statistics = false;
    Session plain(model(kPerSample), options);
    for (uint64_t step = 0; step < 3; ++step) {
      const Batch batch = rows_of(rows_in(cut), step).batch();
      synced.train_step(batch, cut, kRate);
      plain.train_step(batch, cut, kRate);
    }
    expect_identical(saved_values(synced), saved_values(plain));
    EXPECT_EQ(synced.replica_difference(), "");
  }
}

TEST(SyncBatchNorm, without_a_batch_normalisation_a_notice_says_so) {
  const char* const plain = R"(<ir_version: 8, opset_import: ["" : 15]>
net (float[N,2,6,6] x) => (float[N,5] y) <float[72,5] w = {...}> {
  f = Flatten(x)
  y = MatMul(f, w)
})";
  Session session(model(plain), options_of(2));
  session.train_step(rows_of(6, 1).batch(), {{2, 2}, {2}}, kRate);
  EXPECT_EQ(session.notices(),
            std::vector<std::string>{
                "--sync-bn does nothing: no BatchNormalization takes statistics over the samples"});
  EXPECT_EQ(session.replica_difference(), "");
}

}  // namespace
}  // namespace sardonyx::runtime
