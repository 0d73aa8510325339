#include "graph/support/atomic_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "graph/support/error.h"
#include "graph/support/file_writer.h"
#include "graph/support/text.h"

namespace sardonyx::support {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// The file behind links, which need not exist: a rename over a link would replace the link.
fs::path follow_links(fs::path target) {
  std::error_code none;
  for (int hops = 0; fs::is_symlink(target, none); ++hops) {
    if (hops == 40) fail_to_write(target, ELOOP);
    target = folder_of(target) / fs::read_symlink(target);
  }
  return target;
}

void check_target(const fs::path& target) {
  struct stat status = {};
  if (!target.has_filename()) throw Error("{}: is no file name", escaped(target.string()));
  if (::lstat(target.c_str(), &status) != 0) {
    if (errno == ENAMETOOLONG) fail_to_write(target, errno);
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

fs::path temporary_name(const fs::path& target) {
  // Process and counter: several threads and processes may save into one folder.
  static std::atomic<unsigned> counter{0};
  for (;;) {
    fs::path name = folder_of(target) / fmt::format(".sardonyx-{}-{}.tmp", ::getpid(), counter++);
    struct stat status = {};
    if (::lstat(name.c_str(), &status) != 0) return name;
  }
}

}  // namespace

AtomicFile::AtomicFile(fs::path target, std::span<const std::string_view> pieces)
    : target_(follow_links(std::move(target))) {
  check_target(target_);
  temporary_ = temporary_name(target_);
  FileWriter file(temporary_, target_);
  try {
    struct stat old = {};
    if (::stat(target_.c_str(), &old) == 0) file.set_mode(old.st_mode & 0777);
    for (std::string_view piece : pieces) file.write(piece);
    file.finish();
  } catch (...) {
    ::unlink(temporary_.c_str());
    throw;
  }
}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::rename() {
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_to_write(target_, errno);
  committed_ = true;
}

void AtomicFile::commit() {
  rename();
  // Without this the new name may be lost when the machine stops.
  sync_folder(folder_of(target_), target_);
}

void AtomicFile::commit_all(std::span<const std::unique_ptr<AtomicFile>> files) {
  for (const auto& file : files) file->rename();
  for (const auto& file : files) sync_folder(folder_of(file->target_), file->target_);
}

}  // namespace sardonyx::support
