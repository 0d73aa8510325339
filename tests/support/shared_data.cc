#include "tests/support/shared_data.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "graph/support/error.h"
#include "tests/support/paths.h"

namespace sardonyx::testing {

namespace fs = std::filesystem;

fs::path shared_folder() {
  if (const char* folder = std::getenv("SARDONYX_SHARED")) return folder;
  const fs::path beside = tests::source_folder().parent_path() / "shared";
  return fs::exists(beside) ? beside : fs::path();
}

namespace {

std::vector<fs::path> folders(const fs::path& root, const std::string& prefix) {
  std::vector<fs::path> found;
  if (!fs::is_directory(root)) return found;
  for (const auto& entry : fs::directory_iterator(root)) {
    const bool matches = entry.path().filename().string().starts_with(prefix);
    if (matches && fs::exists(entry.path() / "case.json")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::vector<fs::path> shared_cases(const std::string& prefix) {
  return shared_folder().empty() ? std::vector<fs::path>()
                                 : folders(shared_folder() / "cases", prefix);
}

std::vector<fs::path> shared_fixtures() {
  if (shared_folder().empty()) return {};
  std::vector<fs::path> found = folders(shared_folder() / "fixtures", "");
  std::erase_if(found, [](const fs::path& p) { return !fs::exists(p / "model.onnx"); });
  return found;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file.good(), "cannot read {}", path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "sardonyx-test-XXXXXX").string();
  CHECK(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace sardonyx::testing
