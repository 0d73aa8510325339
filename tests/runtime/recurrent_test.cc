// Recurrent layers in training: the batch isn't axis 0 of what they compute, and the cut of the
// batch still changes nothing; they learn what only memory can tell.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/builder.h"
#include "graph/onnx_export.h"
#include "runtime/session.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;
using graph::Value;

constexpr int64_t kSteps = 6, kInputs = 4, kHidden = 8, kClasses = 3;

// x [N,T,I] -> GRU with the batch in front -> bidirectional LSTM with the steps in front, of which
// only the last states are read -> scores.
std::unique_ptr<graph::Graph> classifier() {
  auto g = std::make_unique<graph::Graph>();
  g->opsets[""] = 17;
  graph::Builder b(*g);
  uint64_t seed = 0;
  const auto weight = [&](const char* name, std::vector<int64_t> shape) {
    return g->add_constant(
        name, test::random_tensor(DType::kFloat32, std::move(shape), -0.4, 0.4, ++seed));
  };
  Value* x = g->add_input(
      "x", graph::TensorType(DType::kFloat32, {graph::Dim::named("N"), kSteps, kInputs}));
  const graph::Node* gru =
      b.node("", "GRU",
             {x, weight("gru.w", {1, 3 * kInputs, kInputs}),
              weight("gru.r", {1, 3 * kInputs, kInputs}), weight("gru.b", {1, 6 * kInputs})},
             {"gru"}, {{"layout", int64_t{1}}});
  Value* axis = g->add_constant("axis", test::ints({1}, {2}));
  Value* sequence = b.op("Squeeze", {gru->output(0), axis});
  Value* by_step = b.op("Transpose", {sequence}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  const graph::Node* lstm =
      b.node("", "LSTM",
             {by_step, weight("lstm.w", {2, 4 * kHidden, kInputs}),
              weight("lstm.r", {2, 4 * kHidden, kHidden}), weight("lstm.b", {2, 8 * kHidden})},
             {"", "last"}, {{"direction", std::string("bidirectional")}});
  Value* by_row = b.op("Transpose", {lstm->output(1)}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  Value* flat = b.op("Flatten", {by_row});
  g->add_output(b.op("Gemm",
                     {flat, weight("fc.w", {2 * kHidden, kClasses}), weight("fc.b", {kClasses})},
                     {}, "y"));
  return g;
}

std::unique_ptr<Session> open(DType dtype) {
  SessionOptions options;
  options.threads = 2;
  options.pipeline.dtype = dtype;
  return std::make_unique<Session>(graph::Model::from_bytes(graph::to_onnx_bytes(*classifier())),
                                   std::move(options));
}

// The class is told by the first step alone.
Batch first_step_batch(int64_t rows, uint64_t seed) {
  Batch batch;
  Tensor x = test::random_tensor(DType::kFloat32, {rows, kSteps, kInputs}, -1, 1, seed);
  std::vector<int64_t> labels;
  for (int64_t n = 0; n < rows; ++n) {
    const float* first = x.data<float>().data() + n * kSteps * kInputs;
    labels.push_back(std::max_element(first, first + kClasses) - first);
  }
  batch.inputs.emplace_back("x", std::move(x));
  batch.labels = test::ints({rows}, labels);
  return batch;
}

std::map<std::string, Tensor> trained(DType dtype, const std::vector<int64_t>& cut) {
  auto session = open(dtype);
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    session->train_step(first_step_batch(13, seed), {cut}, 0.2);
  }
  std::map<std::string, Tensor> states;
  for (const std::string& name : session->state_names()) states[name] = session->state(name);
  return states;
}

TEST(Recurrent, any_number_of_micro_batches_gives_the_same_three_steps) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
    const double tolerance = dtype == DType::kFloat64 ? 1e-12 : 1e-5;
    const auto whole = trained(dtype, {13});
    EXPECT_TRUE(whole.contains("lstm.r"));
    for (const std::vector<int64_t>& cut : {std::vector<int64_t>{7, 6}, {5, 4, 4}, {1, 12}}) {
      const auto parts = trained(dtype, cut);
      for (const auto& [name, value] : whole) {
        const auto fault = test::difference(parts.at(name), value, {tolerance, tolerance});
        EXPECT_FALSE(fault) << name << " in " << cut.size() << " micro-batches: " << *fault;
      }
    }
  }
}

TEST(Recurrent, a_network_remembers_the_first_step) {
  auto session = open(DType::kFloat32);
  const Batch batch = first_step_batch(64, 1);
  const double first = session->train_step(batch, {{64}}, 0.5).loss;
  double last = first;
  for (int i = 0; i < 300; ++i) last = session->train_step(batch, {{64}}, 0.5).loss;
  EXPECT_NEAR(first, std::log(3.0), 0.2);
  EXPECT_LT(last, 0.5 * first);
}

}  // namespace
}  // namespace sardonyx::runtime
