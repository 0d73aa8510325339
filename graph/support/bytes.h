// Copies of raw bytes where there may be none: memcpy must not be given a null pointer, and the
// bytes of an empty tensor have no address.
#pragma once

#include <cstddef>
#include <cstring>

namespace sardonyx {

inline void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace sardonyx
