// The session as the public API: any cut of a batch gives the same step, the same calls give the
// same bits, a bad step changes nothing, and saving touches only what was trained.
#include "runtime/session.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "graph/builder.h"
#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "graph/support/error.h"
#include "models/lenet.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;
namespace fs = std::filesystem;

std::string lenet_bytes() {
  models::ImageModel options;
  options.init = graph::parse_init("kaiming", 1);
  return graph::to_onnx_bytes(*models::lenet(options));
}

SessionOptions options_of(DType dtype, int threads) {
  SessionOptions options;
  options.threads = threads;
  options.pipeline.dtype = dtype;
  options.pipeline.optimizer.momentum = 0.9;
  options.pipeline.optimizer.weight_decay = 5e-4;
  return options;
}

std::unique_ptr<Session> open(SessionOptions options) {
  return std::make_unique<Session>(graph::Model::from_bytes(lenet_bytes()), std::move(options));
}

Batch random_batch(int64_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> x(rows * 28 * 28);
  for (float& value : x) value = static_cast<float>(random() >> 40) * 0x1p-24f;
  std::vector<int64_t> labels(rows);
  for (int64_t& label : labels) label = static_cast<int64_t>(random() % 10);
  Batch batch;
  batch.inputs.emplace_back("", Tensor::of<float>({rows, 1, 28, 28}, x));
  batch.labels = Tensor::of<int64_t>({rows}, labels);
  return batch;
}

// As evenly as possible, larger parts first.
Cut even_cut(int64_t rows, int64_t parts) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < parts; ++i) sizes.push_back(rows / parts + (i < rows % parts ? 1 : 0));
  return {sizes};
}

std::map<std::string, Tensor> train(Session& session, int64_t rows, int64_t parts, int steps) {
  for (int step = 0; step < steps; ++step) {
    session.train_step(random_batch(rows, 100 + step), even_cut(rows, parts), 0.05);
  }
  std::map<std::string, Tensor> states;
  for (const std::string& name : session.state_names()) {
    if (!name.starts_with("acc/")) states[name] = session.state(name);
  }
  return states;
}

double largest_difference(const std::map<std::string, Tensor>& a,
                          const std::map<std::string, Tensor>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (const auto& [name, value] : a) {
    double scale = 1e-30, difference = 0;
    for (int64_t i = 0; i < value.numel(); ++i) {
      scale = std::max(scale, std::abs(value.as_double(i)));
      difference = std::max(difference, std::abs(value.as_double(i) - b.at(name).as_double(i)));
    }
    largest = std::max(largest, difference / scale);
  }
  return largest;
}

TEST(Session, any_number_of_micro_batches_gives_the_same_five_steps) {
  for (const DType dtype : {DType::kFloat64, DType::kFloat32}) {
    SessionOptions options = options_of(dtype, 2);
    options.pipeline.block = 16;
    for (const int64_t rows : {60, 61}) {
      const auto whole = train(*open(options), rows, 1, 5);
      EXPECT_EQ(whole.size(), 17u);  // 8 parameters, 8 momenta, started
      for (const int64_t parts : {2, 3, 4}) {
        const auto cut = train(*open(options), rows, parts, 5);
        EXPECT_LT(largest_difference(whole, cut), dtype == DType::kFloat64 ? 1e-12 : 1e-5)
            << rows << " rows in " << parts << " micro-batches";
      }
    }
  }
}

TEST(Session, without_blocks_micro_batches_give_the_same_steps_too) {
  SessionOptions options = options_of(DType::kFloat32, 2);
  options.pipeline.block = 0;
  const auto whole = train(*open(options), 61, 1, 5);
  EXPECT_LT(largest_difference(whole, train(*open(options), 61, 4, 5)), 1e-5);
}

TEST(Session, the_same_calls_give_the_same_bits) {
  for (const int threads : {1, 2}) {
    const auto a = train(*open(options_of(DType::kFloat32, threads)), 61, 2, 3);
    const auto b = train(*open(options_of(DType::kFloat32, threads)), 61, 2, 3);
    for (const auto& [name, value] : a) EXPECT_TRUE(value.identical(b.at(name))) << name;
  }
}

TEST(Session, a_draft_leaves_no_states_behind_and_decides_nothing) {
  auto session = open(options_of(DType::kFloat32, 2));
  const size_t state_bytes = session->draft_plan(1)->memory.state_bytes;
  EXPECT_GT(state_bytes, 0u);
  EXPECT_TRUE(session->state_names().empty());
  EXPECT_EQ(session->memory().state_bytes, 0u);
  EXPECT_THROW(session->state("conv1.weight"), Error);
  // One row alone is never worth a block; the draft of it must not keep blocks from the real plan.
  EXPECT_FALSE(session->draft_plan(1)->regions[0].blocked());
  EXPECT_TRUE(session->training_plan(64).regions[0].blocked());
  EXPECT_EQ(session->memory().state_bytes, state_bytes);
}

TEST(Session, micro_batches_find_their_rows_in_data_of_another_type) {
  auto session = open(options_of(DType::kFloat64, 1));
  auto whole = open(options_of(DType::kFloat64, 1));
  Batch batch = random_batch(12, 5);
  batch.inputs[0].second = batch.inputs[0].second.cast(DType::kFloat16);
  Batch plain = batch;
  plain.inputs[0].second = batch.inputs[0].second.cast(DType::kFloat64);
  const double a = session->train_step(batch, {{5, 4, 3}}, 0.05).loss_sum;
  const double b = whole->train_step(plain, {{12}}, 0.05).loss_sum;
  EXPECT_NEAR(a, b, 1e-12 * std::abs(b));
}

TEST(Session, loss_is_the_mean_over_the_batch_and_falls) {
  auto session = open(options_of(DType::kFloat32, 2));
  const Batch batch = random_batch(64, 1);
  const StepResult first = session->train_step(batch, {{64}}, 0.05);
  EXPECT_EQ(first.weight, 64.0);
  EXPECT_NEAR(first.loss, first.loss_sum / 64.0, 1e-6);
  EXPECT_GT(first.grad_norm, 0.0);
  StepResult last;
  for (int i = 0; i < 40; ++i) last = session->train_step(batch, {{64}}, 0.05);
  EXPECT_LT(last.loss, 0.7 * first.loss);
  EXPECT_EQ(session->steps(), 41);
}

TEST(Session, a_step_that_is_not_finite_changes_nothing_and_names_the_cause) {
  auto session = open(options_of(DType::kFloat32, 2));
  session->train_step(random_batch(32, 1), {{32}}, 0.05);
  std::map<std::string, Tensor> before;
  for (const std::string& name : session->state_names()) before[name] = session->state(name);
  Batch bad = random_batch(32, 2);
  bad.inputs[0].second.mutable_data<float>()[5 * 784 + 3] = std::numeric_limits<float>::quiet_NaN();
  try {
    session->train_step(bad, {{16, 16}}, 0.05);
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("step 2"), std::string::npos) << message;
    EXPECT_NE(message.find("sample 5"), std::string::npos) << message;
  }
  for (const auto& [name, value] : before) {
    EXPECT_TRUE(value.identical(session->state(name))) << name;
  }
  EXPECT_EQ(session->steps(), 1);
}

TEST(Session, a_bad_step_that_began_with_a_bad_state_stops_also_where_steps_are_skipped) {
  for (const char* name : {"conv1.weight", "momentum/conv1.weight"}) {
    auto session = open(options_of(DType::kFloat32, 1));
    session->train_step(random_batch(4, 1), {{4}}, 0.05);
    Tensor value = session->state(name);
    value.mutable_data<float>()[0] = std::numeric_limits<float>::infinity();
    session->set_state(name, value);
    EXPECT_EQ(session->first_non_finite_state(), name);
    Batch bad = random_batch(4, 2);
    bad.inputs[0].second.mutable_data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    try {
      session->train_step(bad, {{4}}, 0.05, NonFinite::kSkip);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                fmt::format("step 2: the loss is not finite (nan), and '{}' held such values "
                            "before it: an earlier update overflowed, and leaving out steps can't "
                            "mend that.\n  go on from the newest checkpoint (--resume), or begin "
                            "anew, with a smaller --lr, a longer --warmup or a smaller --clip-norm",
                            name));
    }
    EXPECT_EQ(session->steps(), 1);
  }
}

TEST(Session, a_learning_rate_must_be_a_number_of_at_least_zero) {
  auto session = open(options_of(DType::kFloat32, 1));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const double lr : {-0.1, static_cast<double>(nan)}) {
    EXPECT_THROW(session->train_step(random_batch(4, 1), {{4}}, lr), Error);
  }
  EXPECT_EQ(session->steps(), 0);
  EXPECT_GT(session->train_step(random_batch(4, 1), {{4}}, 0.0).loss, 0.0);
}

TEST(Session, looking_for_the_bad_node_takes_no_step_of_the_good_micro_batches) {
  auto session = open(options_of(DType::kFloat32, 2));
  session->train_step(random_batch(32, 1), {{32}}, 0.05);
  std::map<std::string, Tensor> before;
  for (const std::string& name : session->state_names()) before[name] = session->state(name);
  Batch bad = random_batch(32, 2);
  // Finite, but too large for conv1; in the second micro-batch.
  for (float& value : bad.inputs[0].second.mutable_data<float>().last(784)) value = 3e38f;
  EXPECT_THROW(session->train_step(bad, {{16, 16}}, 0.05), Error);
  for (const auto& [name, value] : before) {
    EXPECT_TRUE(value.identical(session->state(name))) << name;
  }
}

TEST(Session, a_step_needs_a_sample) {
  auto session = open(options_of(DType::kFloat32, 1));
  EXPECT_THROW(session->train_step(random_batch(0, 1), {{}}, 0.05), Error);
  EXPECT_THROW(session->train_step(random_batch(0, 1), {{0}}, 0.05), Error);
  EXPECT_THROW(session->train_step(random_batch(4, 1), {{5, -1}}, 0.05), Error);
  // Empty micro-batches beside others change nothing.
  auto other = open(options_of(DType::kFloat32, 1));
  EXPECT_EQ(session->train_step(random_batch(4, 1), {{0, 2, 0, 2, 0}}, 0.05).loss,
            other->train_step(random_batch(4, 1), {{2, 2}}, 0.05).loss);
}

// y = x w; the file's own values have the names that passes would choose for theirs.
std::string taken_names_bytes() {
  graph::Graph g;
  g.opsets[""] = 13;
  graph::Builder b(g);
  graph::Value* x =
      g.add_input("lr", graph::TensorType(DType::kFloat32, {graph::Dim::named("N"), 2}));
  graph::Value* w = g.add_constant("labels", Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  g.add_output(b.op("MatMul", {x, w}, {}, "grad_norm"));
  return graph::to_onnx_bytes(g);
}

TEST(Session, a_file_may_use_the_names_of_added_inputs_and_outputs) {
  SessionOptions options;
  options.threads = 1;
  Session session(graph::Model::from_bytes(taken_names_bytes()), options);
  Batch batch;
  batch.inputs.emplace_back("lr", Tensor::of<float>({2, 2}, {1, 0, 0, 1}));
  batch.labels = Tensor::of<int64_t>({2}, {0, 1});
  const StepResult result = session.train_step(batch, {{2}}, 0.5);
  EXPECT_GT(result.grad_norm, 0.1);
  EXPECT_NE(session.state("labels").as_double(0), 1.0);
}

// Two branches that are added: the gradients of their biases are one value.
std::string twin_branches_bytes() {
  graph::Graph g;
  g.opsets[""] = 13;
  graph::Builder b(g);
  graph::Value* x =
      g.add_input("x", graph::TensorType(DType::kFloat32, {graph::Dim::named("N"), 2}));
  graph::Value* v = g.add_constant("v", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  graph::Value* u = g.add_constant("u", Tensor::of<float>({2, 3}, {6, 5, 4, 3, 2, 1}));
  graph::Value* a = g.add_constant("a", Tensor::of<float>({3}, {1, 2, 3}));
  graph::Value* c = g.add_constant("c", Tensor::of<float>({3}, {3, 2, 1}));
  g.add_output(b.op("Add", {b.op("Gemm", {x, v, a}), b.op("Gemm", {x, u, c})}, {}, "y"));
  return graph::to_onnx_bytes(g);
}

TEST(Session, micro_batches_add_up_where_two_parameters_have_one_gradient) {
  SessionOptions options;
  options.threads = 1;
  options.pipeline.dtype = DType::kFloat64;
  Batch batch;
  batch.inputs.emplace_back("x", Tensor::of<float>({4, 2}, {1, 0, 0, 1, 1, 1, 2, -1}));
  batch.labels = Tensor::of<int64_t>({4}, {0, 1, 2, 0});
  Session whole(graph::Model::from_bytes(twin_branches_bytes()), options);
  Session cut(graph::Model::from_bytes(twin_branches_bytes()), options);
  for (int i = 0; i < 2; ++i) {
    whole.train_step(batch, {{4}}, 0.5);
    cut.train_step(batch, {{2, 1, 1}}, 0.5);
  }
  for (const char* name : {"a", "c", "u", "v"}) {
    const Tensor expected = whole.state(name), found = cut.state(name);
    for (int64_t i = 0; i < expected.numel(); ++i) {
      EXPECT_NEAR(found.as_double(i), expected.as_double(i), 1e-12) << name << "[" << i << "]";
    }
  }
}

TEST(Session, the_first_bad_node_is_named_when_the_data_is_fine) {
  auto session = open(options_of(DType::kFloat32, 1));
  session->prepare_training({{{32}}});
  Tensor weight = session->state("fc1.weight");
  for (float& value : weight.mutable_data<float>()) value = 3e38f;
  session->set_state("fc1.weight", weight);
  try {
    session->train_step(random_batch(32, 2), {{32}}, 0.05);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("fc1.out"), std::string::npos) << error.what();
  }
}

std::unique_ptr<Session> open_text(const std::string& text) {
  const auto graph = graph::parse(text);
  return std::make_unique<Session>(graph::Model::from_bytes(graph::to_onnx_bytes(*graph)),
                                   options_of(DType::kFloat32, 1));
}

TEST(Session, an_output_that_is_a_converted_input_keeps_its_values) {
  auto session = open_text(R"(<ir_version: 8, opset_import: ["" : 18]>
g (double[2,3] x, double[2,3] b) => (double[2,3] y, double[2,3] z) {
  y = Add(x, b)
  z = Identity(x)
})");
  const std::vector<double> numbers = {7, 8, 9, 10, 11, 12};
  const Tensor x = Tensor::of<double>({2, 3}, numbers);
  const Batch batch = {.inputs = {{"x", x}, {"b", x}}, .labels = {}};
  EXPECT_EQ(session->forward(batch, passes::Mode::kTrain).at(1).second.to_doubles(), numbers);
  const auto dx = session->gradients(batch, {{"y", x}}, {"x"}, passes::Mode::kTrain);
  EXPECT_EQ(dx.at(0).second.to_doubles(), numbers);
}

TEST(Session, rows_are_those_of_the_first_input_of_the_model_that_has_any) {
  auto session = open_text(R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[] s, float[N,2] x, float[3] v) => (float[N,2] y, float[3] w) {
  y = Mul(x, s)
  w = Mul(v, s)
})");
  Batch batch;
  batch.inputs = {{"v", Tensor::of<float>({3}, {1, 2, 3})},
                  {"s", Tensor::scalar<float>(2)},
                  {"x", Tensor::of<float>({2, 2}, {1, 2, 3, 4})}};
  const auto outputs = session->forward(batch, passes::Mode::kEval);
  EXPECT_EQ(outputs[0].second.to_doubles(), (std::vector<double>{2, 4, 6, 8}));
  EXPECT_EQ(outputs[1].second.to_doubles(), (std::vector<double>{2, 4, 6}));
}

class SavedFile : public testing::Test {
 protected:
  SavedFile() : folder_(fs::temp_directory_path() / fmt::format("sardonyx_session_{}", getpid())) {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "lenet.onnx", std::ios::binary) << lenet_bytes();
  }
  ~SavedFile() override { fs::remove_all(folder_); }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  fs::path folder_;
};

TEST_F(SavedFile, without_a_step_it_is_bit_identical) {
  auto session = Session::open(folder_ / "lenet.onnx", options_of(DType::kFloat32, 1));
  session->save(folder_ / "saved.onnx");
  EXPECT_EQ(read(folder_ / "saved.onnx"), read(folder_ / "lenet.onnx"));
}

TEST_F(SavedFile, values_that_were_set_are_saved_before_the_first_step) {
  auto session = Session::open(folder_ / "lenet.onnx", options_of(DType::kFloat32, 1));
  session->prepare_training({{{4}}});
  Tensor bias = session->state("fc1.bias");
  bias.mutable_data<float>()[0] = 0.5f;
  session->set_state("fc1.bias", bias);
  session->save(folder_ / "saved.onnx");
  auto again = Session::open(folder_ / "saved.onnx", options_of(DType::kFloat32, 1));
  again->prepare_training({{{4}}});
  EXPECT_TRUE(again->state("fc1.bias").identical(bias));
}

TEST_F(SavedFile, after_training_it_evaluates_like_the_session) {
  auto session = Session::open(folder_ / "lenet.onnx", options_of(DType::kFloat32, 2));
  for (int i = 0; i < 3; ++i) session->train_step(random_batch(48, i), {{48}}, 0.05);
  session->save(folder_ / "saved.onnx");
  auto again = Session::open(folder_ / "saved.onnx", options_of(DType::kFloat32, 2));
  const Batch test = random_batch(50, 9);
  const EvalResult a = session->evaluate(test, 32), b = again->evaluate(test, 32);
  EXPECT_EQ(a.loss_sum, b.loss_sum);
  EXPECT_EQ(a.correct, b.correct);
  EXPECT_EQ(a.rows, 50);
  EXPECT_TRUE(a.has_top5);
  EXPECT_GE(a.correct_top5, a.correct);
  EXPECT_EQ(read(folder_ / "saved.onnx").size(), read(folder_ / "lenet.onnx").size());
}

TEST_F(SavedFile, dropout_is_inert_unless_the_form_of_the_file_is_kept) {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,4] x) => (float[N,3] y)
<float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[] p = {0.5}, bool[] t = {1}>
{ d = Dropout(x, p, t)  y = MatMul(d, w) })");
  graph::write_onnx(*graph, folder_ / "dropout.onnx");
  auto session = Session::open(folder_ / "dropout.onnx", options_of(DType::kFloat32, 1));
  session->save(folder_ / "saved.onnx");
  EXPECT_EQ(read(folder_ / "saved.onnx"), read(folder_ / "dropout.onnx"));
  Batch batch;
  batch.inputs.emplace_back("x", Tensor::of<float>({1, 4}, {1, 2, 3, 4}));
  batch.labels = Tensor::of<int64_t>({1}, {0});
  session->train_step(batch, {{1}}, 0.1);
  const auto inputs = [&](SaveForm form) {
    EXPECT_TRUE(session->save(folder_ / "saved.onnx", {.form = form}).notices.empty());
    const auto saved = graph::import_model(graph::Model::open(folder_ / "saved.onnx"));
    // The switch goes with its last reader.
    EXPECT_EQ(saved.graph->find("t") == nullptr, form == SaveForm::kInference);
    EXPECT_NE(saved.graph->find("p"), nullptr);
    return saved.graph->nodes().front().num_inputs();
  };
  EXPECT_EQ(inputs(SaveForm::kInference), 2);
  EXPECT_EQ(inputs(SaveForm::kAsInFile), 3);
}

}  // namespace
}  // namespace sardonyx::runtime
