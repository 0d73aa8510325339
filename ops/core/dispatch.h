// Calls with the C++ element type of a dtype; the float-only form is in kernel.h.
#pragma once

#include <cstdint>
#include <string>

#include "graph/support/error.h"
#include "graph/type.h"

namespace sardonyx::ops {

// float, double and the integers of 8 to 64 bits.
inline bool is_dispatched_number(graph::DType dtype) {
  using graph::DType;
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || graph::is_integer(dtype);
}

// Calls f.template operator()<T>(). Throws InternalError unless is_dispatched_number(dtype).
template <class F>
void dispatch_number(graph::DType dtype, F&& f) {
  using graph::DType;
  switch (dtype) {
    case DType::kFloat32:
      return f.template operator()<float>();
    case DType::kFloat64:
      return f.template operator()<double>();
    case DType::kInt8:
      return f.template operator()<int8_t>();
    case DType::kInt16:
      return f.template operator()<int16_t>();
    case DType::kInt32:
      return f.template operator()<int32_t>();
    case DType::kInt64:
      return f.template operator()<int64_t>();
    case DType::kUint8:
      return f.template operator()<uint8_t>();
    case DType::kUint16:
      return f.template operator()<uint16_t>();
    case DType::kUint32:
      return f.template operator()<uint32_t>();
    case DType::kUint64:
      return f.template operator()<uint64_t>();
    default:
      throw InternalError("no kernel instance for " + std::string(graph::dtype_name(dtype)));
  }
}

// The same for bool, too, whose elements are bytes.
inline bool is_dispatched_element(graph::DType dtype) {
  return dtype == graph::DType::kBool || is_dispatched_number(dtype);
}
template <class F>
void dispatch_element(graph::DType dtype, F&& f) {
  if (dtype == graph::DType::kBool) return f.template operator()<uint8_t>();
  dispatch_number(dtype, f);
}

}  // namespace sardonyx::ops
