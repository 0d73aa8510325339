// run_cases itself: planted faults are reported as what they are, and never end the run.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "graph/names.h"
#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "models/lenet.h"
#include "ops/core/op.h"
#include "tests/run_cases/case.h"
#include "tests/support/paths.h"
#include "tests/support/shared_data.h"

namespace sardonyx::cases {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Outcome {
  int code = 0;
  std::string text;
};

Outcome run(const std::string& arguments) {
  const std::string command = std::string(SARDONYX_RUN_CASES) + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.text.append(buffer.data(), n);
  }
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

class RunCases : public ::testing::Test {
 protected:
  fs::path add(const std::string& id, json spec) {
    const fs::path folder = folder_.path() / id;
    fs::create_directories(folder);
    spec["id"] = id;
    spec["group"] = "PLANT";
    std::ofstream(folder / "case.json") << spec;
    return folder;
  }
  void plant(const std::string& id, const std::string& fault) {
    add(id, {{"kind", "planted"}, {"fault", fault}});
  }
  Outcome run_all(const std::string& flags = "") const {
    return run(folder_.path().string() + " " + flags);
  }

  sardonyx::testing::TemporaryFolder folder_;
};

void expect_line(const Outcome& outcome, const std::string& line) {
  EXPECT_NE(outcome.text.find(line), std::string::npos) << line << " is not in\n" << outcome.text;
}

TEST_F(RunCases, a_crash_is_one_failure_among_passes) {
  plant("P-1", "none");
  plant("P-2", "crash");
  plant("P-3", "none");
  const Outcome outcome = run_all();
  EXPECT_EQ(outcome.code, 1);
  expect_line(outcome, "PASS P-1\n");
  expect_line(outcome, "FAIL P-2: ended ");
  expect_line(outcome, "PASS P-3\n");
  expect_line(outcome, "\n2 passed, 1 failed, 0 skipped\n");
}

TEST_F(RunCases, a_hang_ends_after_its_time) {
  plant("P-1", "hang");
  const Outcome outcome = run_all("--timeout 1");
  EXPECT_EQ(outcome.code, 1);
  expect_line(outcome, "FAIL P-1: still running after 1 s");
}

TEST_F(RunCases, a_memory_hog_ends_at_its_limit) {
  if (SARDONYX_SANITIZED) GTEST_SKIP() << "a sanitizer reserves terabytes: no limit on memory";
  plant("P-1", "memory");
  expect_line(run_all("--memory 100"), "MB of memory, the limit is 100 MB");
}

TEST_F(RunCases, errors_and_internal_errors_are_told_apart) {
  plant("P-1", "error");
  plant("P-2", "check");
  plant("P-3", "exception");
  plant("P-4", "exit");
  const Outcome outcome = run_all();
  expect_line(outcome, "FAIL P-1: refused: a user's mistake");
  expect_line(outcome, "FAIL P-2: internal error: ");
  expect_line(outcome, "FAIL P-3: internal error: planted");
  expect_line(outcome, "FAIL P-4: ended with code 7 and no verdict");
  // Only faults of Sardonyx count here.
  const Outcome broken = run_all("--only-broken");
  EXPECT_EQ(broken.code, 1);
  expect_line(broken, "\n1 passed, 3 failed, 0 skipped\n");
}

TEST_F(RunCases, filters_choose_cases_and_json_is_json) {
  plant("P-1", "none");
  plant("P-2", "crash");
  const Outcome outcome = run_all("--filter 'P-*' --exclude P-2 --json");
  EXPECT_EQ(outcome.code, 0);
  const json report = json::parse(outcome.text);
  EXPECT_EQ(report["results"].size(), 1u);
  EXPECT_EQ(report["results"][0]["id"], "P-1");
  EXPECT_EQ(report["passed"], 1);
  EXPECT_EQ(run_all("--filter Q").code, 2);
}

TEST_F(RunCases, pending_cases_may_fail_but_neither_crash_nor_pass) {
  plant("P-1", "error");
  const std::string list = (folder_.path() / "pending.txt").string();
  std::ofstream(list) << "# why\nP-*  a part that is not built yet\n";
  const Outcome failing = run_all("--pending " + list);
  EXPECT_EQ(failing.code, 0);
  expect_line(failing, "FAIL P-1 (pending: a part that is not built yet): refused: ");
  expect_line(failing, "\n0 passed, 1 failed, 0 skipped\n");
  plant("P-1", "none");
  const Outcome passing = run_all("--pending " + list);
  EXPECT_EQ(passing.code, 1);
  expect_line(passing, "FAIL P-1: passes, but is listed in " + list + ": remove its line");
  plant("P-1", "crash");
  EXPECT_EQ(run_all("--pending " + list).code, 1);
}

TEST_F(RunCases, a_wrong_expected_value_fails_and_a_right_one_passes) {
  const fs::path cases = sardonyx::testing::shared_folder() / "cases";
  if (!fs::exists(cases)) GTEST_SKIP() << "the shared cases are not there";
  const fs::path from = cases / "CONV-01_stride3_not_dividing";
  const fs::path to = folder_.path() / "copied";
  fs::copy(from, to, fs::copy_options::recursive);
  EXPECT_EQ(run_all().code, 0);
  for (const std::string file : {"output_0.pb", "grads/1.pb"}) {
    const std::string good = sardonyx::testing::read_file(from / file);
    std::string bad = good;
    bad.back() ^= 0x80;  // the sign of the last element
    std::ofstream(to / file, std::ios::binary) << bad;
    const Outcome outcome = run_all();
    EXPECT_EQ(outcome.code, 1) << file;
    expect_line(outcome, file == "output_0.pb" ? "FAIL CONV-01: output 'y': element "
                                               : "FAIL CONV-01: gradient 'W': element ");
    std::ofstream(to / file, std::ios::binary) << good;
  }
}

// A node test of one operator y = op(x) whose operand is these floats.
void add_node_test(const fs::path& folder, const std::string& op, const std::vector<float>& x) {
  fs::create_directories(folder / "test_data_set_0");
  const auto graph =
      graph::parse(fmt::format("<ir_version: 8, opset_import: [\"\" : 17]>\ng (float[{0}] x) => "
                               "(float[{0}] y) {{ y = {1}(x) }}",
                               x.size(), op));
  graph::write_onnx(*graph, folder / "model.onnx");
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(static_cast<int64_t>(x.size()));
  for (const float value : x) tensor.add_float_data(value);
  std::ofstream(folder / "test_data_set_0/input_0.pb", std::ios::binary)
      << tensor.SerializeAsString();
}

TEST_F(RunCases, gradients_are_compared_away_from_kinks) {
  add_node_test(folder_.path() / "test_relu", "Relu", {-1, 0, 2, 3});
  const Outcome outcome = run_all("--gradients");
  EXPECT_EQ(outcome.code, 0);
  expect_line(outcome, "\ngradients: 1 checked, 0 failed, 0 skipped:\n");
  expect_line(outcome, "\n3 elements compared, 1 at kinks, jumps and poles left out\n");
}

TEST_F(RunCases, a_node_test_is_skipped_where_its_operator_is_a_limit) {
  add_node_test(folder_.path() / "test_random", "Bernoulli", {0.5F});
  expect_line(run_all(), "SKIP test_random: operator:Bernoulli: random numbers");
  add_node_test(folder_.path() / "test_unknown", "NoSuchOperator", {0.5F});
  expect_line(run_all(), "FAIL test_unknown: refused: ");
}

TEST_F(RunCases, a_file_without_the_promised_fault_fails) {
  const fs::path folder = add(
      "P-1", {{"kind", "error"}, {"stage", "load"}, {"must_mention", json::array({"anything"})}});
  models::ImageModel options;
  options.init = graph::parse_init("kaiming", 1);
  graph::write_onnx(*models::lenet(options), folder / "model.onnx");
  expect_line(run_all(), "FAIL P-1: no error at stage \"load\"");
}

TEST(Limits, no_operator_that_is_there_is_listed_as_a_limit) {
  std::istringstream lines(
      sardonyx::testing::read_file(sardonyx::tests::source_folder() / "tests/known_limits.txt"));
  for (std::string line; std::getline(lines, line);) {
    const std::string glob = line.substr(0, line.find(' '));
    if (!glob.starts_with("operator:")) continue;
    for (const ops::OpDef* op : ops::OpRegistry::get().all()) {
      EXPECT_FALSE(graph::glob_match(glob, "operator:" + ops::op_label(op->domain, op->name)))
          << line;
    }
  }
}

TEST(Words, each_entry_is_needed_and_one_of_a_list) {
  EXPECT_EQ(missing_words("Shape [1,4] of gemm_bad",
                          json::array({"GEMM_BAD", json::array({"x", "[1,4]"})})),
            "");
  EXPECT_EQ(missing_words("gemm_bad", json::array({"gemm_bad", json::array({"x", "z"})})),
            "[\"x\",\"z\"]");
}

}  // namespace
}  // namespace sardonyx::cases
