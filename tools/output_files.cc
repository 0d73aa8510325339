#include "tools/output_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "graph/support/atomic_file.h"
#include "graph/support/error.h"

namespace sardonyx::tools {

namespace {

// Cheaper than an AtomicFile, which waits for the disk.
bool can_create_beside(const std::string& path) {
  const std::string trial = fmt::format("{}.{}.trial", path, ::getpid());
  const int fd = ::open(trial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  ::close(fd);
  ::unlink(trial.c_str());
  return true;
}

}  // namespace

void check_output(const std::string& flag, const std::string& path, const std::string& input) {
  if (path.empty()) return;
  std::error_code missing;
  if (std::filesystem::equivalent(path, input, missing) && !missing) {
    throw Error("{} {}: that is the input file, which stays as it is; choose another name", flag,
                path);
  }
  if (!std::filesystem::is_directory(path, missing) && can_create_beside(path)) return;
  // The same attempt as a real one, for its message.
  with_context([&] { return fmt::format("preparing {} {}", flag, path); },
               [&] { const support::AtomicFile trial(path, {}); });
}

}  // namespace sardonyx::tools
