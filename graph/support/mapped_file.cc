#include "graph/support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::support {
namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const std::string name = escaped(path.string());
  Descriptor file;
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd < 0) {
    if (errno == ENOENT) throw Error("{}: no such file", name);
    throw Error("{}: cannot be opened: {}", name, std::strerror(errno));
  }
  struct stat status = {};
  if (::fstat(file.fd, &status) != 0) throw Error("{}: {}", name, std::strerror(errno));
  if (S_ISDIR(status.st_mode)) throw Error("{}: is a directory, expected a file", name);
  if (!S_ISREG(status.st_mode)) throw Error("{}: is not a regular file", name);

  std::shared_ptr<MappedFile> mapped(new MappedFile);
  if (status.st_size == 0) return mapped;
  const auto size = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) throw Error("{}: cannot be mapped: {}", name, std::strerror(errno));
  mapped->data_ = static_cast<const std::byte*>(data);
  mapped->size_ = size;
  return mapped;
}

void MappedFile::release() const {
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace sardonyx::support
