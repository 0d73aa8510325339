// What the sanitizers must be told about fibers. The only place that asks whether they are there.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace sardonyx::host_cuda {

// A stack as the sanitizers know it.
struct KnownStack {
  const void* bottom = nullptr;
  size_t bytes = 0;
  void* fake = nullptr;   // the address sanitizer's
  void* fiber = nullptr;  // the thread sanitizer's
};

#if defined(__SANITIZE_ADDRESS__)
inline constexpr size_t kStackBytes = 256 << 10;
inline void sanitizer_leaves(KnownStack& from, const KnownStack& to) {
  __sanitizer_start_switch_fiber(&from.fake, to.bottom, to.bytes);
}
// `came_from` learns its place, which nobody knows of the stack that a host thread started with.
inline void sanitizer_enters(KnownStack& to, KnownStack& came_from) {
  __sanitizer_finish_switch_fiber(to.fake, &came_from.bottom, &came_from.bytes);
}
// What lay on the stack is given up; or the whole stack.
inline void sanitizer_forgets(KnownStack& stack) {
  __asan_unpoison_memory_region(stack.bottom, stack.bytes);
  stack.fake = nullptr;
}
inline void sanitizer_removes(KnownStack& stack) { sanitizer_forgets(stack); }
inline void sanitizer_adds(KnownStack&) {}
inline void sanitizer_begins(KnownStack&) {}
#elif defined(__SANITIZE_THREAD__)
inline constexpr size_t kStackBytes = 64 << 10;
inline void sanitizer_leaves(KnownStack&, const KnownStack& to) {
  __tsan_switch_to_fiber(to.fiber, 0);
}
inline void sanitizer_enters(KnownStack&, KnownStack&) {}
inline void sanitizer_adds(KnownStack& stack) { stack.fiber = __tsan_create_fiber(0); }
inline void sanitizer_removes(KnownStack& stack) { __tsan_destroy_fiber(stack.fiber); }
inline void sanitizer_forgets(KnownStack& stack) {
  sanitizer_removes(stack);
  sanitizer_adds(stack);
}
inline void sanitizer_begins(KnownStack& stack) { stack.fiber = __tsan_get_current_fiber(); }
#else
inline constexpr size_t kStackBytes = 64 << 10;
inline void sanitizer_leaves(KnownStack&, const KnownStack&) {}
inline void sanitizer_enters(KnownStack&, KnownStack&) {}
inline void sanitizer_forgets(KnownStack&) {}
inline void sanitizer_removes(KnownStack&) {}
inline void sanitizer_adds(KnownStack&) {}
inline void sanitizer_begins(KnownStack&) {}
#endif

}  // namespace sardonyx::host_cuda
