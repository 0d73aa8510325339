#include "tests/tools/program.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "graph/support/error.h"
#include "tests/support/paths.h"

namespace sardonyx::testing {

namespace fs = std::filesystem;

namespace {

std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A bright bar whose place is the class.
std::string image(int label, int index, int size) {
  std::string pixels(static_cast<size_t>(size * size), '\0');
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      const int noise = (index * 31 + y * 7 + x * 13) % 60;
      const bool bar = y / 2 == label % (size / 2);
      pixels[static_cast<size_t>(y * size + x)] = static_cast<char>(bar ? 190 + noise : noise);
    }
  }
  return pixels;
}

void write_part(const fs::path& folder, const std::string& part, int count, int size,
                int label_of_last) {
  const auto n = static_cast<uint32_t>(count), side = static_cast<uint32_t>(size);
  std::string images =
      std::string{0, 0, 8, 3} + big_endian(n) + big_endian(side) + big_endian(side);
  std::string labels = std::string{0, 0, 8, 1} + big_endian(n);
  for (int i = 0; i < count; ++i) {
    images += image(i % 10, i, size);
    labels += static_cast<char>(i + 1 == count ? label_of_last : i % 10);
  }
  write(folder / (part + "-images-idx3-ubyte"), images);
  write(folder / (part + "-labels-idx1-ubyte"), labels);
}

}  // namespace

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void write_idx_set(const fs::path& folder, int count, int size, int label_of_last) {
  fs::create_directories(folder);
  write_part(folder, "train", count, size, label_of_last);
  write_part(folder, "t10k", count / 4, size, 0);
}

pid_t Program::start(const std::string& arguments, size_t file_limit) const {
  std::vector<std::string> words = {(tests::build_folder() / "tools/sardonyx").string()};
  std::istringstream stream(arguments);
  for (std::string word; stream >> word;) words.push_back(word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t process = fork();
  CHECK(process >= 0, "fork failed");
  if (process > 0) return process;
  const auto open_as = [](const fs::path& path, int target) {
    dup2(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), target);
  };
  open_as(file("stdout"), STDOUT_FILENO);
  open_as(file("stderr"), STDERR_FILENO);
  if (file_limit > 0) {
    const rlimit limit = {file_limit, file_limit};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (chdir(folder().c_str()) == 0) execv(argv[0], argv.data());
  _exit(127);
}

Outcome Program::wait(pid_t process) const {
  int status = 0;
  CHECK(waitpid(process, &status, 0) == process, "waitpid failed");
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  outcome.out = read_file(file("stdout"));
  outcome.err = read_file(file("stderr"));
  return outcome;
}

Outcome Program::run(const std::string& arguments) const { return wait(start(arguments)); }

}  // namespace sardonyx::testing
