// Products by oneDNN's sgemm: float only. It picks instructions when it runs, which Eigen does when
// it is compiled. It may use as many threads as the pool it is given and as the caller allows
// (library_threads): inside a task of the pool, where its threads could not all run at once, one.
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>

#include "graph/support/error.h"
#include "ops/gemm/gemm.h"

namespace sardonyx::ops::gemm {

namespace {

void multiply(const Product& p, const float* a, const float* b, Write write, float* c,
              ThreadPool& pool) {
  const ScopedLibraryThreads threads(std::min(pool.size(), std::max(library_threads, 1)));
  const bool trans_a = p.trans_a == Trans::kYes, trans_b = p.trans_b == Trans::kYes;
  const dnnl_status_t status = dnnl_sgemm(
      trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', p.m, p.n, p.k, static_cast<float>(p.alpha), a,
      trans_a ? p.m : p.k, b, trans_b ? p.k : p.n, write == Write::kAdd ? 1.0f : 0.0f, c, p.n);
  CHECK(status == dnnl_success, "dnnl_sgemm of {}x{}x{} failed with status {}", p.m, p.n, p.k,
        static_cast<int>(status));
}

}  // namespace

std::optional<Backend> dnnl_backend() {
  return Backend{"gemm.onednn", Speed::kOptimised, multiply, nullptr};
}

}  // namespace sardonyx::ops::gemm
