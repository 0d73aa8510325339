// --set-batch over every fixture whose file fixes the number of rows: with that number it changes
// no bit, with any other a step is the sum of its samples.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/graph.h"
#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "graph/support/error.h"
#include "runtime/feed.h"
#include "runtime/session.h"
#include "tests/support/shared_data.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

using graph::Tensor;
using nlohmann::json;
namespace fs = std::filesystem;

struct Fixture {
  fs::path folder;
  json spec;
  int64_t rows = 0;  // baked in
  bool batch_norm = false;

  std::string id() const { return folder.filename().string(); }
  fs::path model() const { return folder / "model.onnx"; }
};

SessionOptions options_of(const Fixture& fixture, graph::DType dtype) {
  SessionOptions options;
  options.threads = 2;
  options.pipeline.dtype = dtype;
  options.pipeline.dropout = false;
  const std::string loss = fixture.spec.at("loss");
  options.pipeline.loss.kind = loss == "softmax_cross_entropy" ? "cross_entropy" : loss;
  options.pipeline.loss.output = fixture.spec.at("graph_output");
  options.pipeline.optimizer.momentum = 0.9;
  return options;
}

// Those with a fixed number of rows.
std::vector<Fixture> baked_fixtures() {
  std::vector<Fixture> found;
  for (const fs::path& folder : testing::shared_fixtures()) {
    Fixture fixture{folder, json::parse(testing::read_file(folder / "case.json"))};
    const auto session =
        Session::open(fixture.model(), options_of(fixture, graph::DType::kFloat32));
    fixture.rows = baked_rows(*session);
    if (fixture.rows < 1) continue;
    for (const graph::Node& node : session->imported().nodes()) {
      fixture.batch_norm |= node.is("", "BatchNormalization");
    }
    found.push_back(std::move(fixture));
  }
  return found;
}

// Of `rows` seeded samples.
Batch batch_of(const Fixture& fixture, const Session& session, int64_t rows) {
  const graph::Value& input = *session.data_inputs()[0];
  std::vector<int64_t> shape = input.type.shape();
  shape[0] = rows;
  Batch batch;
  const double high = graph::is_floating(input.type.dtype) ? 1 : 3;
  batch.inputs.emplace_back(input.name, test::random_tensor(input.type.dtype, shape, 0, high, 5));
  SessionOptions options = session.options();
  if (options.pipeline.loss.kind != "mse") {
    const graph::TensorType scores =
        Session::open(fixture.model(), std::move(options))->examine(fixture.rows).scores;
    std::vector<int64_t> labels{rows};
    for (int i = 2; i < scores.rank(); ++i) labels.push_back(scores.dims[i].value);
    batch.labels = test::random_tensor(graph::DType::kInt64, labels, 0,
                                       static_cast<double>(scores.dims[1].value - 1), 6);
  } else {
    batch.labels =
        test::random_tensor(graph::DType::kFloat32,
                            {rows, session.imported().outputs()[0]->type.dims[1].value}, -1, 1, 6);
  }
  return batch;
}

struct Step {
  double loss = 0;
  std::map<std::string, Tensor> gradients;  // of the first step: the momentum
};

Step step_of(const Fixture& fixture, SessionOptions options, int64_t rows, const Cut& cut) {
  const auto session = Session::open(fixture.model(), std::move(options));
  Batch batch = batch_of(fixture, *session, rows);
  session->describe_data({}, batch.labels.type());
  Step step;
  step.loss = session->train_step(batch, cut, 0).loss;
  for (const std::string& name : session->state_names()) {
    if (name.starts_with("momentum/")) step.gradients[name] = session->state(name);
  }
  return step;
}

TEST(SetBatch, with_the_rows_of_the_file_it_changes_no_bit_of_a_fixture) {
  const std::vector<Fixture> fixtures = baked_fixtures();
  if (fixtures.empty()) GTEST_SKIP() << "no fixtures";
  EXPECT_GE(fixtures.size(), 71u);
  for (const Fixture& fixture : fixtures) {
    SCOPED_TRACE(fixture.id());
    SessionOptions options = options_of(fixture, graph::DType::kFloat32);
    const Step baked = step_of(fixture, options, fixture.rows, {{fixture.rows}});
    options.pipeline.set_batch = true;
    const Step set = step_of(fixture, options, fixture.rows, {{fixture.rows}});
    EXPECT_EQ(set.loss, baked.loss);
    EXPECT_FALSE(baked.gradients.empty());
    for (const auto& [name, gradient] : baked.gradients) {
      EXPECT_TRUE(set.gradients.at(name).identical(gradient)) << name;
    }
  }
}

TEST(SetBatch, another_number_of_rows_is_a_step_of_all_its_samples_in_every_fixture) {
  const std::vector<Fixture> fixtures = baked_fixtures();
  if (fixtures.empty()) GTEST_SKIP() << "no fixtures";
  int compared = 0;
  for (const Fixture& fixture : fixtures) {
    SCOPED_TRACE(fixture.id());
    SessionOptions options = options_of(fixture, graph::DType::kFloat64);
    options.pipeline.set_batch = true;
    const int64_t rows = fixture.rows + 3;
    if (fixture.batch_norm) {  // statistics are those of a micro-batch: it runs
      EXPECT_TRUE(std::isfinite(step_of(fixture, options, rows, {{rows}}).loss));
      continue;
    }
    const Step whole = step_of(fixture, options, rows, {{rows}});
    const Step cut = step_of(fixture, options, rows, {{1, fixture.rows, 2}});
    EXPECT_NEAR(whole.loss, cut.loss, 1e-11 * std::abs(whole.loss));
    for (const auto& [name, gradient] : whole.gradients) {
      const auto difference = test::difference(cut.gradients.at(name), gradient, {1e-9, 1e-11});
      EXPECT_FALSE(difference) << name << ": " << *difference;
    }
    // The rows of the file among them, as the file itself computes them.
    const auto any = Session::open(fixture.model(), options);
    const Batch batch = batch_of(fixture, *any, rows);
    options.pipeline.set_batch = false;
    const auto file = Session::open(fixture.model(), options);
    Batch first;
    first.inputs.emplace_back(batch.inputs[0].first,
                              test::rows_of(batch.inputs[0].second, 0, fixture.rows));
    const auto all_rows = any->forward(batch, passes::Mode::kEval);
    const auto few_rows = file->forward(first, passes::Mode::kEval);
    for (size_t i = 0; i < all_rows.size(); ++i) {
      const Tensor& got = all_rows[i].second;
      if (got.rank() == 0 || !graph::is_floating(got.dtype())) continue;
      const auto difference =
          test::difference(test::rows_of(got, 0, fixture.rows), few_rows[i].second, {1e-9, 1e-11});
      EXPECT_FALSE(difference) << *difference;
    }
    ++compared;
  }
  EXPECT_GE(compared, 30);
}

// A class token, expanded for four rows by the exporter.
std::string token_model() {
  return graph::to_onnx_bytes(*graph::parse(R"(
    <ir_version: 8, opset_import: ["" : 13]>
    g (float[4,2,3] x) => (float[4,9] y)
    <float[4,1,3] token = {1, -2, 3, 1, -2, 3, 1, -2, 3, 1, -2, 3}, int64[2] flat = {4, 9}>
    {
      a = Concat<axis = 1>(token, x)
      b = Tanh(a)
      y = Reshape(b, flat)
    })"));
}

std::unique_ptr<Session> open_token(bool set_batch) {
  SessionOptions options;
  options.pipeline.loss.kind = "mse";
  options.pipeline.set_batch = set_batch;
  if (!set_batch) options.pipeline.trainable.train = {"token"};
  options.pipeline.optimizer.momentum = 0.9;
  return std::make_unique<Session>(graph::Model::from_bytes(token_model()), std::move(options));
}

Batch token_batch(int64_t rows) {
  Batch batch;
  batch.inputs.emplace_back("x",
                            test::random_tensor(graph::DType::kFloat32, {rows, 2, 3}, -1, 1, 3));
  batch.labels = test::random_tensor(graph::DType::kFloat32, {rows, 9}, -1, 1, 4);
  return batch;
}

TEST(SetBatch, an_expanded_token_is_trained_as_one_row_with_the_sum_of_its_gradients) {
  const auto one = open_token(true), apart = open_token(false);
  for (const auto& session : {one.get(), apart.get()}) {
    session->describe_data({}, token_batch(4).labels.type());
    session->train_step(token_batch(4), {{4}}, 0);
  }
  const Tensor got = one->state("momentum/token"), rows = apart->state("momentum/token");
  ASSERT_EQ(got.shape(), (std::vector<int64_t>{1, 1, 3}));
  ASSERT_EQ(rows.shape(), (std::vector<int64_t>{4, 1, 3}));
  for (int64_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (int64_t row = 0; row < 4; ++row) sum += rows.as_double(3 * row + i);
    EXPECT_NEAR(got.as_double(i), sum, 1e-7);
    EXPECT_NE(sum, 0);
  }
}

TEST(SetBatch, the_saved_file_keeps_its_rows_and_holds_the_trained_one_in_each) {
  const testing::TemporaryFolder folder;
  const auto session = open_token(true);
  session->describe_data({}, token_batch(7).labels.type());
  session->train_step(token_batch(7), {{7}}, 0.5);
  const Tensor trained = session->state("token");
  EXPECT_NE(trained.as_double(0), 1);
  session->save(folder.path() / "saved.onnx");
  const auto saved = graph::import_model(graph::Model::open(folder.path() / "saved.onnx"));
  const graph::Value* token = saved.graph->find("token");
  ASSERT_EQ(token->data.shape(), (std::vector<int64_t>{4, 1, 3}));
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(token->data.as_double(i), trained.as_double(i % 3));
  EXPECT_EQ(saved.graph->find("flat")->data.to_ints(), (std::vector<int64_t>{4, 9}));
  EXPECT_EQ(saved.graph->inputs()[0]->type.dims[0].value, 4);
}

TEST(SetBatch, an_expanded_token_is_no_parameter_of_the_file_as_it_is) {
  SessionOptions options;
  options.pipeline.loss.kind = "mse";
  Session session(graph::Model::from_bytes(token_model()), std::move(options));
  session.describe_data({}, token_batch(4).labels.type());
  const Examination found = session.examine(4);
  ASSERT_EQ(found.parameters.size(), 2u);
  EXPECT_EQ(found.parameters[0].name, "token");
  EXPECT_EQ(found.parameters[0].role, passes::ParameterRow::Role::kConstant);
  EXPECT_EQ(found.parameters[0].reason,
            "one equal row for each sample of the batch in the file; --set-batch trains it as one "
            "row, --train as many");
}

}  // namespace
}  // namespace sardonyx::runtime
