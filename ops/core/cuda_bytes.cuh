// Kernels that only move elements: one instance per size of an element, whatever its type.
#pragma once

#include <cstdint>

namespace sardonyx::ops::cuda {

// Calls f.template operator()<T>() for the unsigned type of 1, 2, 4 or 8 bytes.
template <class F>
void dispatch_bytes(int bytes, const F& f) {
  switch (bytes) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

}  // namespace sardonyx::ops::cuda
