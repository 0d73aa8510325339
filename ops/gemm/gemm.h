// Matrix products, decoded once per kernel; private to the room.
//
// Gemm, MatMul and GemmGradWeight all come down to `Product`, so a library is one function per type
// (ops/core/matrix_product.h); gemm_cpu.cc makes the kernels of the three operators from it.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/kernel.h"
#include "ops/core/matrix_product.h"

namespace sardonyx::ops::gemm {

using matrix::Multiply;
using matrix::Product;
using matrix::Trans;
using matrix::Write;

inline Trans trans_of(const Node& node, const char* attribute) {
  return node.get_int(attribute, 0) != 0 ? Trans::kYes : Trans::kNo;
}

// Of matrices without gaps between their rows.
struct Backend {
  const char* name;  // of its kernels
  Speed speed;
  Multiply<float> f32;  // nullptr: declined
  Multiply<double> f64;
};

void add_lanes_kernels(KernelRegistry& kernels);

// The integers that ONNX multiplies: of 32 and 64 bits (gemm_integers.cc).
bool is_multiplied_integer(DType dtype);
void add_integer_kernels(KernelRegistry& kernels);

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
