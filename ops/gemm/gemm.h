// Matrix products, decoded once per kernel; private to the room.
//
// Gemm, MatMul and GemmGradWeight all come down to `Product`, so a library is one function per type
// (`Backend`); gemm_cpu.cc makes the kernels of the three operators from it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/kernel.h"

namespace sardonyx::ops::gemm {

enum class Trans : uint8_t { kNo, kYes };
enum class Write : uint8_t { kOverwrite, kAdd };

inline Trans trans_of(const Node& node, const char* attribute) {
  return node.get_int(attribute, 0) != 0 ? Trans::kYes : Trans::kNo;
}

// c[i,j] (+)= alpha * sum_k a(i,k) b(k,j), all matrices dense and row-major as stored: `trans_a`
// says that a is stored [k,m]. m, n, k > 0.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  Trans trans_a = Trans::kNo, trans_b = Trans::kNo;
  double alpha = 1;
};

template <class T>
using Multiply = void (*)(const Product& product, const T* a, const T* b, Write write, T* c,
                          ThreadPool& pool);

struct Backend {
  const char* name;  // of its kernels
  Speed speed;
  Multiply<float> f32;  // nullptr: declined
  Multiply<double> f64;
};

std::optional<Backend> dnnl_backend();  // nullopt: not in this build
Backend eigen_backend();
void add_lanes_kernels(KernelRegistry& kernels);

// y = product + beta * c, where c has a stride of 0 along axes it is broadcast along.
struct GemmShape {
  Product product;
  double beta = 1;
  bool reads_c = false;
  int64_t c_row_stride = 0, c_column_stride = 0;

  static GemmShape of(const KernelRequest& request);
};

// One product for each matrix of the output; offsets count elements.
struct MatMulShape {
  Product product;
  std::vector<int64_t> a_offsets, b_offsets;

  static MatMulShape of(const KernelRequest& request);
};

// dw = alpha * a^T b over all leading axes.
Product grad_weight_product(const KernelRequest& request);

}  // namespace sardonyx::ops::gemm
