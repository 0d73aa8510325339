// By the calling convention only these six registers and the stack pointer survive a call. Nobody
// here changes rounding modes, so the control words stay as they are.
#include <cstdint>

#include "tests/support/host_cuda/context_switch.h"

extern "C" void sardonyx_switch_stack(void** from, void* to);

asm(R"(
.text
.p2align 4
.globl sardonyx_switch_stack
.type sardonyx_switch_stack, @function
sardonyx_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sardonyx_switch_stack, . - sardonyx_switch_stack
)");

namespace sardonyx::host_cuda {

Context new_context(void* stack, size_t bytes, void (*entry)()) {
  constexpr size_t kRegisters = 6;
  const auto end = (reinterpret_cast<uintptr_t>(stack) + bytes) / 16 * 16;
  auto* top = reinterpret_cast<uintptr_t*>(end);
  *--top = 0;  // where `entry` would return to
  *--top = reinterpret_cast<uintptr_t>(entry);
  for (size_t i = 0; i < kRegisters; ++i) *--top = 0;
  return {top};
}

void switch_context(Context& from, Context& to) { sardonyx_switch_stack(&from.state, to.state); }

}  // namespace sardonyx::host_cuda
