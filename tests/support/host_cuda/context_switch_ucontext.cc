#include <ucontext.h>

#include "tests/support/host_cuda/context_switch.h"

namespace sardonyx::host_cuda {

namespace {

// The contexts live as long as the process, as the stacks do; one that is made anew leaves the old
// one behind, which happens only after a fault.
ucontext_t* of(Context& context) {
  if (context.state == nullptr) context.state = new ucontext_t;
  return static_cast<ucontext_t*>(context.state);
}

}  // namespace

Context new_context(void* stack, size_t bytes, void (*entry)()) {
  Context context;
  ucontext_t* made = of(context);
  getcontext(made);
  made->uc_stack.ss_sp = stack;
  made->uc_stack.ss_size = bytes;
  made->uc_link = nullptr;
  makecontext(made, entry, 0);
  return context;
}

void switch_context(Context& from, Context& to) { swapcontext(of(from), of(to)); }

}  // namespace sardonyx::host_cuda
