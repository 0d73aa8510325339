// Bytes of a data set: mapped files and large blocks of memory.
//
// A file is mapped, not read, so an uncompressed data set costs no private memory. It must not be
// shortened while it is in use. Memory for decompressed data asks for huge pages: the first touch
// of small pages would cost more than the decompression.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sardonyx::runtime {

class MappedFile {
 public:
  // Throws Error when `path` is missing, unreadable or not a plain file. An empty file is fine.
  static std::shared_ptr<const MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Zero-filled, 64-byte aligned; pages are touched only when written.
std::shared_ptr<std::byte> allocate_block(size_t bytes);

// Bytes of an array, or nothing when they would overflow 2^62 if each zero dimension were 1
// (graph::checked_numel refuses such shapes). A zero dimension makes it 0.
std::optional<uint64_t> array_bytes(const std::vector<int64_t>& shape, size_t element_bytes);

}  // namespace sardonyx::runtime
