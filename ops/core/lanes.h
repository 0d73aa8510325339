// Kernels whose vector lane is the image: a block of 16 images lies as [C][H][W][16], so every
// channel count, window and border runs at full vector width. The caller loops over blocks (and
// threads); nothing here does.
//
// Invariants of every function:
//  * a lane never reaches another lane, except where a gradient is summed over the images of a
//  block: those take
//    `valid`, and lanes >= valid (which may hold anything, NaN too) add nothing;
//  * outputs are overwritten and gradients of weights are added to; buffers do not overlap unless
//  said so;
//  * pointers need only the alignment of T; 64 bytes are faster.
// The kernels are compiled once per instruction set (*_isa.cc); lanes.cc picks the copy for this
// processor.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sardonyx::ops::lanes {

inline constexpr int kLanes = 16;

enum class Isa { kBaseline, kAvx2, kAvx512 };

// A 2-D convolution of one block (1-D has h = r = p = 1). x [c][h][w][16], weights
// [m][c/groups][r][s], y [m][p][q][16]. End pads follow from p and q.
struct ConvShape {
  int c, h, w;
  int m, r, s, p, q;
  int stride_h = 1, stride_w = 1, dil_h = 1, dil_w = 1;
  int pad_top = 0, pad_left = 0;
  int groups = 1;
  // The part of y that anything reads, from the top left corner; 0 = all. The rest of y is not
  // written by conv_forward, and the rest of dy is not read by the gradients, which take it as
  // zero.
  int p_needed = 0, q_needed = 0;
};

// A 2-D pooling of one block, kernel r x s. The end pads matter for PoolPadding::kCounted only.
struct PoolShape {
  int c, h, w;
  int r, s, p, q;
  int stride_h = 1, stride_w = 1, dil_h = 1, dil_w = 1;
  int pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
};

// Whether declared pads count in the divisor of an average (cells that only ceil_mode adds never
// do).
enum class PoolPadding { kNotCounted, kCounted };

enum class Activation { kNone, kRelu };

// How a matrix of weights lies: kRowIsOutput = [m][k] (Gemm with transB), kRowIsInput = [k][m].
enum class WeightOrder { kRowIsOutput, kRowIsInput };

// y[m][16] = b[m] + sum_k w(m, k) x[k][16], for `blocks` blocks that lie one behind the other.
// More blocks per call read the weights less often.
struct GemmShape {
  int m, k;
  WeightOrder order;
  int blocks = 1;
};

// `relu_output`, where a gradient takes it, is null or the forward value (output of a Relu) that
// the result is the gradient of: where it is zero, the result is zero. NaN passes a Relu and its
// gradient.
template <typename T>
struct LaneKernels {
  Isa isa;

  // The convolution kernels read weights in an own order; pack them once per change of the weights.
  // The size counts elements and depends on the instruction set.
  size_t (*conv_forward_packed_size)(const ConvShape& shape);
  size_t (*conv_grad_data_packed_size)(const ConvShape& shape);
  void (*conv_pack_forward)(const ConvShape& shape, const T* w, T* packed);
  void (*conv_pack_grad_data)(const ConvShape& shape, const T* w, T* packed);

  // bias [m] may be null.
  void (*conv_forward)(const ConvShape& shape, const T* x, const T* packed, const T* bias,
                       Activation activation, T* y);
  void (*conv_grad_data)(const ConvShape& shape, const T* dy, const T* packed, const T* relu_output,
                         T* dx);
  // Adds into dw [m][c/groups][r][s] and, if it is not null, into db [m].
  void (*conv_grad_filter)(const ConvShape& shape, const T* x, const T* dy, int valid, T* dw,
                           T* db);

  // A window without a valid cell gives 0.
  void (*avg_pool)(const PoolShape& shape, PoolPadding padding, const T* x, T* y);
  void (*avg_pool_grad)(const PoolShape& shape, PoolPadding padding, const T* dy,
                        const T* relu_output, T* dx);
  // NaN wins a window; a window without a valid cell gives the lowest finite value. The gradient
  // finds the winner again from x: the first maximum in row-major window order takes it.
  void (*max_pool)(const PoolShape& shape, const T* x, T* y);
  void (*max_pool_grad)(const PoolShape& shape, const T* x, const T* dy, T* dx);

  // bias [m] may be null. grad_data: dx[k][16] = sum_m w(m, k) dy[m][16].
  void (*gemm_forward)(const GemmShape& shape, const T* x, const T* w, const T* bias,
                       Activation activation, T* y);
  void (*gemm_grad_data)(const GemmShape& shape, const T* dy, const T* w, const T* relu_output,
                         T* dx);
  // Adds into dw (in the order of w) and, if it is not null, into db [m]. `valid` counts the images
  // of all blocks: only the last block may be short.
  void (*gemm_grad_weight)(const GemmShape& shape, const T* x, const T* dy, int valid, T* dw,
                           T* db);

  // rows[i] = i-th of `valid` images, each `length` values, `row_stride` apart  <->  lanes
  // [length][16]. to_lanes fills the lanes >= valid with zeros.
  void (*to_lanes)(const T* rows, ptrdiff_t row_stride, int valid, int length, T* lanes);
  void (*from_lanes)(const T* lanes, int valid, int length, T* rows, ptrdiff_t row_stride);

  // Multiplies and adds in registers only, and returns how many floating-point operations it did:
  // timed, the peak of one core. `sink` keeps the compiler from dropping the work.
  int64_t (*peak_probe)(int64_t rounds, T* sink);
};

bool supported(Isa isa);
const char* name(Isa isa);

// The best copy for this processor (float, double), and a given one for tests; throws Error if not
// supported.
template <typename T>
const LaneKernels<T>& lane_kernels();
template <typename T>
const LaneKernels<T>& lane_kernels(Isa isa);

}  // namespace sardonyx::ops::lanes
