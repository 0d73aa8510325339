// For the tests of `sardonyx check`: files by their text, and the report as JSON.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "tests/tools/program.h"

namespace sardonyx::testing {

using Json = nlohmann::json;

inline constexpr const char* kHead =
    "<ir_version: 8, opset_import: [\"\" : 17, \"acme\" : 1, \"com.microsoft\" : 1]>\n";

class CheckCli : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments) const { return program_.run(arguments); }
  Json json(const std::string& arguments) const {
    const Outcome outcome = run("check --json " + arguments);
    return outcome.out.empty() ? Json() : Json::parse(outcome.out);
  }
  void put(const std::string& name, const std::string& text) const {
    graph::write_onnx(*graph::parse(kHead + text), program_.file(name));
  }
  const Program program_;
};

inline void store(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace sardonyx::testing
