// The times of kernels that earlier runs measured, kept in a file: `--tune` measures once per
// machine, not once per run.
//
// The file holds times by machine (everything that makes them void when it changes) and request. It
// is read whole and replaced whole, so a reader never sees half of one; of two processes that write
// at once, the later keeps what it read before and its own times. Nothing here stops a run: what
// can't be read or written is a notice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace sardonyx::runtime {

// kMade: the folders of the file are made when they are missing.
enum class Folder : uint8_t { kMade, kGiven };

struct TuningFile {
  std::filesystem::path path;  // empty: none
  Folder folder = Folder::kMade;
};

class TuningCache {
 public:
  using Times = std::map<std::string, double>;  // seconds, by kernel

  // No file: nothing is kept.
  TuningCache() = default;
  // Reads the file if there is one. What is damaged, foreign or unreadable is a notice and counts
  // as empty; times that can't be are a notice and unknown. A folder that has to be there and isn't
  // is a notice too, before anything is measured, and then nothing is kept.
  TuningCache(TuningFile file, std::string machine);

  // nullptr: not known.
  const Times* find(const std::string& request) const;
  void put(const std::string& request, Times times);
  // Adds what was put since to what the file holds by now. A file that isn't such a cache stays as
  // it is.
  void save();

  const std::filesystem::path& file() const { return file_.path; }

 private:
  using Requests = std::map<std::string, Times>;
  using Machines = std::map<std::string, Requests>;
  struct Content {
    Machines machines;
    std::string fault;     // why it can't be used; "": it can
    bool foreign = false;  // whose it is isn't known: it must not be replaced
    int impossible = 0;    // times that are left out, because no kernel takes such a time
  };
  Content read() const;

  TuningFile file_;
  std::string machine_;
  Requests known_, fresh_;
};

// $SARDONYX_TUNING_CACHE, whose folder must be there, else sardonyx/tuning.json in $XDG_CACHE_HOME
// or ~/.cache; empty when the environment names none of these.
TuningFile tuning_cache_file();
// Processor, its features, `threads`, and the versions of oneDNN and Sardonyx.
std::string tuning_machine(int threads);

}  // namespace sardonyx::runtime
