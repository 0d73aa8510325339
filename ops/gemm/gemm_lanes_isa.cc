// Matrix products with the image as the vector lane: y[m][16] = b[m] + sum_k w(m, k) x[k][16], its
// data gradient (the same product with w turned around) and its weight gradient.
//
// Each weight serves 16 images only, so the product streams the weights: several blocks per call
// share a stream. The weight gradient turns x (or dy) into rows of images, so that the sum over
// images is a plain product too.
#include "ops/core/lanes_vector.h"

namespace sardonyx::ops::lanes::SARDONYX_ISA {
namespace {

// out[o] = bias[o] + sum_i w[o * w_out + i * w_in] in[i], per block.
template <typename T>
struct Product {
  int outputs, inputs, blocks;
  ptrdiff_t w_out, w_in;
  const T* w;
  const T* in;
  const T* bias;
  const T* mask;
  T* out;
  Activation activation;
};

// MB outputs x PB blocks; KU independent sums hide the latency where MB x PB is small.
template <typename T, int MB, int PB, int KU>
void run_product(const Product<T>& product, int first, int block, int lane) {
  const ptrdiff_t in_block = static_cast<ptrdiff_t>(product.inputs) * kLanes;
  const ptrdiff_t out_block = static_cast<ptrdiff_t>(product.outputs) * kLanes;
  Vec<T> acc[KU][MB][PB] = {};
  const T* in = product.in + block * in_block + lane;
  const T* w[MB];
#pragma GCC unroll 32
  for (int m = 0; m < MB; ++m) w[m] = product.w + (first + m) * product.w_out;
  int i = 0;
  for (; i + KU <= product.inputs; i += KU) {
#pragma GCC unroll 4
    for (int u = 0; u < KU; ++u, in += kLanes) {
      Vec<T> x[PB];
#pragma GCC unroll 32
      for (int b = 0; b < PB; ++b) x[b] = load(in + b * in_block);
#pragma GCC unroll 32
      for (int m = 0; m < MB; ++m) {
        const Vec<T> weight = broadcast<T>(*w[m]);
        w[m] += product.w_in;
#pragma GCC unroll 32
        for (int b = 0; b < PB; ++b) acc[u][m][b] += x[b] * weight;
      }
    }
  }
  for (; i < product.inputs; ++i, in += kLanes) {
#pragma GCC unroll 32
    for (int m = 0; m < MB; ++m) {
      const Vec<T> weight = broadcast<T>(*w[m]);
      w[m] += product.w_in;
#pragma GCC unroll 32
      for (int b = 0; b < PB; ++b) acc[0][m][b] += load(in + b * in_block) * weight;
    }
  }
#pragma GCC unroll 32
  for (int m = 0; m < MB; ++m) {
    const Vec<T> start = broadcast<T>(product.bias == nullptr ? T(0) : product.bias[first + m]);
#pragma GCC unroll 32
    for (int b = 0; b < PB; ++b) {
      Vec<T> v = acc[0][m][b];
#pragma GCC unroll 4
      for (int u = 1; u < KU; ++u) v += acc[u][m][b];
      v += start;
      const ptrdiff_t at = (block + b) * out_block + (first + m) * kLanes + lane;
      if (product.activation == Activation::kRelu) v = relu<T>(v);
      if (product.mask != nullptr) v = relu_mask<T>(v, product.mask + at);
      store(product.out + at, v);
    }
  }
}

// The same with neighbouring weights (w_out = 1): one pointer serves many outputs.
template <typename T, int MB, int PB>
void run_neighbours(const Product<T>& product, int first, int block, int lane) {
  const ptrdiff_t in_block = static_cast<ptrdiff_t>(product.inputs) * kLanes;
  const ptrdiff_t out_block = static_cast<ptrdiff_t>(product.outputs) * kLanes;
  Vec<T> acc[MB][PB] = {};
  const T* in = product.in + block * in_block + lane;
  const T* w = product.w + first;
  for (int i = 0; i < product.inputs; ++i, in += kLanes, w += product.w_in) {
    Vec<T> x[PB];
#pragma GCC unroll 32
    for (int b = 0; b < PB; ++b) x[b] = load(in + b * in_block);
#pragma GCC unroll 32
    for (int m = 0; m < MB; ++m) {
      const Vec<T> weight = broadcast<T>(w[m]);
#pragma GCC unroll 32
      for (int b = 0; b < PB; ++b) acc[m][b] += x[b] * weight;
    }
  }
#pragma GCC unroll 32
  for (int m = 0; m < MB; ++m) {
    const Vec<T> start = broadcast<T>(product.bias == nullptr ? T(0) : product.bias[first + m]);
#pragma GCC unroll 32
    for (int b = 0; b < PB; ++b) {
      Vec<T> v = acc[m][b] + start;
      const ptrdiff_t at = (block + b) * out_block + (first + m) * kLanes + lane;
      if (product.activation == Activation::kRelu) v = relu<T>(v);
      if (product.mask != nullptr) v = relu_mask<T>(v, product.mask + at);
      store(product.out + at, v);
    }
  }
}

constexpr bool kWide = kRegisters == 32;

// Outputs [first, outputs) of PB blocks.
template <typename T, int PB>
void run_rows(const Product<T>& product, int block, int lane) {
  constexpr int kMany = PB == 1 ? (kWide ? 8 : 4) : kAccumulators / PB < 6 ? kAccumulators / PB : 6;
  constexpr int kSums = PB == 1 ? 2 : 1;
  int first = 0;
  for (; first + kMany <= product.outputs; first += kMany) {
    run_product<T, kMany, PB, kSums>(product, first, block, lane);
  }
  for (; first + 2 <= product.outputs; first += 2)
    run_product<T, 2, PB, kSums>(product, first, block, lane);
  if (first < product.outputs) run_product<T, 1, PB, kSums>(product, first, block, lane);
}

template <typename T, int PB>
void run_columns(const Product<T>& product, int block, int lane) {
  constexpr int kMany = (kWide ? 24 : 12) / PB;
  constexpr int kSome = kMany / 3;
  int first = 0;
  for (; first + kMany <= product.outputs; first += kMany)
    run_neighbours<T, kMany, PB>(product, first, block, lane);
  for (; first + kSome <= product.outputs; first += kSome)
    run_neighbours<T, kSome, PB>(product, first, block, lane);
  for (; first < product.outputs; ++first) run_neighbours<T, 1, PB>(product, first, block, lane);
}

template <typename T, int PB>
void run_blocks(const Product<T>& product, int block) {
  for (int lane = 0; lane < kLanes; lane += kWidth<T>) {
    if (product.w_out == 1) {
      run_columns<T, PB>(product, block, lane);
    } else {
      run_rows<T, PB>(product, block, lane);
    }
  }
}

template <typename T>
void run(const Product<T>& product) {
  constexpr int kMany = kWide ? 4 : 2;
  int block = 0;
  for (; block + kMany <= product.blocks; block += kMany) run_blocks<T, kMany>(product, block);
  for (; block + 2 <= product.blocks; block += 2) run_blocks<T, 2>(product, block);
  if (block < product.blocks) run_blocks<T, 1>(product, block);
}

template <typename T>
void forward(const GemmShape& shape, const T* x, const T* w, const T* bias, Activation activation,
             T* y) {
  const bool by_output = shape.order == WeightOrder::kRowIsOutput;
  run(Product<T>{shape.m, shape.k, shape.blocks, by_output ? shape.k : 1, by_output ? 1 : shape.m,
                 w, x, bias, nullptr, y, activation});
}

template <typename T>
void grad_data(const GemmShape& shape, const T* dy, const T* w, const T* relu_output, T* dx) {
  const bool by_output = shape.order == WeightOrder::kRowIsOutput;
  run(Product<T>{shape.k, shape.m, shape.blocks, by_output ? 1 : shape.m, by_output ? shape.k : 1,
                 w, dy, nullptr, relu_output, dx, Activation::kNone});
}

// dw[a][b] += sum over images a_values[a][image] * b_values[b][image]: b is turned into rows of
// images, kColumns at a time, for kGroup blocks at once.
constexpr int kGroup = 4;
constexpr int kVectors = kWide ? 4 : 2;  // of one register block, along b
constexpr int kOuter = kWide ? 5 : 4;    // and along a

template <typename T>
constexpr int kColumns = 4 * kVectors* kWidth<T>;

template <typename T, int MB, int XB>
void add_outer(const T* a, ptrdiff_t a_block, const T* rows, int blocks, int valid, T* dw,
               ptrdiff_t dw_row) {
  Vec<T> acc[MB][XB];
#pragma GCC unroll 32
  for (int m = 0; m < MB; ++m) {
#pragma GCC unroll 32
    for (int v = 0; v < XB; ++v) acc[m][v] = load(dw + m * dw_row + v * kWidth<T>);
  }
  for (int block = 0; block < blocks; ++block, a += a_block, valid -= kLanes) {
    const int images = valid < kLanes ? valid : kLanes;
    for (int image = 0; image < images; ++image, rows += kColumns<T>) {
      Vec<T> x[XB];
#pragma GCC unroll 32
      for (int v = 0; v < XB; ++v) x[v] = load(rows + v * kWidth<T>);
#pragma GCC unroll 32
      for (int m = 0; m < MB; ++m) {
        const Vec<T> d = broadcast<T>(a[m * kLanes + image]);
#pragma GCC unroll 32
        for (int v = 0; v < XB; ++v) acc[m][v] += x[v] * d;
      }
    }
  }
#pragma GCC unroll 32
  for (int m = 0; m < MB; ++m) {
#pragma GCC unroll 32
    for (int v = 0; v < XB; ++v) store(dw + m * dw_row + v * kWidth<T>, acc[m][v]);
  }
}

// Columns that fill no vector.
template <typename T>
void add_outer_rest(const T* a, ptrdiff_t a_block, const T* rows, int blocks, int valid, T* dw,
                    ptrdiff_t dw_row, int outer, int columns) {
  for (int block = 0; block < blocks; ++block, a += a_block, valid -= kLanes) {
    const int images = valid < kLanes ? valid : kLanes;
    for (int image = 0; image < images; ++image, rows += kColumns<T>) {
      for (int m = 0; m < outer; ++m) {
        for (int i = 0; i < columns; ++i) dw[m * dw_row + i] += a[m * kLanes + image] * rows[i];
      }
    }
  }
}

template <typename T, int MB>
void add_panel(const T* a, ptrdiff_t a_block, const T* rows, int blocks, int valid, int columns,
               T* dw, ptrdiff_t dw_row) {
  constexpr int kW = kWidth<T>;
  int i = 0;
  for (; i + kVectors * kW <= columns; i += kVectors * kW) {
    add_outer<T, MB, kVectors>(a, a_block, rows + i, blocks, valid, dw + i, dw_row);
  }
  for (; i + kW <= columns; i += kW)
    add_outer<T, MB, 1>(a, a_block, rows + i, blocks, valid, dw + i, dw_row);
  if (i < columns)
    add_outer_rest(a, a_block, rows + i, blocks, valid, dw + i, dw_row, MB, columns - i);
}

// rows[image][kColumns] of one block; columns past `columns` are left as they are.
template <typename T>
void turn(const T* from, int columns, T* rows) {
  constexpr int kW = kWidth<T>;
  for (int lane = 0; lane < kLanes; lane += kW) {
    int i = 0;
    for (; i + kW <= columns; i += kW) {
      Vec<T> v[kW];
#pragma GCC unroll 16
      for (int n = 0; n < kW; ++n) v[n] = load(from + (i + n) * kLanes + lane);
      transpose<T>(v);
#pragma GCC unroll 16
      for (int n = 0; n < kW; ++n) store(rows + (lane + n) * kColumns<T> + i, v[n]);
    }
    for (; i < columns; ++i) {
      for (int n = 0; n < kW; ++n) rows[(lane + n) * kColumns<T> + i] = from[i * kLanes + lane + n];
    }
  }
}

template <typename T>
void add_product_of_images(const T* a, int outer, const T* b, int inner, int blocks, int valid,
                           T* dw) {
  alignas(64) T rows[kGroup * kLanes * kColumns<T>];
  const ptrdiff_t a_block = static_cast<ptrdiff_t>(outer) * kLanes;
  const ptrdiff_t b_block = static_cast<ptrdiff_t>(inner) * kLanes;
  for (int block = 0; block < blocks && valid > 0; block += kGroup, valid -= kGroup * kLanes) {
    const int group = blocks - block < kGroup ? blocks - block : kGroup;
    for (int i = 0; i < inner; i += kColumns<T>) {
      const int columns = inner - i < kColumns<T> ? inner - i : kColumns<T>;
      for (int g = 0; g < group; ++g) {
        turn(b + (block + g) * b_block + i * kLanes, columns, rows + g * kLanes * kColumns<T>);
      }
      const T* from = a + block * a_block;
      T* to = dw + i;
      int m = 0;
      for (; m + kOuter <= outer; m += kOuter) {
        add_panel<T, kOuter>(from + m * kLanes, a_block, rows, group, valid, columns,
                             to + m * ptrdiff_t{inner}, inner);
      }
      for (; m < outer; ++m) {
        add_panel<T, 1>(from + m * kLanes, a_block, rows, group, valid, columns,
                        to + m * ptrdiff_t{inner}, inner);
      }
    }
  }
}

template <typename T>
void grad_weight(const GemmShape& shape, const T* x, const T* dy, int valid, T* dw, T* db) {
  if (shape.order == WeightOrder::kRowIsOutput) {
    add_product_of_images(dy, shape.m, x, shape.k, shape.blocks, valid, dw);
  } else {
    add_product_of_images(x, shape.k, dy, shape.m, shape.blocks, valid, dw);
  }
  if (db == nullptr) return;
  for (int block = 0; block < shape.blocks; ++block, valid -= kLanes) {
    const int images = valid < kLanes ? valid : kLanes;
    for (int m = 0; m < shape.m; ++m, dy += kLanes) {
      T sum = 0;
      for (int image = 0; image < images; ++image) sum += dy[image];
      db[m] += sum;
    }
  }
}

}  // namespace

template <typename T>
void add_gemm(LaneKernels<T>* kernels) {
  kernels->gemm_forward = forward<T>;
  kernels->gemm_grad_data = grad_data<T>;
  kernels->gemm_grad_weight = grad_weight<T>;
}

template void add_gemm<float>(LaneKernels<float>*);
template void add_gemm<double>(LaneKernels<double>*);

}  // namespace sardonyx::ops::lanes::SARDONYX_ISA
