// The cores that this process may run on, and threads bound to one of them.
#pragma once

#include <memory>
#include <vector>

namespace sardonyx::runtime {

// Numbers of the cores in the calling thread's affinity mask at the first question; at least one.
const std::vector<int>& usable_cores();

// While it lives, the calling thread runs on `core` only; -1: changes nothing. Threads that are
// started meanwhile inherit the binding.
class ScopedCore {
 public:
  explicit ScopedCore(int core);
  ~ScopedCore();
  ScopedCore(const ScopedCore&) = delete;
  ScopedCore& operator=(const ScopedCore&) = delete;

 private:
  struct Mask;
  std::unique_ptr<Mask> previous_;
};

}  // namespace sardonyx::runtime
