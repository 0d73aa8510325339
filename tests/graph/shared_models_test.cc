// The shared cases about files (LOAD, EXT, VALID) as far as graph/ decides them, every fixture, and
// damaged files: import answers with a graph or an Error, never anything else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "graph/onnx_import.h"
#include "graph/support/error.h"
#include "tests/support/shared_data.h"

namespace sardonyx::graph {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::read_file;

// Decided by what an operator means (ops/, passes/), or by data. VALID-13 may be a notice.
const std::set<std::string> kDecidedElsewhere = {
    "LOAD-46",  "VALID-09", "VALID-10", "VALID-13", "VALID-17", "VALID-18", "VALID-19", "VALID-20",
    "VALID-21", "VALID-22", "VALID-23", "VALID-24", "VALID-25", "VALID-26", "VALID-27", "VALID-28",
    "VALID-29", "VALID-30", "VALID-31", "VALID-32", "VALID-33", "VALID-34", "VALID-35", "VALID-36",
    "VALID-37", "VALID-38", "VALID-39", "VALID-43", "VALID-45", "VALID-46"};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool mentions(const std::string& message, const json& entry) {
  if (entry.is_string()) return lower(message).find(lower(entry)) != std::string::npos;
  return std::any_of(entry.begin(), entry.end(),
                     [&](const json& e) { return mentions(message, e); });
}

// A copy of the case with its `prepare` and `generate` steps done; outside.bin and the like land in
// `root`.
fs::path prepared(const fs::path& folder, const json& info, const fs::path& root) {
  const fs::path copy = root / "case";
  fs::copy(folder, copy, fs::copy_options::recursive);
  for (const json& step : info.value("prepare", json::array())) {
    if (step.contains("symlink")) {
      fs::create_symlink(step["to"].get<std::string>(), copy / step["symlink"].get<std::string>());
    } else {
      std::ofstream(copy / step["write"].get<std::string>()) << std::string(step["bytes"], 'x');
    }
  }
  if (info.contains("generate")) {
    std::string command =
        "python3 '" + (folder.parent_path() / "make" / "gen_big.py").string() + "'";
    for (const json& argument : info["generate"]["args"])
      command += " " + argument.get<std::string>();
    command += " '" + (copy / "model.onnx").string() + "'";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  return copy / "model.onnx";
}

void check_case(const fs::path& folder) {
  SCOPED_TRACE(folder.filename());
  const json info = json::parse(read_file(folder / "case.json"));
  const testing::TemporaryFolder root;
  const fs::path model = prepared(folder, info, root.path());
  const bool refused = info["kind"] == "error" && !kDecidedElsewhere.contains(info["id"]);
  try {
    const ImportedModel imported = import_model(Model::open(model));
    EXPECT_FALSE(refused);
    if (info.contains("facts") && info["facts"].contains("node_count")) {
      EXPECT_EQ(imported.graph->nodes().size(), info["facts"]["node_count"].get<size_t>());
    }
  } catch (const Error& error) {
    EXPECT_TRUE(refused) << error.what();
    for (const json& entry : info.value("must_mention", json::array())) {
      EXPECT_TRUE(mentions(error.what(), entry)) << entry << " in: " << error.what();
    }
    for (const json& entry : info.value("must_not_print", json::array())) {
      EXPECT_FALSE(mentions(error.what(), entry)) << entry << " in: " << error.what();
    }
  }
}

TEST(SharedCases, files_are_read_or_refused_as_each_case_says) {
  for (const char* group : {"LOAD-", "EXT-", "VALID-"}) {
    const auto folders = testing::shared_cases(group);
    if (folders.empty()) GTEST_SKIP() << "shared data not found";
    for (const fs::path& folder : folders) check_case(folder);
  }
}

TEST(SharedCases, all_other_models_are_read) {
  const auto folders = testing::shared_cases("");
  if (folders.empty()) GTEST_SKIP() << "shared data not found";
  for (const fs::path& folder : folders) {
    const std::string group =
        folder.filename().string().substr(0, folder.filename().string().find('-'));
    if (group == "LOAD" || group == "VALID" || !fs::exists(folder / "model.onnx")) continue;
    SCOPED_TRACE(folder.filename());
    EXPECT_FALSE(import_model(Model::open(folder / "model.onnx")).graph->outputs().empty());
  }
}

TEST(SharedFixtures, every_exported_file_is_imported) {
  const auto folders = testing::shared_fixtures();
  if (folders.empty()) GTEST_SKIP() << "shared data not found";
  for (const fs::path& folder : folders) {
    SCOPED_TRACE(folder.filename());
    const json info = json::parse(read_file(folder / "case.json"));
    const ImportedModel imported = import_model(Model::open(folder / "model.onnx"));
    std::map<std::string, int64_t> histogram;
    for (const Node& node : imported.graph->nodes()) {
      ++histogram[node.domain.empty() ? node.op : node.domain + "::" + node.op];
    }
    for (const auto& [op, count] : info["op_histogram"].items())
      EXPECT_EQ(histogram[op], count) << op;
  }
}

void open_and_import(std::string bytes) {
  try {
    import_model(Model::from_bytes(std::move(bytes)));
  } catch (const Error&) {
  }
}

TEST(DamagedFiles, mutated_bytes_end_in_a_graph_or_an_error) {
  const fs::path root = testing::shared_folder() / "fixtures";
  std::mt19937 random(20240501);
  const auto pick = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  for (const char* name : {"jax2onnx__mlp_functions__default", "torch-ts__lenet__eval-opset9",
                           "skl2onnx__mlp_classifier__zipmap-opset17"}) {
    if (!fs::exists(root / name)) GTEST_SKIP() << "shared data not found";
    const std::string good = read_file(root / name / "model.onnx");
    for (int i = 0; i < 2000; ++i) {
      std::string bad = good;
      const size_t edits = 1 + pick(4);
      for (size_t e = 0; e < edits; ++e) bad[pick(bad.size())] = static_cast<char>(pick(256));
      if (i % 8 == 0) bad.resize(pick(bad.size()));
      if (i % 8 == 1) bad.erase(pick(bad.size()), 1 + pick(16));
      if (i % 8 == 2)
        bad.insert(pick(bad.size()), std::string(1 + pick(8), static_cast<char>(pick(256))));
      open_and_import(std::move(bad));
    }
  }
}

}  // namespace
}  // namespace sardonyx::graph
