// Numpy broadcasting: the shape rule, the batch role, and the walk over operands of several shapes.
//
// Old operators (opset < 7) may say with an attribute where input 1 stands against input 0; it
// survives normalisation as the private attribute `legacy_axis`, which everything here honours.
// Layouts are seen as stored: with axis 0 in lanes of 16, [N,C] is walked as [N/16][C][16], and an
// operand without batch is broadcast over blocks and lanes.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/kernel.h"
#include "ops/core/normalize.h"

namespace sardonyx::ops {

inline constexpr const char* kLegacyAxis = "legacy_axis";

// Below opset 7: `axis`, where `broadcast` is 1, becomes `legacy_axis`.
void normalize_broadcast(NormalizeContext& context);
// Output 0 gets the common shape of inputs first .. last and the given element type. Throws
// "CONSTRAINT: ..." naming the axis where they don't fit. A dimension that is not known yet fits.
void infer_broadcast(InferContext& context, DType dtype, int first, int last,
                     const char* constraint);
// kRows when axis 0 of the output is axis 0 of every batch-carrying input and the other inputs are
// the same for all rows; else kCouples.
BatchRole broadcast_role(const Node& node, int slot);
// reduce_to for input `slot`, with legacy_axis.
Value* reduce_to_input(GradientContext& context, Value* g, int slot);

// Dimensions of input `slot` against an output of `rank` axes: ones where it is broadcast.
std::vector<Dim> aligned_dims(const Node& node, int slot, const std::vector<Dim>& dims, int rank);

// Refusals of a kLanes kernel of a broadcasting operator: some operand has rows of its own but is
// plain, or its rows are not the output's.
std::vector<Refusal> broadcast_lanes_refusals();

// Where reference kernels find the element of input `i` that meets element `at` (row-major) of
// output 0. Plain layouts.
class BroadcastOffset {
 public:
  BroadcastOffset(const KernelRequest& request, int input);
  int64_t operator()(int64_t at) const {
    int64_t offset = 0;
    for (size_t axis = shape_.size(); axis-- > 0;) {
      offset += at % shape_[axis] * strides_[axis];
      at /= shape_[axis];
    }
    return offset;
  }

 private:
  std::vector<int64_t> shape_, strides_;
};

// The loop nest over output 0 and the inputs first .. last, with adjacent axes merged where all
// operands allow it. The two innermost axes are `rows` and `cols`; along cols an operand's stride
// is 0 or 1.
class Broadcast {
 public:
  Broadcast(const KernelRequest& request, int first, int last);

  int64_t numel() const { return numel_; }
  int64_t row_stride(int operand) const { return strides_[operand][strides_[operand].size() - 2]; }
  int64_t col_stride(int operand) const { return strides_[operand].back(); }
  // No operand is broadcast.
  bool same_shape() const;

  // Cuts the output elements [begin, end) into blocks: f(rows, cols, y, x) where the block's first
  // element is element y of the output and element x[k] of operand k. Output rows lie one behind
  // the other; rows of operand k are row_stride(k) apart.
  template <class F>
  void visit(int64_t begin, int64_t end, F&& f) const {
    std::vector<int64_t> x(strides_.size());
    while (begin < end) {
      int64_t rows = 0, cols = 0;
      locate(begin, end, x.data(), &rows, &cols);
      f(rows, cols, begin, static_cast<const int64_t*>(x.data()));
      begin += rows * cols;
    }
  }

 private:
  // Offsets of output element `begin`, and the largest block that starts there.
  void locate(int64_t begin, int64_t end, int64_t* x, int64_t* rows, int64_t* cols) const;

  int64_t numel_ = 0;
  std::vector<int64_t> sizes_;                 // at least two
  std::vector<std::vector<int64_t>> strides_;  // [operand][axis], in elements
};

}  // namespace sardonyx::ops
