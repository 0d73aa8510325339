// The header of a .npy file (NEP 1; numpy/lib/format), versions 1 to 3.
//
// The header is text in the form of a Python literal. It is parsed as a literal of strings,
// numbers, booleans and tuples; anything else is refused and nothing is ever executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/type.h"

namespace sardonyx::runtime {

enum class ByteOrder : uint8_t { kLittle, kBig };

struct NpyHeader {
  graph::DType dtype = graph::DType::kUndefined;
  ByteOrder order = ByteOrder::kLittle;
  bool fortran = false;
  std::vector<int64_t> shape;
  size_t data_offset = 0;
};

// `bytes` start with the magic. Throws Error naming `name`, what was found and what is supported.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& name);

}  // namespace sardonyx::runtime
