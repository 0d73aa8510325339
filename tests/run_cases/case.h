// A case on disk and where cases are found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace sardonyx::cases {

struct Case {
  std::string id;
  std::string group;
  // As case.json says; "fixture"; "node_test" of the ONNX backend, "node_gradient" of the same.
  std::string kind;
  std::filesystem::path folder;
  // Of a node test, what it needs: "operator:Loop", "operator:ai.onnx.ml::Scaler", "type:int4".
  std::vector<std::string> needs = {};
  double seconds = 0;     // the case's own limits; 0: the general ones
  int64_t megabytes = 0;  // resident
};

// All cases at or below the folders (three levels), sorted by id within each. Throws Error for a
// folder that isn't there.
std::vector<Case> find_cases(const std::vector<std::filesystem::path>& folders);

nlohmann::json read_json(const std::filesystem::path& path);
// A TensorProto file. Throws Error.
graph::Tensor read_tensor(const std::filesystem::path& path);

// `text` has every entry of `words`, ignoring case; an entry that is a list needs one of its
// members. Returns the first entry that is missing, "" when none is.
std::string missing_words(const std::string& text, const nlohmann::json& words);

}  // namespace sardonyx::cases
