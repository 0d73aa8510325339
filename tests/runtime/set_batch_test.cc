// --set-batch over every fixture whose file fixes the number of rows, and over files of one row:
// with the rows of the file it changes no bit, and more rows are as many runs of the file as it is.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
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
  if (fixtures.empty()) GTEST_SKIP() << "the shared fixtures are not there";
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

// Of the rows [begin, begin + count) of a batch.
Batch part_of(const Batch& batch, int64_t begin, int64_t count) {
  Batch part;
  for (const auto& [name, data] : batch.inputs) {
    part.inputs.emplace_back(name, test::rows_of(data, begin, begin + count));
  }
  return part;
}

// `batch` at once with --set-batch gives what the unmodified file gives in runs of its own rows.
// Outputs that lose the batch aside. Returns the numbers of outputs compared.
int expect_outputs_of_runs(Session& any, Session& file, const Batch& batch, int64_t rows,
                           int64_t rows_of_file) {
  int compared = 0;
  const auto all = any.forward(batch, passes::Mode::kEval);
  for (int64_t begin = 0; begin < rows; begin += rows_of_file) {
    const auto run = file.forward(part_of(batch, begin, rows_of_file), passes::Mode::kEval);
    for (size_t i = 0; i < all.size(); ++i) {
      const Tensor& got = all[i].second;
      if (got.rank() == 0 || !graph::is_floating(got.dtype())) continue;
      const auto difference = test::difference(test::rows_of(got, begin, begin + rows_of_file),
                                               run[i].second, {1e-9, 1e-11});
      EXPECT_FALSE(difference) << "rows from " << begin << ": " << *difference;
      ++compared;
    }
  }
  return compared;
}

TEST(SetBatch, twice_the_rows_are_two_runs_of_the_unmodified_file_in_every_fixture_slow) {
  const std::vector<Fixture> fixtures = baked_fixtures();
  if (fixtures.empty()) GTEST_SKIP() << "the shared fixtures are not there";
  int trained = 0;
  for (const Fixture& fixture : fixtures) {
    SCOPED_TRACE(fixture.id());
    SessionOptions baked = options_of(fixture, graph::DType::kFloat64), set = baked;
    set.pipeline.set_batch = true;
    const int64_t rows = 2 * fixture.rows;
    // With statistics frozen where there is BatchNormalization: evaluation.
    const auto any = Session::open(fixture.model(), set);
    const auto file = Session::open(fixture.model(), baked);
    const Batch batch = batch_of(fixture, *any, rows);
    EXPECT_GT(expect_outputs_of_runs(*any, *file, batch, rows, fixture.rows), 0);
    if (fixture.batch_norm) {
      EXPECT_TRUE(std::isfinite(step_of(fixture, set, rows + 3, {{rows + 3}}).loss));
      continue;
    }
    const Step whole = step_of(fixture, set, rows, {{rows}});
    const Step runs = step_of(fixture, baked, rows, {{fixture.rows, fixture.rows}});
    EXPECT_NEAR(whole.loss, runs.loss, 1e-11 * std::abs(runs.loss));
    EXPECT_FALSE(runs.gradients.empty());
    for (const auto& [name, gradient] : runs.gradients) {
      const auto got = whole.gradients.find(name);
      ASSERT_NE(got, whole.gradients.end()) << name;
      const auto difference = test::difference(got->second, gradient, {1e-9, 1e-11});
      EXPECT_FALSE(difference) << name << ": " << *difference;
    }
    ++trained;
  }
  EXPECT_GE(trained, 30);
}

TEST(SetBatch, any_cut_is_the_same_step_in_every_fixture_without_statistics) {
  for (const Fixture& fixture : baked_fixtures()) {
    if (fixture.batch_norm) continue;
    SCOPED_TRACE(fixture.id());
    SessionOptions options = options_of(fixture, graph::DType::kFloat64);
    options.pipeline.set_batch = true;
    const int64_t rows = fixture.rows + 3;
    const Step whole = step_of(fixture, options, rows, {{rows}});
    const Step cut = step_of(fixture, options, rows, {{1, fixture.rows, 2}});
    EXPECT_NEAR(whole.loss, cut.loss, 1e-11 * std::abs(whole.loss));
    for (const auto& [name, gradient] : whole.gradients) {
      const auto difference = test::difference(cut.gradients.at(name), gradient, {1e-9, 1e-11});
      EXPECT_FALSE(difference) << name << ": " << *difference;
    }
  }
}

// --- files of one row: many axes of size one

struct OneRow {
  const char* name;
  std::vector<int64_t> sample;
  int64_t outputs;
  const char* body;  // of a graph in text form
};

const OneRow kOneRow[] = {
    {"an image of one channel",
     {16},
     2,
     R"(g (float[1,16] x) => (float[1,2] y)
     <int64[4] image = {1, 1, 4, 4}, float[1,1,3,3] k = {1, 2, 0, -1, 3, 1, 0, 2, -2},
      int64[2] flat = {1, -1}, float[4,2] w = {1, 0.5, -1, 2, 0.25, 1, -0.5, -1}>
     { a = Reshape(x, image) b = Conv(a, k) c = Tanh(b) d = Reshape(c, flat) y = MatMul(d, w) })"},
    {"steps times rows in front of a product, and back",
     {3, 2},
     6,
     R"(g (float[1,3,2] x) => (float[1,6] y)
     <int64[2] merged = {3, 2}, float[2,2] w = {1, 0.5, -1, 2}, int64[3] apart = {1, 3, 2},
      int64[2] flat = {1, 6}>
     { a = Reshape(x, merged) b = MatMul(a, w) c = Softmax<axis = -1>(b) d = Reshape(c, apart)
       e = Softmax<axis = 1>(d) y = Reshape(e, flat) })"},
    {"an LSTM with the steps in front",
     {3, 2},
     3,
     R"(g (float[1,3,2] x) => (float[1,3] y)
     <float[1,4,2] w = {1, 0.5, -1, 2, 0.25, 1, -0.5, -1}, float[1,4,1] r = {0.5, -1, 1, 2},
      int64[2] axes = {1, 3}>
     { a = Transpose<perm = [1, 0, 2]>(x) b = LSTM<hidden_size = 1>(a, w, r)
       c = Squeeze(b, axes) y = Transpose<perm = [1, 0]>(c) })"},
    {"heads merged with the rows",
     {2, 4},
     8,
     R"(g (float[1,2,4] x) => (float[1,8] y)
     <float[4,4] wq = {1, 0, 2, -1, 0, 1, 1, 0, -1, 0.5, 0, 1, 2, 0, 1, 1},
      int64[4] heads = {1, 2, 2, 2}, int64[3] merged = {2, 2, 2}, int64[2] flat = {1, 8}>
     { q = MatMul(x, wq) a = Reshape(q, heads) b = Transpose<perm = [0, 2, 1, 3]>(a)
       c = Reshape(b, merged) t = Transpose<perm = [0, 2, 1]>(c) s = MatMul(c, t)
       p = Softmax<axis = -1>(s) o = MatMul(p, c) d = Reshape(o, heads)
       e = Transpose<perm = [0, 2, 1, 3]>(d) y = Reshape(e, flat) })"},
};

std::unique_ptr<Session> open_one_row(const OneRow& file, bool set_batch) {
  SessionOptions options;
  options.pipeline.dtype = graph::DType::kFloat64;
  options.pipeline.loss.kind = "mse";
  options.pipeline.set_batch = set_batch;
  options.pipeline.optimizer.momentum = 0.9;
  const auto graph =
      graph::parse(fmt::format("<ir_version: 8, opset_import: [\"\" : 13]> {}", file.body));
  return std::make_unique<Session>(graph::Model::from_bytes(graph::to_onnx_bytes(*graph)),
                                   std::move(options));
}

TEST(SetBatch, rows_of_a_file_of_one_row_are_as_many_runs_of_it) {
  for (const OneRow& file : kOneRow) {
    SCOPED_TRACE(file.name);
    const auto any = open_one_row(file, true), one = open_one_row(file, false);
    std::vector<int64_t> shape = file.sample;
    shape.insert(shape.begin(), 4);
    Batch batch;
    batch.inputs.emplace_back("x", test::random_tensor(graph::DType::kFloat64, shape, -1, 1, 3));
    batch.labels = test::random_tensor(graph::DType::kFloat64, {4, file.outputs}, -1, 1, 4);
    for (Session* session : {any.get(), one.get()}) {
      session->describe_data({}, batch.labels.type());
    }
    EXPECT_EQ(expect_outputs_of_runs(*any, *one, batch, 4, 1), 4);
    const double loss = any->train_step(batch, {{4}}, 0).loss;
    EXPECT_NEAR(loss, one->train_step(batch, {{1, 1, 1, 1}}, 0).loss, 1e-12 * loss);
    int compared = 0;
    for (const std::string& name : one->state_names()) {
      if (!name.starts_with("momentum/")) continue;
      const auto difference = test::difference(any->state(name), one->state(name), {1e-9, 1e-11});
      EXPECT_FALSE(difference) << name << ": " << *difference;
      ++compared;
    }
    EXPECT_GE(compared, 1);
  }
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

TEST(SetBatch, a_token_that_is_also_read_as_it_stands_gets_a_notice) {
  SessionOptions options;
  options.pipeline.loss.kind = "mse";
  options.pipeline.set_batch = true;
  const auto graph = graph::parse(R"(
    <ir_version: 8, opset_import: ["" : 13]>
    g (float[2,1,3] x) => (float[2,6] y)
    <float[2,1,3] token = {1, -2, 3, 1, -2, 3}, int64[2] flat = {2, 6}>
    {
      a = Concat<axis = 1>(token, x)
      b = Reshape(a, flat)
      top = ReduceMax<keepdims = 0>(token)
      y = Mul(b, top)
    })");
  Session session(graph::Model::from_bytes(graph::to_onnx_bytes(*graph)), std::move(options));
  session.describe_data({}, graph::TensorType(graph::DType::kFloat32, graph::to_dims({2, 6})));
  session.examine(5);
  const std::string notice =
      "--set-batch: 'token' is one row for each sample, and is read as it stands elsewhere: the "
      "row that is repeated is a copy, which isn't trained";
  EXPECT_EQ(std::ranges::count(session.notices(), notice), 1);
}

}  // namespace
}  // namespace sardonyx::runtime
