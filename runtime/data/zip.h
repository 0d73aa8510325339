// Reading zip archives, as far as .npz needs them: stored and deflated members, zip64.
//
// The central directory is the truth; every number in it is checked against the file before it is
// used. Encrypted members and archives in several volumes are refused.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/file.h"

namespace sardonyx::runtime {

class ZipArchive {
 public:
  struct Member {
    std::string name;
    uint16_t flags = 0;
    uint16_t method = 0;  // 0 stored, 8 deflated
    uint32_t crc = 0;
    uint64_t compressed = 0;
    uint64_t size = 0;
    uint64_t header_offset = 0;
  };
  // A member's bytes: a view into the archive when it was stored, else decompressed; `owner` keeps
  // them.
  struct Content {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };

  // Throws Error when `path` is not a readable zip archive.
  explicit ZipArchive(const std::string& path);

  const std::vector<Member>& members() const { return members_; }
  // Throws Error when the member is damaged (its checksum is verified) or uses an unknown method.
  Content read(const Member& member) const;

 private:
  void read_directory(uint64_t offset, uint64_t size, uint64_t count);

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::vector<Member> members_;
};

}  // namespace sardonyx::runtime
