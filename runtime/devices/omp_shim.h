// oneDNN from Debian is built for OpenMP and imports six of its functions. omp_shim.cc defines them
// on our own pool, so that its kernels run on the replica's threads and never start threads of
// their own.
#pragma once

#include "ops/core/parallel.h"

namespace sardonyx::runtime {

// While it lives, OpenMP regions entered by the current thread run on `pool`, and library_threads
// is its size. Without one (nullptr) they run serially.
class ScopedOmpPool {
 public:
  explicit ScopedOmpPool(ops::ThreadPool* pool);
  ~ScopedOmpPool();
  ScopedOmpPool(const ScopedOmpPool&) = delete;
  ScopedOmpPool& operator=(const ScopedOmpPool&) = delete;

 private:
  ops::ThreadPool* previous_;
  ops::ScopedLibraryThreads threads_;
};

}  // namespace sardonyx::runtime
