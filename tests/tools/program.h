// Runs the built `sardonyx` in a folder of its own and keeps what it said.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/shared_data.h"

namespace sardonyx::testing {

struct Outcome {
  int code = -1;
  std::string out, err;
};

class Program {
 public:
  Program() {}  // Not defaulted, for constant programs without an initializer.
  // Words are split at spaces; there is no shell. SARDONYX_LOG is left as it is.
  Outcome run(const std::string& arguments) const;
  // Starts it and returns at once; `wait` ends the story. `file_limit`: bytes a file may grow to.
  pid_t start(const std::string& arguments, size_t file_limit = 0) const;
  Outcome wait(pid_t process) const;

  const std::filesystem::path& folder() const { return folder_.path(); }
  std::filesystem::path file(const std::string& name) const { return folder_.path() / name; }

 private:
  TemporaryFolder folder_;
};

bool has(const std::string& text, const std::string& part);

// IDX files train-images-idx3-ubyte and so on: `count` images of size x size that show their class,
// and a quarter as many to test. `label_of_last`: the label of the last training image.
void write_idx_set(const std::filesystem::path& folder, int count, int size, int label_of_last = 0);

}  // namespace sardonyx::testing
