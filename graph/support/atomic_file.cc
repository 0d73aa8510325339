#include "graph/support/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::support {
namespace {

namespace fs = std::filesystem;

const char* advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space or choose another disk";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; choose a folder that you may write to";
    case ENOENT:
    case ENOTDIR:
      return "; its folder does not exist, create it first";
    default:
      return "";
  }
}

[[noreturn]] void fail(const fs::path& target, int error) {
  throw Error("{}: cannot be written: {}{}", escaped(target.string()), std::strerror(error),
              advice(error));
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// The file behind links, which need not exist: a rename over a link would replace the link.
fs::path follow_links(fs::path target) {
  std::error_code none;
  for (int hops = 0; fs::is_symlink(target, none); ++hops) {
    if (hops == 40) fail(target, ELOOP);
    target = folder_of(target) / fs::read_symlink(target);
  }
  return target;
}

void check_target(const fs::path& target) {
  struct stat status = {};
  if (!target.has_filename()) throw Error("{}: is no file name", escaped(target.string()));
  if (::lstat(target.c_str(), &status) != 0) {
    if (errno == ENAMETOOLONG) fail(target, errno);
    return;
  }
  if (S_ISDIR(status.st_mode)) {
    throw Error("{}: is a directory, expected the name of a file", escaped(target.string()));
  }
  // A rename would replace a device such as /dev/null by a file.
  if (!S_ISREG(status.st_mode)) {
    throw Error("{}: is not a regular file", escaped(target.string()));
  }
}

// Closes on every way out; close() reports what a late write could not do.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

int open_temporary(const fs::path& target, fs::path& temporary) {
  // Process and counter: several threads and processes may save into one folder.
  static std::atomic<unsigned> counter{0};
  for (;;) {
    temporary = folder_of(target) / fmt::format(".sardonyx-{}-{}.tmp", ::getpid(), counter++);
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) return fd;
    if (errno != EEXIST) {
      const int error = errno;
      temporary.clear();
      fail(target, error);
    }
  }
}

void write_all(int fd, std::string_view bytes, const fs::path& target) {
  constexpr size_t kPart = size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kPart));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(target, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void remove_quietly(const fs::path& path) {
  if (!path.empty()) ::unlink(path.c_str());
}

}  // namespace

AtomicFile::AtomicFile(fs::path target, std::span<const std::string_view> pieces)
    : target_(follow_links(std::move(target))) {
  check_target(target_);
  Descriptor file(open_temporary(target_, temporary_));
  try {
    struct stat old = {};
    if (::stat(target_.c_str(), &old) == 0) ::fchmod(file.get(), old.st_mode & 0777);
    for (std::string_view piece : pieces) write_all(file.get(), piece, target_);
    if (::fsync(file.get()) != 0) fail(target_, errno);
    if (file.close() != 0) fail(target_, errno);
  } catch (...) {
    remove_quietly(temporary_);
    throw;
  }
}

AtomicFile::~AtomicFile() {
  if (!committed_) remove_quietly(temporary_);
}

void AtomicFile::commit() {
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(target_, errno);
  committed_ = true;
  // Without this the new name may be lost when the machine stops. Some file systems cannot do it.
  Descriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0 && ::fsync(folder.get()) != 0 && errno != EINVAL) fail(target_, errno);
}

}  // namespace sardonyx::support
