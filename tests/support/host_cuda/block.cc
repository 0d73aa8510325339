#include "tests/support/host_cuda/block.h"

#include <cuda_device.cuh>

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <utility>
#include <vector>

#include "graph/support/error.h"
#include "ops/core/cuda.cuh"
#include "tests/support/host_cuda/context_switch.h"
#include "tests/support/host_cuda/sanitizers.h"

constinit thread_local uint3 threadIdx = {}, blockIdx = {};
constinit thread_local dim3 blockDim = {}, gridDim = {};

namespace sardonyx::host_cuda {

namespace {

constexpr unsigned kWarp = ops::cuda::kWarp;
constexpr size_t kGuardBytes = 4096;  // below a stack

// A stack with a place to go on at.
struct Fiber {
  Context context;
  KnownStack stack;
  size_t number = 0;
  unsigned thread = 0;  // of the block
};

struct Warp {
  // Values of two exchanges in turn: the slots of one are still read while the next fills.
  std::array<std::array<uint64_t, kWarp>, 2> slots = {};
  std::array<Fiber*, kWarp> waiting = {};
  unsigned arrived = 0, turn = 0;
  Together what = Together::kShuffle;
};

class Block;
thread_local Block* running = nullptr;

class Block {
 public:
  Block() { sanitizer_begins(main_.stack); }
  ~Block() {
    for (Fiber& fiber : fibers_) {
      sanitizer_removes(fiber.stack);
      munmap(memory_of(fiber), kStackBytes + kGuardBytes);
    }
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void run(const std::string& name, unsigned threads, bool backwards,
           const std::function<void()>& thread);
  void barrier();
  const uint64_t* exchange(Together what, unsigned mask, int width, uint64_t bits);

 private:
  static void entry() { running->live(); }
  [[noreturn]] void live();
  void run_threads();
  void be(unsigned thread) {
    current_->thread = thread;
    threadIdx.x = thread;
  }
  Fiber* next();
  Fiber* idle_fiber();
  void go_to(Fiber* to);
  void suspend();
  void prepare(Fiber& fiber);
  void* memory_of(const Fiber& fiber) const {
    return static_cast<char*>(const_cast<void*>(fiber.stack.bottom)) - kGuardBytes;
  }
  std::string stuck(const std::string& name) const;

  std::deque<Fiber> fibers_;
  std::vector<Fiber*> idle_, at_barrier_;
  std::deque<Fiber*> ready_;
  std::vector<Warp> warps_;
  Fiber main_;
  Fiber *current_ = nullptr, *came_from_ = nullptr;
  const std::function<void()>* kernel_ = nullptr;
  unsigned threads_ = 0, started_ = 0, finished_ = 0;
  bool backwards_ = false;
  std::exception_ptr fault_;
};

void Block::run(const std::string& name, unsigned threads, bool backwards,
                const std::function<void()>& thread) {
  threads_ = threads;
  backwards_ = backwards;
  kernel_ = &thread;
  started_ = finished_ = 0;
  if (warps_.size() < (threads + kWarp - 1) / kWarp) warps_.resize((threads + kWarp - 1) / kWarp);
  current_ = &main_;
  running = this;
  go_to(idle_fiber());
  if (finished_ == threads && fault_ == nullptr) return;
  const std::string reason = fault_ == nullptr ? stuck(name) : "";
  // What the kernel left on its stacks is given up.
  ready_.clear();
  at_barrier_.clear();
  idle_.clear();
  warps_.clear();
  for (Fiber& fiber : fibers_) {
    sanitizer_forgets(fiber.stack);
    prepare(fiber);
    idle_.push_back(&fiber);
  }
  if (fault_ != nullptr) std::rethrow_exception(std::exchange(fault_, nullptr));
  throw InternalError(reason);
}

std::string Block::stuck(const std::string& name) const {
  size_t in_shuffle = 0;
  for (const Warp& warp : warps_) in_shuffle += warp.arrived;
  return fmt::format(
      "{}: block ({}, {}) of {} threads can't go on: {} wait at a barrier that all of the "
      "block must reach, {} in a shuffle that all of their warp must reach, {} have ended",
      name, blockIdx.x, blockIdx.y, threads_, at_barrier_.size(), in_shuffle, finished_);
}

void Block::prepare(Fiber& fiber) {
  // The hot ends of all stacks would share the few places of a cache for one address modulo 4096.
  constexpr size_t kColours = 31, kLines = 128;
  const size_t colour = fiber.number % kColours * kLines;
  fiber.context =
      new_context(const_cast<void*>(fiber.stack.bottom), fiber.stack.bytes - colour, &Block::entry);
}

Fiber* Block::idle_fiber() {
  if (!idle_.empty()) {
    Fiber* fiber = idle_.back();
    idle_.pop_back();
    return fiber;
  }
  void* memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED, "no memory for the stack of a fiber");
  CHECK(mprotect(memory, kGuardBytes, PROT_NONE) == 0);
  Fiber& fiber = fibers_.emplace_back();
  fiber.stack.bottom = static_cast<char*>(memory) + kGuardBytes;
  fiber.stack.bytes = kStackBytes;
  fiber.number = fibers_.size();
  sanitizer_adds(fiber.stack);
  prepare(fiber);
  return &fiber;
}

// Who goes on when the current fiber can't: somebody whose wait is over, a thread that hasn't
// started, else the host, which sees whether the block is done.
Fiber* Block::next() {
  if (fault_ != nullptr) return &main_;
  if (!ready_.empty()) {
    Fiber* fiber = ready_.front();
    ready_.pop_front();
    return fiber;
  }
  return started_ < threads_ ? idle_fiber() : &main_;
}

void Block::go_to(Fiber* to) {
  Fiber* from = current_;
  came_from_ = from;
  current_ = to;
  sanitizer_leaves(from->stack, to->stack);
  switch_context(from->context, to->context);
  sanitizer_enters(from->stack, came_from_->stack);
}

void Block::live() {
  sanitizer_enters(current_->stack, came_from_->stack);
  for (;;) {
    run_threads();
    Fiber* to = next();
    idle_.push_back(current_);
    go_to(to);
  }
}

void Block::run_threads() {
  try {
    while (started_ < threads_ && ready_.empty()) {
      const unsigned thread = backwards_ ? threads_ - 1 - started_ : started_;
      ++started_;
      be(thread);
      (*kernel_)();
      ++finished_;
    }
  } catch (...) {
    fault_ = std::current_exception();
  }
}

void Block::suspend() {
  Fiber* self = current_;
  go_to(next());
  be(self->thread);
}

void Block::barrier() {
  if (at_barrier_.size() + 1 < threads_) {
    at_barrier_.push_back(current_);
    suspend();
    return;
  }
  ready_.insert(ready_.end(), at_barrier_.begin(), at_barrier_.end());
  at_barrier_.clear();
}

const uint64_t* Block::exchange(Together what, unsigned mask, int width, uint64_t bits) {
  if (mask != ~0u || width != static_cast<int>(kWarp)) {
    throw InternalError("a shuffle of less than a whole warp, which kernels here don't use");
  }
  const unsigned lane = current_->thread % kWarp;
  Warp& warp = warps_[current_->thread / kWarp];
  if (warp.arrived == 0) warp.what = what;
  if (warp.what != what) throw InternalError("the threads of a warp do different shuffles at once");
  auto& slots = warp.slots[warp.turn % 2];
  slots[lane] = bits;
  if (warp.arrived + 1 < kWarp) {
    warp.waiting[warp.arrived++] = current_;
    suspend();
  } else {
    ready_.insert(ready_.end(), warp.waiting.begin(), warp.waiting.begin() + warp.arrived);
    warp.arrived = 0;
    ++warp.turn;
  }
  return slots.data();
}

Block& block_of_thread() {
  static thread_local Block block;
  return block;
}

}  // namespace

void barrier() { running->barrier(); }

const uint64_t* exchange(Together what, unsigned mask, int width, uint64_t bits) {
  return running->exchange(what, mask, width, bits);
}

void run_grid(const std::string& name, const ops::cuda::Grid& grid,
              const std::function<void()>& thread) {
  Block& block = block_of_thread();
  gridDim = {grid.x, grid.y, 1};
  blockDim = {grid.threads, 1, 1};
  threadIdx = {};
  with_context([&] { return "running " + name; },
               [&] {
                 for (unsigned y = 0; y < grid.y; ++y) {
                   for (unsigned x = 0; x < grid.x; ++x) {
                     blockIdx = {x, y, 0};
                     block.run(name, grid.threads, (x + y) % 2 == 1, thread);
                   }
                 }
               });
}

}  // namespace sardonyx::host_cuda
