// Files that appear whole or not at all: written under a temporary name in the same folder, flushed
// to the disk, then renamed over the target.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace sardonyx::support {

class AtomicFile {
 public:
  // Writes the pieces to a temporary file beside `target` and flushes it. Throws Error: missing
  // folder, no permission, disk full, target is a folder or a device. Nothing stays behind then.
  AtomicFile(std::filesystem::path target, std::span<const std::string_view> pieces);
  // Removes the temporary file unless commit() was reached.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // The rename, and a flush of the folder.
  void commit();
  // Of files that belong together, the one that refers to the others last: the renames follow one
  // another at once, then the folders are flushed. Only a stop between two renames leaves a
  // mixture.
  static void commit_all(std::span<const std::unique_ptr<AtomicFile>> files);

  const std::filesystem::path& target() const { return target_; }

 private:
  void rename();

  std::filesystem::path target_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

}  // namespace sardonyx::support
