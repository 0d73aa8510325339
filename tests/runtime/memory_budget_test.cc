// --memory-budget over a sweep of budgets: what is accepted is monotone, kept, and changes no loss;
// what is refused is told a number that is accepted.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <ostream>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "models/resnet.h"
#include "runtime/data/batch_cut.h"
#include "runtime/session.h"
#include "tests/support/branched_chain.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;

struct Case {
  const char* name;
  std::function<std::unique_ptr<graph::Graph>()> model;
  std::vector<int64_t> sample;
  int64_t classes = 8, rows = 8;
  int64_t parts = 1;
  int replicas = 1;
  int64_t block = -1;
  double rtol = 0;  // of the loss
};

// The end of the test's name for ctest: the sanitizer stages leave it out, each plans dozens of
// times.
void PrintTo(const Case& c, std::ostream* out) { *out << c.name << "_slow"; }

std::unique_ptr<graph::Graph> resnet() {
  models::ResNet model;
  model.image = {3, 16, 16, 10, graph::parse_init("kaiming", 3)};
  model.width = 8;
  return models::resnet(model);
}

// One value that many long branches read.
std::unique_ptr<graph::Graph> fan_out() {
  std::string scales, body = "  h = MatMul(x, w)\n", sum = "h";
  for (int i = 0; i < 6; ++i) {
    scales += fmt::format(", float[1] k{} = {{{}.5}}", i, i);
    body += fmt::format("  b{0}_0 = Mul(h, k{0})\n", i);
    for (int k = 1; k <= 8; ++k) {
      body +=
          fmt::format("  b{0}_{1} = {2}(b{0}_{3})\n", i, k, k % 2 == 0 ? "Sigmoid" : "Tanh", k - 1);
    }
    const std::string total = i < 5 ? fmt::format("s{}", i) : "y";
    body += fmt::format("  {} = Add({}, b{}_8)\n", total, sum, i);
    sum = total;
  }
  return graph::parse(
      fmt::format("<ir_version: 8, opset_import: [\"\" : 13]>\n"
                  "g (float[N,8] x) => (float[N,8] y)\n<float[8,8] w = {{{}}}{}>\n{{\n{}}}\n",
                  tests::small_numbers(64, 5), scales, body));
}

const Case kCases[] = {
    {"resnet18", resnet, {3, 16, 16}, 10},
    {"resnet18 in parts", resnet, {3, 16, 16}, 10, 14, 3},
    {"resnet18 on two replicas", resnet, {3, 16, 16}, 10, 9, 1, 2},
    {"resnet18 in blocks", resnet, {3, 16, 16}, 10, 20, 1, 1, 16, 1e-4},
    {"chain",
     [] { return graph::parse(tests::branched_chain(120, 1, tests::Branches::kNone)); },
     {8},
     8,
     64},
    {"branches", [] { return graph::parse(tests::branched_chain(120, 2)); }, {8}, 8, 64},
    {"fan-out", fan_out, {8}, 8, 64, 2, 1, 0},
};

std::unique_ptr<Session> open(const Case& c, int64_t budget) {
  SessionOptions options;
  options.threads = 2;
  options.devices.assign(static_cast<size_t>(c.replicas), "cpu");
  options.memory_budget = budget;
  options.pipeline.block = c.block;
  return std::make_unique<Session>(graph::Model::from_bytes(graph::to_onnx_bytes(*c.model())),
                                   std::move(options));
}

std::vector<double> losses(const Case& c, Session& session) {
  std::vector<double> losses;
  CutOptions cut;
  cut.accumulate = c.parts;
  cut.replicas = c.replicas;
  // As a trainer does: a short last batch, too.
  session.prepare_training({cut_batch(c.rows, cut), cut_batch(c.rows - 3, cut)});
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    std::vector<int64_t> shape = c.sample, labels(static_cast<size_t>(c.rows));
    shape.insert(shape.begin(), c.rows);
    for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i * 7) % c.classes;
    Batch batch;
    batch.inputs.emplace_back("", test::random_tensor(DType::kFloat32, shape, -1, 1, seed));
    batch.labels = test::ints({c.rows}, labels);
    losses.push_back(session.train_step(batch, cut_batch(c.rows, cut), 0.1).loss);
  }
  return losses;
}

int64_t number_behind(const std::string& message, const std::string& text) {
  const size_t at = message.find(text);
  return at == std::string::npos ? -1 : std::stoll(message.substr(at + text.size()));
}

class MemoryBudget : public ::testing::TestWithParam<Case> {};

TEST_P(MemoryBudget, is_kept_from_the_least_on_and_refused_below) {
  const Case& c = GetParam();
  const auto free = open(c, 0);
  const std::vector<double> expected = losses(c, *free);
  const auto usual = static_cast<int64_t>(free->planned_bytes());
  const std::string refusal = sardonyx::testing::error_of([&] { losses(c, *open(c, 1)); });
  const int64_t least = number_behind(refusal, " bytes, and ");
  ASSERT_GT(least, 0) << refusal;
  const auto states = static_cast<int64_t>(free->memory().state_bytes) * c.replicas;
  EXPECT_LT(least - states, (usual - states) * 95 / 100) << "nothing is saved: " << refusal;
  RecordProperty("usual", std::to_string(usual));
  RecordProperty("least", std::to_string(least));

  std::vector<int64_t> budgets = {least - 1, least, usual - 1, usual};
  constexpr int kSteps = 5;
  for (int i = 1; i <= kSteps + 1; ++i) budgets.push_back(least + (usual - least) * i / kSteps);
  for (const int64_t budget : budgets) {
    SCOPED_TRACE(fmt::format("{} of {} to {}", budget, least, usual));
    const auto session = open(c, budget);
    if (budget < least) {
      const std::string message = sardonyx::testing::error_of([&] { losses(c, *session); });
      EXPECT_EQ(number_behind(message, " bytes, and "), least) << message;
      continue;
    }
    const std::vector<double> got = losses(c, *session);
    EXPECT_LE(static_cast<int64_t>(session->planned_bytes()), budget);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(std::abs(got[i] - expected[i]), c.rtol * std::abs(expected[i]));
    }
  }
}

// A batch of two pieces, and a shorter one that is a single, larger piece: accumulators are states
// of the first, the larger arena is the second's.
TEST(MemoryBudgetMessage, the_number_of_a_refusal_holds_for_batches_that_are_cut_otherwise) {
  const std::vector<Cut> cuts = {{{4, 4}}, {{7}}};
  const auto prepare = [&](int64_t budget) {
    SessionOptions options;
    options.threads = 1;
    options.memory_budget = budget;
    Session session(graph::Model::from_bytes(graph::to_onnx_bytes(*resnet())), options);
    session.prepare_training(cuts);
  };
  const std::string refusal = sardonyx::testing::error_of([&] { prepare(1); });
  const int64_t least = number_behind(refusal, " bytes, and ");
  ASSERT_GT(least, 0) << refusal;
  EXPECT_NO_THROW(prepare(least));
  EXPECT_THROW(prepare(least - 1), Error);
}

TEST(MemoryBudgetMessage, a_refusal_says_what_can_be_made_smaller) {
  const auto refusal = [](int64_t rows, int replicas) {
    SessionOptions options;
    options.devices.assign(static_cast<size_t>(replicas), "cpu");
    options.threads = replicas;
    options.memory_budget = 1;
    Session session(graph::Model::from_bytes(graph::to_onnx_bytes(*resnet())), options);
    const Cut cut(static_cast<size_t>(replicas), std::vector<int64_t>{rows});
    return sardonyx::testing::error_of([&] { session.prepare_training({cut}); });
  };
  EXPECT_TRUE(refusal(2, 1).ends_with(
      "give that much, or use a smaller --micro-batch or a larger --accumulate"))
      << refusal(2, 1);
  EXPECT_TRUE(refusal(1, 1).ends_with("computed again; give that much")) << refusal(1, 1);
  const std::string two = refusal(2, 2);
  EXPECT_TRUE(two.find("2 rows at once on each of 2 replicas need ") != std::string::npos) << two;
  EXPECT_TRUE(two.ends_with(", or fewer --replicas")) << two;
}

INSTANTIATE_TEST_SUITE_P(Graphs, MemoryBudget, ::testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.name;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace sardonyx::runtime
