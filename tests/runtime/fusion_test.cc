// The passes that fuse leave training as it is: the same losses, bit
// for bit where each number is still made of the same numbers in the same order, else to rounding.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/onnx_export.h"
#include "models/resnet.h"
#include "runtime/data/batch_cut.h"
#include "runtime/session.h"
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

std::unique_ptr<Session> open(const Setting& setting, std::vector<std::string> skip) {
  models::ResNet model;
  model.image = {3, 16, 16, 10, models::parse_init("kaiming", 3)};
  model.stem = setting.stem;
  model.width = setting.width;
  SessionOptions options;
  options.threads = 2;
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

}  // namespace
}  // namespace sardonyx::runtime
