// Elements of a tensor as the content of a TensorProto field. Internal to saving.
#pragma once

#include <cstdint>
#include <string>

#include "graph/tensor.h"

namespace sardonyx::graph {

// The packed content of typed field `number` (int32_data, float_data, ...; not string_data).
std::string encode_packed(const Tensor& value, uint32_t number);

// A whole TensorProto with raw_data (string_data for strings).
std::string encode_tensor(const std::string& name, const Tensor& value);

}  // namespace sardonyx::graph
