// A regular file mapped read-only. The bytes stay valid while the object lives, also when the file
// is replaced by a rename meanwhile. A file that another program cuts short while it is mapped
// cannot be guarded against.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace sardonyx::support {

class MappedFile {
 public:
  // Throws Error: missing, no permission, a directory, not a regular file.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Gives the memory of pages that were read back; who reads the bytes again gets them again.
  void release() const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace sardonyx::support
