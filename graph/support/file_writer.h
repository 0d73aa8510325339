// A new file, written piece by piece and flushed to the disk: what everything is made of that must
// be there whole or not at all (atomic_file.h, checkpoints). The rename that makes it visible is
// the caller's.
//
// `shown` is the name in messages: the one that the user gave, where the file itself has a
// temporary one. Each message says what went wrong and what to do about it.
#pragma once

#include <filesystem>
#include <string_view>

namespace sardonyx::support {

class FileWriter {
 public:
  // Throws Error when `path` can't be made, or is there already.
  FileWriter(const std::filesystem::path& path, std::filesystem::path shown);
  // Closes; what was written may be incomplete.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void set_mode(unsigned mode);
  // Throws Error: disk full, quota, limit on file sizes, ...
  void write(std::string_view bytes);
  // The bytes are on the disk after this. Throws Error.
  void finish();

 private:
  std::filesystem::path shown_;
  int fd_ = -1;
};

// Names in the folder are on the disk after this. File systems that can't do it are let through.
void sync_folder(const std::filesystem::path& folder, const std::filesystem::path& shown);

// "SHOWN: cannot be written: No space left on device; free some space or choose another disk".
[[noreturn]] void fail_to_write(const std::filesystem::path& shown, int error);

}  // namespace sardonyx::support
