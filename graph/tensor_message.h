// One TensorProto, decoded straight from the file's bytes: header, and where its payload stands.
//
// Nothing is allocated from declared dimensions: the elements that are there are counted first and
// must match.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/tensor.h"
#include "graph/wire.h"

namespace sardonyx::graph {

struct TensorMessage {
  std::string name;
  std::vector<int64_t> dims;
  int64_t data_type = 0;
  bool external = false;
  bool segmented = false;
  std::vector<std::pair<std::string, std::string>> external_data;
  std::vector<wire::Field> payload;  // raw_data and the typed fields, in file order

  // The entry of external_data, or nullptr.
  const std::string* external_entry(std::string_view key) const;
};

// Key and value of a StringStringEntryProto.
std::pair<std::string, std::string> read_string_entry(std::span<const std::byte> file,
                                                      wire::Span message);
TensorMessage read_tensor_message(std::span<const std::byte> file, wire::Span message);

// "tensor 'w'", "a tensor without a name".
std::string tensor_label(const TensorMessage& tensor);

// "17 (float8e4m3fn)"
std::string data_type_name(int64_t data_type);
// The element type; throws Error when it is none that Sardonyx can hold.
DType checked_dtype(const TensorMessage& tensor);
// Bits of an element of a type that ONNX has and Sardonyx can't hold (8-bit floats, integers of 2
// and 4 bits); 0 for all others.
int foreign_bits(int64_t data_type);
// Elements by the dimensions; throws Error naming tensor and dimensions (negative, too large).
int64_t checked_elements(const TensorMessage& tensor);

// The payload field that holds elements of this type when raw_data doesn't.
uint32_t typed_field(DType dtype);
std::string_view payload_field_name(uint32_t field);

// The tensor with its inline payload. Borrows `file` (kept alive by `keep_alive`) when the bytes
// can be used where they stand.
Tensor decode_inline(const TensorMessage& tensor, std::span<const std::byte> file,
                     const std::shared_ptr<const void>& keep_alive);
// `bytes` (exactly the right number) as a tensor that borrows them.
Tensor tensor_from_raw(DType dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes,
                       const std::shared_ptr<const void>& keep_alive);

}  // namespace sardonyx::graph
