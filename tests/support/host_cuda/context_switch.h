// Goes on with another stack on the same host thread. context_switch_x86_64.cc does it in a dozen
// instructions, context_switch_ucontext.cc (a system call each time) on other machines; CMake
// picks.
#pragma once

#include <cstddef>

namespace sardonyx::host_cuda {

struct Context {
  void* state = nullptr;
};

// `entry` starts on this stack when the context is first switched to; it never returns.
Context new_context(void* stack, size_t bytes, void (*entry)());
// Stops here, goes on in `to`; returns when something switches to `from`.
void switch_context(Context& from, Context& to);

}  // namespace sardonyx::host_cuda
