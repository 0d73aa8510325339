// Products by oneDNN's sgemm. It may use as many threads as the pool it is given and as the caller
// allows (library_threads): inside a task of the pool, where its threads could not all run at once,
// one.
#include <oneapi/dnnl/dnnl.h>

#include "graph/support/error.h"
#include "ops/core/matrix_product.h"

namespace sardonyx::ops::matrix {

namespace {

char letter(Trans trans) { return trans == Trans::kYes ? 'T' : 'N'; }

void multiply_dnnl(const Product& p, Rows<const float> a, Rows<const float> b, Write write,
                   Rows<float> c, ThreadPool& pool) {
  const ScopedLibraryThreads threads(std::min(pool.size(), std::max(library_threads, 1)));
  const dnnl_status_t status = dnnl_sgemm(
      letter(p.trans_a), letter(p.trans_b), p.m, p.n, p.k, static_cast<float>(p.alpha), a.data,
      a.stride, b.data, b.stride, write == Write::kAdd ? 1.0f : 0.0f, c.data, c.stride);
  CHECK(status == dnnl_success, "dnnl_sgemm of {}x{}x{} failed with status {}", p.m, p.n, p.k,
        static_cast<int>(status));
}

}  // namespace

Multiply<float> dnnl_product() { return multiply_dnnl; }

}  // namespace sardonyx::ops::matrix
