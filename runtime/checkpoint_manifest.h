// manifest.json of a checkpoint: everything beside the tensors, as text that people can read too.
//
// The file ends in a checksum of all that stands before it, so a single changed byte is found. The
// keys are a promise to scripts; a change of meaning takes a new kCheckpointFormat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/kernel_choices.h"
#include "runtime/run_config.h"
#include "runtime/run_state.h"
#include "runtime/session.h"

namespace sardonyx::runtime {

inline constexpr int64_t kCheckpointFormat = 1;

struct FileSum {
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
  friend bool operator==(const FileSum&, const FileSum&) = default;
};
// Continues a sum.
void add_to(FileSum& sum, std::span<const std::byte> bytes);
std::string sum_str(const FileSum& sum);  // "crc32 0a1b2c3d of 4711 bytes"

struct Manifest {
  int64_t format = kCheckpointFormat;  // when another, all else is as in Manifest{}
  RunState run;
  uint64_t seed = 0;     // with the step it is all that the counter-based generators need
  int64_t samples = 0;   // of the training set
  std::string model;     // name of the file
  FileSum model_sum;     // runtime/checkpoint.h: sum_of
  RunConfig config;      // as flags would say it
  std::string schedule;  // for people: the flags are in `config`
  std::vector<std::string> devices;
  int64_t threads = 0;
  Cut cut;  // of a whole batch
  KernelChoices kernels;
  std::map<std::string, FileSum> files;  // that belong to the checkpoint, by name
};

std::string to_text(const Manifest& manifest);
// Throws Error: no manifest, cut short, changed.
Manifest parse_manifest(const std::string& text);

}  // namespace sardonyx::runtime
