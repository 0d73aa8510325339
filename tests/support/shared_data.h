// Finds the cases and fixtures shared by all implementations, outside the source tree.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sardonyx::testing {

// $SARDONYX_SHARED, else ../shared beside the source tree. Empty when neither is there.
std::filesystem::path shared_folder();
// Folders of cases (shared/cases) whose names begin with `prefix`, sorted. A test that needs them
// skips when there are none.
std::vector<std::filesystem::path> shared_cases(const std::string& prefix);
// All folders of shared/fixtures that hold a model.onnx, sorted.
std::vector<std::filesystem::path> shared_fixtures();

std::string read_file(const std::filesystem::path& path);

// A fresh folder below the system's temporary one, removed with its content at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace sardonyx::testing
