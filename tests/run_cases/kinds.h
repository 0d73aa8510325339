// One function per kind of case. Each runs in a child process, goes through the session API alone,
// and throws Mismatch (verdict.h) when something isn't as case.json says.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/run_cases/case.h"
#include "tests/run_cases/verdict.h"

namespace sardonyx::cases {

// How sessions run, beside what the case says: the same numbers must come out of every variant.
struct Variant {
  std::string device = "cpu";
  int threads = 2;
  std::string dtype = "f32";       // compute type
  int64_t block = -1, lanes = -1;  // as in PipelineOptions
  bool reference = false;          // reference kernels alone
};

// The case as a kind sees it: its folder (a copy where files have to be made), a folder for what is
// written, and case.json.
struct Task {
  const Case& which;
  std::filesystem::path folder;
  std::filesystem::path scratch;
  const nlohmann::json& spec;
  const Variant& variant;
  std::vector<std::string> notes;  // out
  Points points = {};              // out

  std::filesystem::path model() const { return folder / "model.onnx"; }
  std::filesystem::path file(const std::string& name) const { return folder / name; }
};

void run_forward(Task& task);
void run_gradient(Task& task);
void run_train(Task& task);
void run_error(Task& task);
void run_inspect(Task& task);
void run_data(Task& task);
void run_fixture(Task& task);
void run_node_test(Task& task);
void run_node_gradient(Task& task);
// Misbehaves as case.json asks: for the tests of run_cases itself.
void run_planted(Task& task);

// Makes files (`prepare`, `generate`), calls `begin` and runs the kind. For a child process.
Verdict run_case(const Case& which, const std::filesystem::path& scratch, const Variant& variant,
                 const std::function<void()>& begin);

}  // namespace sardonyx::cases
