// --init and --reinit: what each parameter begins as, that the same seed gives the same bits, and
// that the saved file holds what was trained.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/onnx_export.h"
#include "graph/onnx_import.h"
#include "graph/parse.h"
#include "graph/support/error.h"
#include "models/lenet.h"
#include "passes/weight_inputs.h"
#include "runtime/feed.h"
#include "runtime/session.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

using graph::Tensor;

// Every kind of parameter, none with values; `token` and `positions` fill no slot.
std::string weightless_model() {
  return graph::to_onnx_bytes(*graph::parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,16,8,8] x, float[64,16,3,3] conv_w, float[64] conv_b, float[64] scale,
       float[64] shift, float[64] mean, float[64] var, float[64,1,1] slope, float[128,64] proj_w,
       float[128] proj_b, float[128,64] product_w, float[64] product_b, float[1,64,128] positions,
       float[64,10] head_w, float[10] head_b)
    => (float[N,10] y)
    <int64[3] flat = {0, 64, 64}>
    {
      a = Conv<pads = [1, 1, 1, 1]>(x, conv_w, conv_b)
      b = BatchNormalization(a, scale, shift, mean, var)
      c = PRelu(b, slope)
      d = Reshape(c, flat)
      proj = Transpose<perm = [1, 0]>(proj_w)
      e = MatMul(d, proj)
      f = Add(proj_b, e)
      g1 = Add(f, positions)
      h = MatMul(g1, product_w)
      i = Add(h, product_b)
      j = ReduceMean<axes = [1], keepdims = 0>(i)
      y = Gemm(j, head_w, head_b)
    })"));
}

SessionOptions options_of(const std::string& kind, uint64_t seed, bool all = false) {
  SessionOptions options;
  options.threads = 1;
  options.pipeline.optimizer.momentum = 0.9;
  if (!kind.empty()) options.pipeline.init.how = graph::parse_init(kind, seed);
  options.pipeline.init.all = all;
  return options;
}

std::unique_ptr<Session> open(SessionOptions options) {
  return std::make_unique<Session>(graph::Model::from_bytes(weightless_model()),
                                   std::move(options));
}

Batch batch_of(int64_t rows) {
  Batch batch;
  batch.inputs.emplace_back(
      "x", test::random_tensor(graph::DType::kFloat32, {rows, 16, 8, 8}, -1, 1, 3));
  batch.labels = test::random_tensor(graph::DType::kInt64, {rows}, 0, 9, 4);
  return batch;
}

std::map<std::string, Tensor> initial_states(const std::string& kind, uint64_t seed) {
  const auto session = open(options_of(kind, seed));
  session->prepare_training({{{4}}});
  std::map<std::string, Tensor> states;
  for (const SavedState& state : session->saved_states()) {
    if (!state.name.starts_with("momentum/")) states[state.name] = session->state(state.name);
  }
  return states;
}

double variance(const Tensor& tensor) {
  double mean = 0, sum = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i) mean += tensor.as_double(i);
  mean /= static_cast<double>(tensor.numel());
  for (int64_t i = 0; i < tensor.numel(); ++i) sum += std::pow(tensor.as_double(i) - mean, 2);
  return sum / static_cast<double>(tensor.numel());
}

double largest(const Tensor& tensor) {
  double most = 0;
  for (int64_t i = 0; i < tensor.numel(); ++i) most = std::max(most, std::abs(tensor.as_double(i)));
  return most;
}

void expect_all(const Tensor& tensor, double value) {
  for (int64_t i = 0; i < tensor.numel(); ++i) ASSERT_EQ(tensor.as_double(i), value) << i;
}

TEST(Init, kaiming_is_two_over_the_operands_that_a_result_sums) {
  auto states = initial_states("kaiming", 7);
  // The variance of n numbers is off by sqrt(2 / n), four times which is 2 % to 22 % here.
  EXPECT_NEAR(variance(states["conv_w"]), 2.0 / (16 * 9), 0.03 * 2 / (16 * 9));
  EXPECT_NEAR(variance(states["proj_w"]), 2.0 / 64, 0.07 * 2 / 64);       // [out, in], transposed
  EXPECT_NEAR(variance(states["product_w"]), 2.0 / 128, 0.07 * 2 / 128);  // [in, out]
  EXPECT_NEAR(variance(states["head_w"]), 2.0 / 64, 0.15 * 2 / 64);       // [in, out], 10 results
  EXPECT_NEAR(variance(states["positions"]), 0.02 * 0.02, 0.05 * 0.02 * 0.02);
}

TEST(Init, other_parameters_begin_neutral_whatever_the_kind) {
  for (const char* kind : {"kaiming", "xavier", "normal:0.5"}) {
    SCOPED_TRACE(kind);
    auto states = initial_states(kind, 7);
    for (const char* zero : {"conv_b", "shift", "mean", "proj_b", "product_b", "head_b"}) {
      expect_all(states.at(zero), 0);
    }
    expect_all(states.at("scale"), 1);
    expect_all(states.at("var"), 1);
    expect_all(states.at("slope"), 0.25);
  }
}

TEST(Init, xavier_counts_both_sides_and_normal_neither) {
  auto states = initial_states("xavier", 7);
  EXPECT_NEAR(variance(states["conv_w"]), 2.0 / (80 * 9), 0.03 * 2 / (80 * 9));
  EXPECT_NEAR(variance(states["head_w"]), 2.0 / 74, 0.15 * 2 / 74);
  states = initial_states("normal:0.5", 7);
  EXPECT_NEAR(variance(states["conv_w"]), 0.25, 0.03 * 0.25);
  EXPECT_NEAR(variance(states["positions"]), 0.25, 0.05 * 0.25);
}

TEST(Init, pytorch_gives_biases_the_bound_of_their_layer) {
  auto states = initial_states("pytorch", 7);
  EXPECT_NEAR(variance(states["conv_w"]), 1.0 / (3 * 144), 0.03 / (3 * 144));
  EXPECT_NEAR(variance(states["conv_b"]), 1.0 / (3 * 144), 0.4 / (3 * 144));
  EXPECT_NEAR(variance(states["proj_b"]), 1.0 / (3 * 64), 0.3 / (3 * 64));  // added to a product
  EXPECT_NEAR(variance(states["head_b"]), 1.0 / (3 * 64), 0.9 / (3 * 64));
  EXPECT_LE(largest(states["proj_b"]), 1.0 / 8);
  expect_all(states["shift"], 0);
  expect_all(states["slope"], 0.25);
}

// 20 inputs, a state of 32, a product over both axes of 8 x 32 with 48 results, one slope.
std::string layers_that_declare() {
  return graph::to_onnx_bytes(*graph::parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[N,8,20] x, float[2,128,20] w, float[2,128,32] r, float[2,256] b, float[2,96] p,
       float[2,8,32,48] mix, float[48,24,3] up, float[24] up_b, float[1] slope)
    => (float[N,24] y) <float[1] one = {1}> {
      steps = Transpose<perm = [1, 0, 2]>(x)
      h, last, cell = LSTM<hidden_size = 32, direction = "bidirectional">(steps, w, r, b, "", "", "", p)
      m = Einsum<equation = "tdnh,dthk->nk">(h, mix)
      s = PRelu(m, slope)
      axis = Constant<value_ints = [2]>()
      u = Unsqueeze(s, axis)
      v = ConvTranspose(u, up, up_b)
      y = ReduceMean<axes = [2], keepdims = 0>(v)
    })"));
}

std::map<std::string, Tensor> declared_states(const std::string& kind) {
  Session session(graph::Model::from_bytes(layers_that_declare()), options_of(kind, 7));
  session.prepare_training({{{4}}});
  std::map<std::string, Tensor> states;
  for (const char* name : {"w", "r", "b", "p", "mix", "up", "up_b", "slope"}) {
    states[name] = session.state(name);
  }
  return states;
}

// A uniform tensor: its largest number is close to its bound.
void expect_bound(const Tensor& tensor, double bound) {
  EXPECT_LE(largest(tensor), bound * (1 + 1e-6));
  EXPECT_GT(largest(tensor), bound * (tensor.numel() > 100 ? 0.97 : 0.7));
}

TEST(Init, a_recurrent_layer_joins_its_inputs_and_its_state) {
  auto states = declared_states("kaiming");
  EXPECT_NEAR(variance(states["w"]), 2.0 / 20, 0.1 * 2 / 20);
  EXPECT_NEAR(variance(states["r"]), 2.0 / 32, 0.1 * 2 / 32);
  EXPECT_NEAR(variance(states["p"]), 2.0 / 32, 0.4 * 2 / 32);
  expect_all(states["b"], 0);
  expect_all(states["slope"], 0.25);
  states = declared_states("xavier");
  expect_bound(states["w"], std::sqrt(6.0 / (20 + 128)));
  expect_bound(states["r"], std::sqrt(6.0 / (32 + 128)));
}

TEST(Init, pytorch_takes_the_size_of_the_state_for_all_of_a_recurrent_layer) {
  auto states = declared_states("pytorch");
  for (const char* name : {"w", "r", "b", "p"}) {
    SCOPED_TRACE(name);
    expect_bound(states.at(name), 1 / std::sqrt(32.0));
  }
}

TEST(Init, an_operand_of_einsum_joins_what_the_equation_sums) {
  EXPECT_NEAR(variance(declared_states("kaiming")["mix"]), 2.0 / (2 * 8 * 32),
              0.06 * 2 / (2 * 8 * 32));
  expect_bound(declared_states("xavier")["mix"], std::sqrt(6.0 / (2 * 8 * 32 + 48)));
  expect_bound(declared_states("pytorch")["mix"], 1 / std::sqrt(2.0 * 8 * 32));
}

TEST(Init, a_transposed_convolution_and_its_bias_count_as_in_pytorch) {
  auto states = declared_states("pytorch");
  expect_bound(states["up"], 1 / std::sqrt(24.0 * 3));
  expect_bound(states["up_b"], 1 / std::sqrt(24.0 * 3));
}

TEST(Init, the_same_seed_gives_the_same_bits_and_another_others) {
  const auto first = initial_states("kaiming", 7), again = initial_states("kaiming", 7),
             other = initial_states("kaiming", 8);
  for (const char* name : {"conv_w", "proj_w", "product_w", "positions", "head_w"}) {
    EXPECT_TRUE(first.at(name).identical(again.at(name))) << name;
    EXPECT_FALSE(first.at(name).identical(other.at(name))) << name;
  }
}

TEST(Init, the_saved_file_holds_every_value_and_computes_what_was_trained) {
  const testing::TemporaryFolder folder;
  SessionOptions options = options_of("kaiming", 7);
  options.pipeline.trainable.freeze = {"proj_w"};  // has no values in the file either
  const auto session = open(std::move(options));
  session->train_step(batch_of(4), {{4}}, 0.05);
  session->save(folder.path() / "trained.onnx");
  const auto saved = graph::import_model(graph::Model::open(folder.path() / "trained.onnx"));
  ASSERT_EQ(saved.graph->inputs().size(), 1u);
  EXPECT_TRUE(saved.graph->find("conv_w")->data.identical(session->state("conv_w")));
  EXPECT_TRUE(saved.graph->find("proj_w")->data.identical(initial_states("kaiming", 7)["proj_w"]));
  EXPECT_NE(session->state("mean").as_double(0), 0);
  const auto reopened = Session::open(folder.path() / "trained.onnx", options_of("", 0));
  const auto want = session->forward(batch_of(4), passes::Mode::kEval);
  const auto got = reopened->forward(batch_of(4), passes::Mode::kEval);
  EXPECT_FALSE(test::difference(got[0].second, want[0].second, {1e-6, 1e-6}));
}

TEST(Init, what_was_given_values_is_saved_without_a_step_too) {
  const testing::TemporaryFolder folder;
  const auto session = open(options_of("kaiming", 7));
  session->prepare_training({{{4}}});
  session->save(folder.path() / "begun.onnx");
  const auto saved = graph::import_model(graph::Model::open(folder.path() / "begun.onnx"));
  EXPECT_TRUE(saved.graph->find("conv_w")->data.identical(initial_states("kaiming", 7)["conv_w"]));
}

TEST(Init, weights_without_values_are_named_when_nothing_fills_them) {
  const auto session = open(options_of("", 0));
  EXPECT_EQ(passes::weight_inputs(session->imported()).size(), 14u);
  const std::string error = testing::error_of([&] { find_feed(*session, Flags()); });
  EXPECT_NE(
      error.find("weights without values: 'conv_w', 'conv_b', 'scale', 'shift', 'mean', "
                 "'var', ...; --init pytorch, kaiming, xavier or normal:STD gives them some, or "
                 "export the model with its weights"),
      std::string::npos)
      << error;
}

TEST(Init, a_second_input_of_samples_is_no_weight) {
  const auto graph = graph::parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[8,3] x, float[8,3] other, float[3,5] w) => (float[8,5] y) {
      a = Add(x, other)
      y = MatMul(a, w)
    })");
  const auto weights = passes::weight_inputs(*graph);
  ASSERT_EQ(weights.size(), 1u);
  EXPECT_EQ(weights[0]->name, "w");
  const auto product = graph::parse(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[8,3] x, float[3,8] other) => (float[8,8] y) { y = Add(x, other) })");
  EXPECT_TRUE(passes::weight_inputs(*product).empty());
}

std::string lenet_bytes() {
  models::ImageModel options;
  options.height = options.width = 16;
  options.init = graph::parse_init("kaiming", 1);
  return graph::to_onnx_bytes(*models::lenet(options));
}

TEST(Init, without_reinit_the_values_of_the_file_stand) {
  Session session(graph::Model::from_bytes(lenet_bytes()), options_of("kaiming", 9));
  session.prepare_training({{{4}}});
  EXPECT_TRUE(
      session.state("conv1.weight").identical(session.imported().find("conv1.weight")->data));
  EXPECT_EQ(session.notices().at(0),
            "--init: the file holds a value for every weight; --reinit replaces them");
}

TEST(Init, reinit_replaces_what_is_trained_and_leaves_what_is_frozen) {
  SessionOptions options = options_of("kaiming", 9, true);
  options.pipeline.trainable.freeze = {"conv1.*"};
  Session session(graph::Model::from_bytes(lenet_bytes()), std::move(options));
  session.prepare_training({{{4}}});
  const Tensor& old = session.imported().find("conv2.weight")->data;
  const Tensor now = session.state("conv2.weight");
  EXPECT_FALSE(now.identical(old));
  EXPECT_TRUE(now.identical(
      graph::init_weight(graph::parse_init("kaiming", 9), "conv2.weight", now.shape())));
  const std::vector<std::string> states = session.state_names();
  EXPECT_EQ(std::ranges::count(states, "conv1.weight"), 0);  // a constant, as in the file
}

}  // namespace
}  // namespace sardonyx::runtime
