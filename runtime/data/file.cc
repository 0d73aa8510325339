// mmap in two roles: a read-only file, and anonymous memory for large arrays.
#include "runtime/data/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "graph/support/error.h"

namespace sardonyx::runtime {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Closes the descriptor on every way out; a mapping outlives it.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) throw Error("{}: cannot open the file: {}", path, std::strerror(errno));
  struct stat info = {};
  if (::fstat(file.fd, &info) != 0) throw Error("{}: {}", path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) {
    throw Error("{}: is {}, expected a plain file", path,
                S_ISDIR(info.st_mode) ? "a directory" : "a device, pipe or socket");
  }
  std::shared_ptr<MappedFile> mapped(new MappedFile());
  if (info.st_size == 0) return mapped;
  size_t size = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (data == MAP_FAILED) throw Error("{}: cannot map the file: {}", path, std::strerror(errno));
  mapped->data_ = static_cast<const std::byte*>(data);
  mapped->size_ = size;
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::shared_ptr<std::byte> allocate_block(size_t bytes) {
  if (bytes < kHugePage) {
    size_t rounded = std::max<size_t>(64, (bytes + 63) / 64 * 64);
    auto* data = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
    if (data == nullptr) throw std::bad_alloc();
    std::memset(data, 0, rounded);
    return {data, [](std::byte* p) { std::free(p); }};
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw Error("cannot get {} bytes of memory for data: {}", bytes, std::strerror(errno));
  }
  ::madvise(data, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(data), [bytes](std::byte* p) { ::munmap(p, bytes); }};
}

std::optional<uint64_t> array_bytes(const std::vector<int64_t>& shape, size_t element_bytes) {
  constexpr uint64_t kLimit = uint64_t{1} << 62;
  uint64_t total = element_bytes;
  bool empty = false;
  for (int64_t dim : shape) {
    const auto factor = static_cast<uint64_t>(std::max<int64_t>(dim, 1));
    if (dim < 0 || total > kLimit / factor) return std::nullopt;
    total *= factor;
    empty = empty || dim == 0;
  }
  return empty ? 0 : total;
}

}  // namespace sardonyx::runtime
