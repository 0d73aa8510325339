// Record layouts: PKWARE APPNOTE 6.3, sections 4.3.7 (local header), 4.3.12 (directory
// entry), 4.3.14-16 (ends), 4.5.3 (zip64 extra field). All numbers are little-endian.
#include "runtime/data/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "graph/support/error.h"
#include "runtime/data/inflate.h"

namespace sardonyx::runtime {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr uint64_t kEndSize = 22;
constexpr uint64_t kLocatorSize = 20;
constexpr uint32_t kInZip64 = 0xffffffff;  // "the number stands in the zip64 field"

// Little-endian numbers at checked positions.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, uint64_t position, const std::string& path)
      : bytes_(bytes), position_(position), path_(path) {}

  uint64_t number(int size) {
    std::span<const std::byte> raw = take(size);
    uint64_t value = 0;
    for (int i = size - 1; i >= 0; --i) value = value << 8 | std::to_integer<uint64_t>(raw[i]);
    return value;
  }
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }

  std::span<const std::byte> take(uint64_t size) {
    if (position_ > bytes_.size() || size > bytes_.size() - position_) {
      throw Error(
          "{}: the zip archive is truncated or corrupt: {} bytes expected at offset {}, the file "
          "has {}",
          path_, size, position_, bytes_.size());
    }
    std::span<const std::byte> result = bytes_.subspan(position_, size);
    position_ += size;
    return result;
  }
  void skip(uint64_t size) { take(size); }
  uint64_t position() const { return position_; }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_;
  const std::string& path_;
};

// The end record stands last, before a comment of unknown length.
uint64_t find_end(std::span<const std::byte> bytes, const std::string& path) {
  if (bytes.empty()) throw Error("{}: empty file (0 bytes), expected a zip archive (.npz)", path);
  if (bytes.size() >= kEndSize) {
    uint64_t last = bytes.size() - kEndSize;
    uint64_t first = last > 0xffff ? last - 0xffff : 0;
    for (uint64_t at = last + 1; at-- > first;) {
      Cursor cursor(bytes, at, path);
      if (cursor.u32() != kEnd) continue;
      cursor.skip(16);
      if (cursor.u16() == bytes.size() - at - kEndSize) return at;
    }
  }
  throw Error(
      "{}: not a zip archive (.npz), or truncated: no end-of-directory record in the last {} bytes",
      path, std::min<uint64_t>(bytes.size(), 0xffff + kEndSize));
}

std::span<const std::byte> zip64_field(std::span<const std::byte> extra, const std::string& path) {
  Cursor cursor(extra, 0, path);
  while (extra.size() - cursor.position() >= 4) {
    uint16_t id = cursor.u16();
    uint16_t size = cursor.u16();
    std::span<const std::byte> field = cursor.take(size);
    if (id == 1) return field;
  }
  return {};
}

void check_crc(std::span<const std::byte> bytes, uint32_t expected, const std::string& name) {
  uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (crc != expected) {
    throw Error("{}: checksum (crc) mismatch: found {:08x}, expected {:08x}; the file is corrupt",
                name, crc, expected);
  }
}

}  // namespace

ZipArchive::ZipArchive(const std::string& path) : path_(path), file_(MappedFile::open(path)) {
  std::span<const std::byte> bytes = file_->bytes();
  uint64_t end = find_end(bytes, path_);
  Cursor cursor(bytes, end + 4, path_);
  uint16_t disk = cursor.u16();
  uint16_t directory_disk = cursor.u16();
  cursor.skip(2);
  uint64_t count = cursor.u16();
  uint64_t size = cursor.u32();
  uint64_t offset = cursor.u32();
  if (end >= kLocatorSize) {
    Cursor locator(bytes, end - kLocatorSize, path_);
    if (locator.u32() == kEnd64Locator) {
      locator.skip(4);
      Cursor end64(bytes, locator.u64(), path_);
      if (end64.u32() != kEnd64) {
        throw Error("{}: the zip64 end record is not at offset {}", path_, end64.position() - 4);
      }
      end64.skip(20);
      disk = directory_disk = 0;
      end64.skip(8);
      count = end64.u64();
      size = end64.u64();
      offset = end64.u64();
    }
  }
  if (disk != 0 || directory_disk != 0) {
    throw Error("{}: the zip archive spans several volumes, which is not supported", path_);
  }
  read_directory(offset, size, count);
}

void ZipArchive::read_directory(uint64_t offset, uint64_t size, uint64_t count) {
  Cursor whole(file_->bytes(), offset, path_);
  std::span<const std::byte> directory = whole.take(size);
  Cursor cursor(directory, 0, path_);
  for (uint64_t i = 0; i < count; ++i) {
    if (cursor.u32() != kDirectoryEntry) {
      throw Error("{}: zip directory entry {} of {} is corrupt, at offset {}", path_, i, count,
                  offset + cursor.position() - 4);
    }
    Member member;
    cursor.skip(4);
    member.flags = cursor.u16();
    member.method = cursor.u16();
    cursor.skip(4);
    member.crc = cursor.u32();
    member.compressed = cursor.u32();
    member.size = cursor.u32();
    uint16_t name_size = cursor.u16();
    uint16_t extra_size = cursor.u16();
    uint16_t comment_size = cursor.u16();
    cursor.skip(8);
    member.header_offset = cursor.u32();
    std::span<const std::byte> name = cursor.take(name_size);
    member.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    std::span<const std::byte> extra = cursor.take(extra_size);
    cursor.skip(comment_size);
    Cursor wide(zip64_field(extra, path_), 0, path_);
    if (member.size == kInZip64) member.size = wide.u64();
    if (member.compressed == kInZip64) member.compressed = wide.u64();
    if (member.header_offset == kInZip64) member.header_offset = wide.u64();
    members_.push_back(std::move(member));
  }
}

ZipArchive::Content ZipArchive::read(const Member& member) const {
  std::string name = path_ + ": " + member.name;
  if (member.flags & 1) throw Error("{}: is encrypted, which is not supported", name);
  Cursor cursor(file_->bytes(), member.header_offset, path_);
  if (cursor.u32() != kLocalHeader) {
    throw Error("{}: no member header at offset {}; the archive is corrupt", name,
                member.header_offset);
  }
  cursor.skip(22);
  uint16_t name_size = cursor.u16();
  uint16_t extra_size = cursor.u16();
  // Sizes in the local header may be absent (streamed archives); those of the directory count.
  cursor.skip(uint64_t{name_size} + extra_size);
  uint64_t data_offset = cursor.position();
  std::span<const std::byte> stored = cursor.take(member.compressed);
  if (member.method == 0) {
    if (member.size != member.compressed) {
      throw Error("{}: is stored, but declares {} bytes in {}", name, member.size,
                  member.compressed);
    }
    check_crc(stored, member.crc, name);
    return {stored, file_};
  }
  if (member.method != 8) {
    throw Error("{}: compression method {} is not supported (stored and deflate are)", name,
                member.method);
  }
  check_expansion(member.compressed, member.size, name);
  std::shared_ptr<std::byte> block = allocate_block(member.size);
  std::span<std::byte> out(block.get(), member.size);
  Inflater inflater(stored, Inflater::Format::kRawDeflate, name, data_offset);
  size_t found = inflater.read(out);
  std::byte surplus;
  if (found != out.size() || inflater.read({&surplus, 1}) != 0) {
    throw Error("{}: declares {} bytes, but decompresses to {}", name, member.size,
                found != out.size() ? std::to_string(found) : "more");
  }
  check_crc(out, member.crc, name);
  return {out, block};
}

}  // namespace sardonyx::runtime
