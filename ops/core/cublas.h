// Matrix products of cuBLASLt behind a thin wrapper: one Product is one plan for fixed shapes.
// ops/core/cuda_native/cublas.cc is the library, tests/support/host_cuda/ plain loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "graph/type.h"
#include "ops/core/cuda.h"
#include "ops/core/product_math.h"

namespace sardonyx::ops::cublas {

// One per device and thread. Loads the library when it is made; throws Error when it isn't there.
class Handle {
 public:
  Handle();
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

enum class Trans : uint8_t { kNo, kYes };
using Math = ProductMath;
// What happens to a result before it is stored.
enum class Epilogue : uint8_t { kNone, kBias, kBiasRelu };

// c [m,n] = alpha op(a) [m,k] op(b) [k,n] + beta c (+ bias [n]), row-major, `batch` times.
struct ProductDesc {
  int64_t m = 0, n = 0, k = 0;
  Trans trans_a = Trans::kNo, trans_b = Trans::kNo;
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements from one to the next
  graph::DType dtype = graph::DType::kFloat32;       // of all operands
  Math math = Math::kFloat32;
  double alpha = 1, beta = 0;
  Epilogue epilogue = Epilogue::kNone;
  size_t workspace_limit = size_t{32} << 20;
};

class Product {
 public:
  // Throws Error with the library's reason when nothing takes it.
  static std::unique_ptr<Product> make(Handle& handle, const ProductDesc& desc);
  virtual ~Product() = default;
  virtual size_t workspace_bytes() const = 0;
  // a, b, c 16-byte aligned.
  virtual void run(Handle& handle, cuda::Stream stream, const void* a, const void* b,
                   const void* bias, void* c, void* workspace) const = 0;
};

}  // namespace sardonyx::ops::cublas
