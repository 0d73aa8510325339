// Golden IR text: tests/passes/PASS/CLAIM.txt holds an input graph, "-----" and the graph after the
// passes named in its head. UPDATE_GOLDEN=1 rewrites the expected part; the diff is reviewed like
// code.
//
// Head lines: "# why: ..." (required), "# passes: a, b", "# options: key=value key=value".
// Every golden is also executed: values that exist in both graphs must agree on random small
// tensors; where stages of the lowering stand behind the passes, the outputs and states of the
// whole plan, run on option threads=N threads in memory full of NaN. A head line "# not executed:
// REASON" says why that can't hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "graph/parse.h"
#include "graph/print.h"
#include "passes/lower.h"
#include "tests/support/interpret.h"
#include "tests/support/paths.h"
#include "tests/support/run_plan.h"

namespace sardonyx::passes {
namespace {

namespace fs = std::filesystem;

struct Golden {
  fs::path path;
  std::string head, input, expected, why, not_executed;
  std::vector<std::string> passes;
  PipelineOptions options;
  int threads = 1;

  bool lowers() const {
    return std::find(passes.begin(), passes.end(), "form_regions") != passes.end();
  }
};

std::vector<std::string> split(const std::string& text, const char* separators) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while ((begin = text.find_first_not_of(separators, begin)) != std::string::npos) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

void set_option(Golden& golden, const std::string& key, const std::string& value) {
  PipelineOptions& options = golden.options;
  static const std::map<std::string, MicroBatch> kMicroBatches = {
      {"only", MicroBatch::kOnly},
      {"first", MicroBatch::kFirst},
      {"middle", MicroBatch::kMiddle},
      {"last", MicroBatch::kLast},
      {"none", MicroBatch::kNone},
      {"none_first", MicroBatch::kNoneFirst},
      {"none_middle", MicroBatch::kNoneMiddle},
      {"none_last", MicroBatch::kNoneLast}};
  if (key == "batch") {
    options.batch = std::stoll(value);
  } else if (key == "set_batch") {
    options.set_batch = value == "on";
  } else if (key == "mode") {
    options.mode = value == "eval" ? Mode::kEval : Mode::kTrain;
  } else if (key == "dtype") {
    options.dtype = graph::dtype_from_name(value);
  } else if (key == "precision") {
    ASSERT_EQ(value, "bf16");
    options.precision = Precision::kBFloat16;
  } else if (key == "micro_batch") {
    options.micro_batch = kMicroBatches.at(value);
  } else if (key == "replicas") {
    options.reduce.replicas = std::stoi(value);
  } else if (key == "sync") {
    options.sync_statistics = value == "on";
  } else if (key == "wire") {
    options.reduce.wire = graph::dtype_from_name(value);
  } else if (key == "first_bucket_bytes") {
    options.reduce.first_bucket_bytes = std::stoll(value);
  } else if (key == "bucket_bytes") {
    options.reduce.bucket_bytes = std::stoll(value);
  } else if (key == "loss") {
    options.loss.kind = value;
  } else if (key == "loss_output") {
    options.loss.loss_output = value;
  } else if (key == "output") {
    options.loss.output = value;
  } else if (key == "momentum") {
    options.optimizer.momentum = std::stod(value);
  } else if (key == "optimizer") {
    options.optimizer.kind = value;
  } else if (key == "weight_decay") {
    options.optimizer.weight_decay = std::stod(value);
  } else if (key == "no_decay") {
    (value == "bias" ? options.optimizer.decay_biases : options.optimizer.decay_norms) = false;
  } else if (key == "clip_norm") {
    options.optimizer.clip_norm = std::stod(value);
  } else if (key == "clip_value") {
    options.optimizer.clip_value = std::stod(value);
  } else if (key == "ema") {
    options.optimizer.ema = std::stod(value);
  } else if (key == "group") {  // GLOB,LR_FACTOR[,WEIGHT_DECAY]
    const std::vector<std::string> parts = split(value, ",");
    OptimizerGroup& group = options.optimizer.groups.emplace_back(OptimizerGroup{parts.at(0)});
    group.lr_factor = std::stod(parts.at(1));
    if (parts.size() > 2) group.weight_decay = std::stod(parts[2]);
  } else if (key == "freeze") {
    options.trainable.freeze.push_back(value);
  } else if (key == "train") {
    options.trainable.train.push_back(value);
  } else if (key == "seeds") {
    options.gradient.seeds = split(value, ",");
  } else if (key == "wrt") {
    options.gradient.wrt = split(value, ",");
  } else if (key == "dropout") {
    options.dropout = value != "off";
  } else if (key == "recompute_cost") {
    options.recompute.cost = std::stod(value);
  } else if (key == "rung") {
    options.recompute.rung = std::stoi(value);
  } else if (key == "block") {
    options.block = std::stoll(value);
  } else if (key == "lanes") {
    options.lanes = std::stoll(value);
  } else if (key == "threads") {
    golden.threads = std::stoi(value);
  } else {
    FAIL() << "unknown option " << key;
  }
}

Golden read_golden(const fs::path& path) {
  Golden golden;
  golden.path = path;
  std::ifstream file(path);
  std::string line;
  bool after = false;
  while (std::getline(file, line)) {
    if (line == "-----") {
      after = true;
    } else if (after) {
      golden.expected += line + "\n";
    } else if (line.starts_with("# ") && golden.input.empty()) {
      golden.head += line + "\n";
      if (line.starts_with("# why: ")) golden.why = line.substr(7);
      if (line.starts_with("# not executed: ")) golden.not_executed = line.substr(16);
      if (line.starts_with("# passes: ")) golden.passes = split(line.substr(10), ", ");
      if (line.starts_with("# options: ")) {
        for (const std::string& option : split(line.substr(11), " ")) {
          const size_t equals = option.find('=');
          set_option(golden, option.substr(0, equals), option.substr(equals + 1));
        }
      }
    } else {
      golden.input += line + "\n";
    }
  }
  return golden;
}

void expect_close(const graph::Tensor& a, const graph::Tensor& b, const std::string& name) {
  ASSERT_EQ(a.shape(), b.shape()) << name;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const double x = a.as_double(i), y = b.as_double(i);
    if (std::isnan(x) && std::isnan(y)) continue;
    EXPECT_NEAR(x, y, 1e-5 * std::max(1.0, std::abs(y))) << name << "[" << i << "]";
  }
}

bool runnable(const graph::Graph& graph) {
  for (const graph::Value& value : graph.values()) {
    if (!value.type.is_static()) return false;
  }
  return true;
}

void execute_both(const graph::Graph& before, const graph::Graph& after) {
  auto feeds = tests::random_feeds(before, 7);
  for (const auto& [name, value] : tests::random_feeds(after, 7)) feeds.emplace(name, value);
  const tests::Interpreted a = tests::interpret(before, feeds);
  const tests::Interpreted b = tests::interpret(after, feeds);
  int compared = 0;
  for (const auto& [name, value] : a.values) {
    const auto it = b.values.find(name);
    if (it == b.values.end() || value.dtype() != it->second.dtype()) continue;
    expect_close(value, it->second, name);
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

// The plan of the golden's graph against the same graph node by node.
void execute_plan(const Golden& golden, std::unique_ptr<graph::Graph> graph) {
  const NullTarget target(golden.threads);
  PassContext context;
  context.options = golden.options;
  context.target = &target;
  const auto first_stage = std::find(golden.passes.begin(), golden.passes.end(), "form_regions");
  Lowering lowering;
  lowering.graph = std::move(graph);
  StateTable states;
  run_named(lowering, context, states, {golden.passes.begin(), first_stage});
  const auto feeds = tests::random_feeds(*lowering.graph, 7);
  const tests::Interpreted want = tests::interpret(*lowering.graph, feeds);
  const tests::PlanRun got =
      tests::run_plan(std::move(lowering.graph), context, golden.threads, feeds);
  for (const auto& [name, value] : got.outputs) expect_close(value, want.values.at(name), name);
  for (const auto& [name, value] : got.states) expect_close(value, want.states.at(name), name);
}

class GoldenTest : public testing::TestWithParam<fs::path> {};

TEST_P(GoldenTest, graph_after_passes) {
  Golden golden = read_golden(GetParam());
  ASSERT_FALSE(golden.why.empty()) << "the first line must say why";
  ASSERT_FALSE(golden.passes.empty());
  const auto before = graph::parse(golden.input);
  // Constants of the text stand for tensors of a file.
  for (graph::Value* constant : before->constants()) {
    constant->origin = {graph::Origin::Kind::kInitializer, "", -1, -1, constant->name, ""};
  }
  Lowering after;
  after.graph = before->clone();
  const NullTarget target(golden.threads);
  PassContext context;
  context.options = golden.options;
  context.target = &target;
  StateTable states;
  std::string printed;
  try {
    run_named(after, context, states, golden.passes);
    printed = print(after);
  } catch (const Error& error) {
    std::istringstream lines(error.what());
    for (std::string line; std::getline(lines, line);) printed += "error: " + line + "\n";
  }
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(golden.path) << golden.head << golden.input << "-----\n" << printed;
  } else {
    EXPECT_EQ(golden.expected, printed);
  }
  if (printed.starts_with("error: ") || !golden.not_executed.empty()) return;
  if (golden.lowers()) return execute_plan(golden, before->clone());
  // Types first: the input may be written without them.
  PassContext typing;
  typing.options = golden.options;
  typing.target = &target;
  run_pipeline(*before, typing, {{"infer_shapes", ""}});
  if (runnable(*before) && runnable(*after.graph)) execute_both(*before, *after.graph);
}

std::vector<fs::path> goldens() {
  std::vector<fs::path> paths;
  for (const auto& entry :
       fs::recursive_directory_iterator(tests::source_folder() / "tests/passes")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

INSTANTIATE_TEST_SUITE_P(passes, GoldenTest, testing::ValuesIn(goldens()), [](const auto& info) {
  return info.param.parent_path().filename().string() + "_" + info.param.stem().string();
});

}  // namespace
}  // namespace sardonyx::passes
