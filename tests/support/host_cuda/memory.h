// Device and pinned memory of the stand-in.
//
// What allocate() returns is an address that no code may touch: its pages are never accessible. The
// bytes, the cells, lie elsewhere, at a fixed distance; kernels and copies get the addresses of
// cells. So host code that follows a device pointer ends at once, on any thread, with a message
// that names the allocation. An allocation ends at a page that is never accessible; one that was
// released stays so, and its addresses are not given out again. Fresh memory holds 0xff: NaN, -1.
#pragma once

#include <cstddef>
#include <string>

namespace sardonyx::host_cuda {

struct Allocation {
  size_t number = 0;  // 1, 2, ... in the process
  int device = 0;
  std::byte* address = nullptr;  // as the host knows it
  size_t bytes = 0;
  bool live = true;

  std::string label() const;  // "allocation 3 (4096 bytes on cuda:0)"
};

// Throws Error when the device is full.
void* allocate_on(int device, size_t bytes);
// CHECK: what allocate_on returned, once.
void release_memory(void* address);
size_t used_on(int device);
size_t live_allocations();

// The live allocation that holds `bytes` bytes from `address`; its end is a place, too, where there
// are none. Throws InternalError with the reason, which starts with `who`.
const Allocation& holder(const std::string& who, const void* address, size_t bytes);
bool is_device_address(const void* address);
// Where the bytes behind a device address lie.
std::byte* cells(const void* address);
// Throws InternalError when something was written just outside of the allocation or it has been
// released.
void check_bounds(const std::string& who, const Allocation& allocation);
// Whether there is memory of this process at the address.
bool is_mapped(const void* address);

// What runs on this thread, for the message when it touches what it may not.
class Running {
 public:
  explicit Running(const std::string& who);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

}  // namespace sardonyx::host_cuda
