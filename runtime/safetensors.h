// The safetensors format: named tensors in one file that any tool can read, and that holds nothing
// but data. https://github.com/huggingface/safetensors, format section.
//
//   8 bytes    length N of the header, little-endian
//   N bytes    JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//   the rest   the tensors' bytes, little-endian, row-major, without gaps
//
// Reading trusts nothing: every size is checked against the bytes that are there before it is used.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/tensor.h"

namespace sardonyx::runtime {

using NamedTensors = std::vector<std::pair<std::string, graph::Tensor>>;

struct TensorInfo {
  std::string name;  // any bytes (runtime/json_name.h)
  graph::DType dtype = graph::DType::kUndefined;
  std::vector<int64_t> shape;
};

struct Safetensors {
  NamedTensors tensors;  // in the order of the data; they borrow the mapped file
  std::map<std::string, std::string> metadata;
};

// Hands the file to `put`, piece by piece; `value(i)` is asked for one tensor after another, so
// that only one is in memory at a time. CHECK: a type that the format has, and that value(i) has.
void write_safetensors(const std::vector<TensorInfo>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<graph::Tensor(size_t)>& value,
                       const std::function<void(std::string_view)>& put);

// Throws Error: cut short, no header, an unknown element type, a size that doesn't fit, tensors
// that overlap or leave gaps, a name that is there twice.
Safetensors read_safetensors(const std::filesystem::path& path);
// The same from memory that `keep_alive` owns.
Safetensors parse_safetensors(std::span<const std::byte> bytes,
                              std::shared_ptr<const void> keep_alive);

}  // namespace sardonyx::runtime
