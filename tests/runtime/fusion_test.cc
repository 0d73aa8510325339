// The passes that fuse and that compute results again leave training as it is: the same losses, bit
// for bit where each number is still made of the same numbers in the same order, else to rounding.
// What they are for, less memory, is asserted as well.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/onnx_export.h"
#include "models/resnet.h"
#include "runtime/data/batch_cut.h"
#include "runtime/session.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;

constexpr int64_t kRows = 20;

struct Setting {
  models::Stem stem = models::Stem::kSmall;
  DType dtype = DType::kFloat32;
  int64_t block = -1;
  bool reference_only = false;
  int64_t parts = 1;
  int64_t width = 4;
};

std::unique_ptr<Session> open(const Setting& setting, std::vector<std::string> skip,
                              int64_t budget = 0) {
  models::ResNet model;
  model.image = {3, 16, 16, 10, graph::parse_init("kaiming", 3)};
  model.stem = setting.stem;
  model.width = setting.width;
  SessionOptions options;
  options.threads = 2;
  options.memory_budget = budget;
  options.pipeline.dtype = setting.dtype;
  options.pipeline.block = setting.block;
  options.pipeline.reference_only = setting.reference_only;
  options.pipeline.skip = std::move(skip);
  return std::make_unique<Session>(
      graph::Model::from_bytes(graph::to_onnx_bytes(*models::resnet(model))), std::move(options));
}

std::vector<double> losses(Session& session, int64_t parts) {
  std::vector<double> losses;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Batch batch;
    batch.inputs.emplace_back(
        "", test::random_tensor(DType::kFloat32, {kRows, 3, 16, 16}, -1, 1, seed));
    std::vector<int64_t> labels(kRows);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>((i * 7) % 10);
    batch.labels = test::ints({kRows}, labels);
    CutOptions cut;
    cut.accumulate = parts;
    losses.push_back(session.train_step(batch, cut_batch(kRows, cut), 0.1).loss);
  }
  return losses;
}

std::vector<double> losses(const Setting& setting, std::vector<std::string> skip) {
  return losses(*open(setting, std::move(skip)), setting.parts);
}

const Setting kSettings[] = {
    {},
    {.dtype = DType::kFloat64},
    {.stem = models::Stem::kImagenet, .parts = 3},
    {.stem = models::Stem::kImagenet, .dtype = DType::kFloat64, .block = 16},
    {.block = 16},
    {.dtype = DType::kFloat64, .reference_only = true},
    {.reference_only = true},
};

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double rtol) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], rtol * std::abs(want[i]));
}

TEST(Fusion, an_activation_that_is_part_of_its_batch_norm_changes_no_bit) {
  for (const Setting& setting : kSettings) {
    EXPECT_EQ(losses(setting, {"fuse_gradients"}),
              losses(setting, {"fuse_activations", "fuse_gradients"}));
  }
}

TEST(Fusion, sums_that_are_made_elsewhere_differ_by_rounding_only) {
  for (const Setting& setting : kSettings) {
    const double rtol = setting.dtype == DType::kFloat64 ? 1e-11 : 2e-4;
    expect_near(losses(setting, {}), losses(setting, {"fuse_gradients"}), rtol);
  }
}

bool says(const passes::Plan& plan, const std::string& text) {
  return std::ranges::any_of(plan.remarks, [&](const std::string& remark) {
    return remark.find(text) != std::string::npos;
  });
}

TEST(Recompute, changes_no_bit_and_saves_memory) {
  for (const models::Stem stem : {models::Stem::kSmall, models::Stem::kImagenet}) {
    for (const int64_t parts : {1, 2}) {
      const Setting setting{.stem = stem, .parts = parts, .width = 32};
      const auto with = open(setting, {}), without = open(setting, {"recompute"});
      EXPECT_EQ(losses(*with, parts), losses(*without, parts));
      EXPECT_LT(with->planned_bytes(), without->planned_bytes());
      EXPECT_TRUE(says(*with->training_plans()[0], " computed again instead of kept: saves "));
      EXPECT_FALSE(says(*without->training_plans()[0], "computed again"));
    }
  }
}

TEST(Recompute, the_plan_of_resnet18_is_near_its_bound) {
  const Setting setting{.width = 64};
  const auto with = open(setting, {})->draft_plan(64);
  const auto without = open(setting, {"recompute"})->draft_plan(64);
  for (const auto* plan : {with.get(), without.get()}) {
    EXPECT_LE(static_cast<double>(plan->memory.arena_bytes),
              1.02 * static_cast<double>(plan->memory.liveness_bound_bytes));
  }
  // Stem, five activations and four ends of blocks: half of what was kept beside the convolutions.
  EXPECT_TRUE(says(*with, " computed again instead of kept: saves ")) << with->remarks.back();
  EXPECT_TRUE(says(*with, "17 with Relu")) << with->remarks[0];
}

TEST(Recompute, a_budget_is_kept_and_changes_no_bit) {
  for (const int64_t parts : {1, 2}) {
    const Setting setting{.parts = parts, .width = 8};
    const auto free = open(setting, {});
    const std::vector<double> expected = losses(*free, parts);
    const auto states = static_cast<int64_t>(free->memory().state_bytes);
    const int64_t budget = states + static_cast<int64_t>(free->memory().arena_bytes) * 85 / 100;
    const auto bounded = open(setting, {}, budget);
    EXPECT_EQ(losses(*bounded, parts), expected);
    EXPECT_LE(bounded->planned_bytes(), static_cast<size_t>(budget));
  }
}

TEST(Recompute, a_budget_out_of_reach_is_refused_with_what_is_needed_and_what_is_reachable) {
  const auto bounded = open({}, {}, 100000);
  const std::string message = sardonyx::testing::error_of([&] { losses(*bounded, 1); });
  EXPECT_TRUE(message.starts_with("--memory-budget 100000: 20 rows at once need ")) << message;
  EXPECT_NE(message.find(" bytes, and "), std::string::npos) << message;
  EXPECT_NE(message.find("use a smaller --micro-batch or a larger --accumulate"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::runtime
