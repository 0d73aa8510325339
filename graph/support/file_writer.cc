#include "graph/support/file_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::support {

namespace fs = std::filesystem;

namespace {

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

}  // namespace

void fail_to_write(const fs::path& shown, int error) {
  throw Error("{}: cannot be written: {}{}", escaped(shown.string()), std::strerror(error),
              advice(error));
}

FileWriter::FileWriter(const fs::path& path, fs::path shown) : shown_(std::move(shown)) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_to_write(shown_, errno);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::set_mode(unsigned mode) { ::fchmod(fd_, mode); }

void FileWriter::write(std::string_view bytes) {
  constexpr size_t kPart = size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), std::min(bytes.size(), kPart));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(shown_, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void FileWriter::finish() {
  if (::fsync(fd_) != 0) fail_to_write(shown_, errno);
  // A late write may still fail here.
  if (::close(std::exchange(fd_, -1)) != 0) fail_to_write(shown_, errno);
}

void sync_folder(const fs::path& folder, const fs::path& shown) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  const int error = ::fsync(fd) != 0 ? errno : 0;
  ::close(fd);
  if (error != 0 && error != EINVAL) fail_to_write(shown, error);
}

}  // namespace sardonyx::support
