// Matrix products by oneDNN on our own threads: one product over all threads, and many products
// cut over the threads, where a product that waited for the others would wait for ever.
#include <gtest/gtest.h>

#include "ops/core/kernel.h"
#include "ops/core/op_builder.h"
#include "runtime/devices/omp_shim.h"
#include "runtime/devices/thread_pool.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;

Tensor multiply(const std::string& kernel_name, const Tensor& a, const Tensor& b, int threads) {
  graph::Graph g;
  ops::OpBuilder builder(g);
  const graph::Value* y =
      builder.op("MatMul", {g.add_input("a", a.type()), g.add_input("b", b.type())});
  const auto request = ops::KernelRequest::of(*y->producer);
  WorkerPool pool(threads);
  const ScopedOmpPool omp(&pool);
  Tensor result(y->type.dtype, y->type.shape());
  ops::CpuContext context;
  context.inputs = {a.bytes().data(), b.bytes().data()};
  context.outputs = {result.mutable_bytes().data()};
  context.pool = &pool;
  for (const ops::KernelDef* kernel : ops::KernelRegistry::get().find("", "MatMul")) {
    if (kernel->name == kernel_name) kernel->create(request)->run(context);
  }
  return result;
}

void check(std::vector<int64_t> a_shape, std::vector<int64_t> b_shape) {
  const Tensor a = test::random_tensor(DType::kFloat32, a_shape, -1, 1, 1);
  const Tensor b = test::random_tensor(DType::kFloat32, b_shape, -1, 1, 2);
  const Tensor want = multiply("gemm.ref", a, b, 3);
  for (int threads : {1, 2, 3}) {
    EXPECT_EQ(test::difference(multiply("gemm.onednn", a, b, threads), want, {1e-4, 1e-4}),
              std::nullopt)
        << threads << " threads";
  }
}

TEST(GemmThreads, one_product_runs_over_all_threads) {
  check({300, 200}, {200, 150});
  check({8, 3000}, {3000, 8});  // the sum is cut
}

TEST(GemmThreads, a_batch_of_products_is_cut_over_the_threads) {
  check({6, 100, 120}, {6, 120, 90});
  check({4, 8, 3000}, {4, 3000, 8});
}

}  // namespace
}  // namespace sardonyx::runtime
