// Files that appear whole or not at all: written under a temporary name in the same folder, flushed
// to the disk, then renamed over the target.
#pragma once

#include <filesystem>
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

  // The rename, and a flush of the folder. With several files that belong together: construct all,
  // then commit the one that refers to the others last.
  void commit();

  const std::filesystem::path& target() const { return target_; }

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

}  // namespace sardonyx::support
