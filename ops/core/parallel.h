// The thread pool as kernels see it. runtime/devices/thread_pool implements it; tests use
// SerialPool.
//
// Work is cut statically: task t of n always covers the same elements, so results depend on the
// number of threads, never on which thread was faster.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace sardonyx::ops {

// A borrowed callable: valid during the call it is passed to.
template <class Signature>
class FunctionRef;
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
      FunctionRef(F&& f)  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}
  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

class ThreadPool {
 public:
  virtual ~ThreadPool() = default;
  virtual int size() const = 0;  // threads, the calling one included
  // Calls task(0) ... task(count - 1) and returns when all are done. Tasks whose numbers differ by
  // a multiple of size() never run at once. The first exception of a task is rethrown here. A
  // nested call from inside a task runs its tasks one after another.
  virtual void run(int count, FunctionRef<void(int)> task) = 0;
};

class SerialPool final : public ThreadPool {
 public:
  int size() const override { return 1; }
  void run(int count, FunctionRef<void(int)> task) override {
    for (int i = 0; i < count; ++i) task(i);
  }
};

// Threads that a library with threads of its own (oneDNN) may count on in this thread: those of the
// pool, 1 inside a block of a region. Such a library cuts its work when a primitive is made, so a
// kernel must be made and run under the same number. 0: nobody said.
inline thread_local int library_threads = 0;

class ScopedLibraryThreads {
 public:
  explicit ScopedLibraryThreads(int threads) : previous_(library_threads) {
    library_threads = threads;
  }
  ~ScopedLibraryThreads() { library_threads = previous_; }
  ScopedLibraryThreads(const ScopedLibraryThreads&) = delete;
  ScopedLibraryThreads& operator=(const ScopedLibraryThreads&) = delete;

 private:
  int previous_;
};

// Cuts [0, n) into at most pool.size() even pieces of at least `grain` elements: f(begin, end).
template <class F>
void parallel_for(ThreadPool& pool, int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  const int64_t pieces =
      std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, static_cast<int64_t>(pool.size()));
  if (pieces == 1) {
    f(int64_t{0}, n);
    return;
  }
  pool.run(static_cast<int>(pieces), [&](int i) { f(n * i / pieces, n * (i + 1) / pieces); });
}

}  // namespace sardonyx::ops
