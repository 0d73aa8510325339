// Where the external payload of a tensor stands: the rules for paths and ranges.
//
// Only regular files below the model's folder are ever opened: no absolute path, no step above the
// folder, no link that leaves it. (`model..v2.bin` is a plain name.)
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "graph/tensor_message.h"

namespace sardonyx::graph {

struct ExternalRange {
  std::string location;        // as in the file
  std::filesystem::path file;  // links resolved
  uint64_t offset = 0;
  uint64_t size = 0;
};

// Throws Error naming tensor, location, found and expected. `folder`: the model's.
ExternalRange external_range(const TensorMessage& tensor, const std::filesystem::path& folder);

}  // namespace sardonyx::graph
