// --skip-pass, pass by pass: a pass that is needed is refused by name; without an optional one the
// run is the same, or differs in just what the pass is for.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "graph/onnx_export.h"
#include "models/lenet.h"
#include "runtime/data/batch_cut.h"
#include "runtime/session.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using sardonyx::testing::error_of;

constexpr int64_t kRows = 12;

std::unique_ptr<Session> open(std::vector<std::string> skip, size_t replicas = 1) {
  models::ImageModel model;
  model.height = model.width = 16;
  model.init = graph::parse_init("kaiming", 3);
  SessionOptions options;
  options.devices.assign(replicas, "cpu");
  options.pipeline.dtype = DType::kFloat64;
  options.pipeline.optimizer.momentum = 0.9;
  options.pipeline.optimizer.ema = 0.5;
  options.pipeline.skip = std::move(skip);
  return std::make_unique<Session>(
      graph::Model::from_bytes(graph::to_onnx_bytes(*models::lenet(model))), std::move(options));
}

Batch batch_of(uint64_t seed) {
  Batch batch;
  batch.inputs.emplace_back("",
                            test::random_tensor(DType::kFloat32, {kRows, 1, 16, 16}, -1, 1, seed));
  std::vector<int64_t> labels(kRows);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>((i * 7 + seed) % 10);
  batch.labels = test::ints({kRows}, labels);
  return batch;
}

// Losses of three steps and of an evaluation behind them.
std::vector<double> losses(Session& session, const CutOptions& options) {
  std::vector<double> losses;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    losses.push_back(session.train_step(batch_of(seed), cut_batch(kRows, options), 0.1).loss);
  }
  losses.push_back(session.evaluate(batch_of(1), kRows).loss_sum);
  return losses;
}

void expect_same(const std::vector<double>& a, const std::vector<double>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12 * std::abs(b[i])) << i;
}

TEST(SkipPass, each_that_is_needed_is_refused_with_those_that_are_not) {
  int needed = 0;
  for (const passes::Pass& pass : passes::all_passes()) {
    if (pass.need == passes::Need::kOptional) continue;
    ++needed;
    const std::string name(pass.name);
    EXPECT_EQ(
        error_of([&] {
          losses(*open({"eliminate_dead", name}), {});
        }),
        "--skip-pass " + name +
            ": nothing meaningful is left without it; can be left out: read_averages, "
            "fold_constants, cancel_transposes, prune_outputs, fuse_activations, fuse_gradients, "
            "insert_all_reduce, eliminate_common, eliminate_dead, recompute");
  }
  EXPECT_EQ(needed, 18);
}

TEST(SkipPass, each_that_only_makes_it_faster_leaves_the_run_as_it_is) {
  for (const CutOptions& cut :
       {CutOptions{}, {.accumulate = 3}, {.replicas = 2}, {.replicas = 2, .shares = {1, 0}}}) {
    const auto replicas = static_cast<size_t>(cut.replicas);
    const std::vector<double> expected = losses(*open({}, replicas), cut);
    for (const char* pass :
         {"fold_constants", "cancel_transposes", "prune_outputs", "fuse_activations",
          "fuse_gradients", "eliminate_common", "eliminate_dead", "recompute"}) {
      SCOPED_TRACE(fmt::format("{} on {} replicas", pass, replicas));
      expect_same(losses(*open({pass}, replicas), cut), expected);
    }
  }
}

TEST(SkipPass, without_the_sums_one_replica_is_as_it_was_and_two_drift_apart) {
  expect_same(losses(*open({"insert_all_reduce"}), {}), losses(*open({}), {}));
  const auto two = open({"insert_all_reduce"}, 2);
  losses(*two, {.replicas = 2});
  EXPECT_NE(two->replica_difference(), "");
}

TEST(SkipPass, without_averages_evaluation_sees_the_weights_themselves) {
  const auto averaged = open({}), plain = open({"read_averages"});
  const std::vector<double> of_averages = losses(*averaged, {}), of_weights = losses(*plain, {});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(of_averages[i], of_weights[i]);
  EXPECT_NE(of_averages[3], of_weights[3]);
  // The loss of a next step on the same samples is that of the weights before it.
  const double next = plain->train_step(batch_of(1), {{kRows}}, 0.1).loss_sum;
  EXPECT_NEAR(of_weights[3], next, 1e-12 * next);
}

}  // namespace
}  // namespace sardonyx::runtime
