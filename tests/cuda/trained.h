// Networks trained on CUDA devices and on the CPU, and how near the two must come.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "graph/onnx_export.h"
#include "models/image_model.h"
#include "runtime/session.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {

using graph::DType;
using graph::Tensor;

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

inline Batch batch_of(std::vector<int64_t> sample, int64_t rows, uint64_t seed) {
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

inline SessionOptions options_of(const Setting& setting) {
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

inline Trained train(const std::shared_ptr<const graph::Model>& model, std::vector<int64_t> sample,
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

inline void expect_near(const Trained& got, const Trained& wanted, double tolerance) {
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

inline std::shared_ptr<const graph::Model> model_of(const graph::Graph& graph) {
  return graph::Model::from_bytes(graph::to_onnx_bytes(graph));
}

inline models::ImageModel image(int64_t channels, int64_t side) {
  models::ImageModel image;
  image.channels = channels;
  image.height = image.width = side;
  image.init.kind = graph::Init::Kind::kKaiming;
  return image;
}

// The cut over replicas, the same cut on the CPU.
inline void expect_as_on_the_cpu(const std::shared_ptr<const graph::Model>& model,
                                 const std::vector<int64_t>& sample, const Setting& setting,
                                 double tolerance) {
  Setting cpu = setting;
  cpu.devices.assign(setting.devices.size(), "cpu");
  expect_near(train(model, sample, setting), train(model, sample, cpu), tolerance);
}

inline constexpr double kFloat64 = 1e-9, kFloat32 = 2e-4;

}  // namespace sardonyx::runtime
