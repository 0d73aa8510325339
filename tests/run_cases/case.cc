#include "tests/run_cases/case.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "graph/support/error.h"
#include "graph/tensor_message.h"
#include "tests/run_cases/node_needs.h"
#include "tests/support/shared_data.h"

namespace sardonyx::cases {

namespace fs = std::filesystem;
using nlohmann::json;

json read_json(const fs::path& path) { return json::parse(testing::read_file(path)); }

graph::Tensor read_tensor(const fs::path& path) {
  const auto bytes = std::make_shared<const std::string>(testing::read_file(path));
  const auto* data = reinterpret_cast<const std::byte*>(bytes->data());
  const std::span<const std::byte> file(data, bytes->size());
  return graph::decode_inline(graph::read_tensor_message(file, {0, file.size()}), file, bytes);
}

namespace {

// The text before the first occurrence of `separator`.
std::string head_of(const std::string& text, const std::string& separator) {
  return text.substr(0, text.find(separator));
}

Case from_json(const fs::path& folder) {
  const json spec = read_json(folder / "case.json");
  Case found;
  found.folder = folder;
  if (spec.contains("kind")) {
    found.id = spec.at("id");
    found.group = spec.at("group");
    found.kind = spec.at("kind");
    if (spec.contains("limits")) {
      found.seconds = spec["limits"].value("seconds", 0.0);
      found.megabytes = spec["limits"].value("megabytes", int64_t{0});
    }
  } else {
    found.id = folder.filename().string();
    found.group = head_of(found.id, "__");
    found.kind = "fixture";
  }
  return found;
}

void collect(const fs::path& folder, int depth, std::vector<Case>& cases) {
  if (fs::exists(folder / "case.json")) {
    cases.push_back(from_json(folder));
    return;
  }
  if (fs::exists(folder / "model.onnx") && fs::is_directory(folder / "test_data_set_0")) {
    cases.push_back({folder.filename().string(), "node", "node_test", folder, needs_of(folder)});
    return;
  }
  if (depth == 0) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) collect(entry.path(), depth - 1, cases);
  }
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

std::vector<Case> find_cases(const std::vector<fs::path>& folders) {
  std::vector<Case> all;
  for (const fs::path& folder : folders) {
    if (!fs::is_directory(folder)) throw Error("'{}' is not a folder", folder.string());
    std::vector<Case> cases;
    collect(folder, 3, cases);
    std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.id < b.id; });
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

std::string missing_words(const std::string& text, const json& words) {
  const std::string found = lower(text);
  for (const json& entry : words) {
    const json options = entry.is_array() ? entry : json::array({entry});
    const bool any = std::any_of(options.begin(), options.end(), [&](const json& word) {
      return found.find(lower(word.get<std::string>())) != std::string::npos;
    });
    if (!any) return entry.dump();
  }
  return "";
}

}  // namespace sardonyx::cases
