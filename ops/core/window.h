// The sliding window of Conv and the pooling operators: attributes decoded and checked once, pads
// resolved, output sizes computed, per spatial axis.
//
// Along an axis, output o and tap t meet input o * stride - pad_begin + t * dilation.
//   W1 strides and dilations have one entry per spatial axis, pads two
//   W2 strides and dilations >= 1       W3 pads >= 0       W4 auto_pad is one that ONNX knows
//   W5 the kernel has at least one tap  W6 the window fits: every output axis >= 1
//   W7 positions of cells fit into 32 bits, whatever is added: input, pads, window and stride
//      together
// With ceil_mode the last window may hang over the end, but one that starts at or past input plus
// begin pad is dropped, at every opset. auto_pad other than NOTSET ignores `pads`.
// Source: ONNX Conv-22, MaxPool-22, AveragePool-22.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/builder.h"
#include "graph/graph.h"

namespace sardonyx::ops {

// Sizes of the axes behind batch and channels; -1 where not known yet.
std::vector<int64_t> spatial(const graph::TensorType& type);

struct Window {
  // -1 in `in` and `out`: not known yet. SAME pads of such an axis read 0.
  std::vector<int64_t> in, kernel, out, stride, dilation, pad_begin, pad_end;

  int axes() const { return static_cast<int>(kernel.size()); }
  // Cells from the first tap to the last.
  int64_t extent(int axis) const { return (kernel[axis] - 1) * dilation[axis] + 1; }
  int64_t in_cells() const;
  int64_t out_cells() const;
  int64_t taps() const;
  // begin pads, then end pads, as ONNX writes them.
  std::vector<int64_t> pads() const;
  // strides, dilations, pads: all that a gradient operator needs besides the shapes.
  graph::Attributes attributes() const;
};

// Reads strides, dilations, pads, auto_pad and ceil_mode of `node`. Sizes of -1 are unknown.
// Throws ConstraintError.
Window window_of(const graph::Node& node, std::vector<int64_t> in, std::vector<int64_t> kernel);

// Which array of cells is walked: x, y, or the taps of w.
enum class CellsOf : uint8_t { kInput, kOutput, kTaps };

// Flat indices of the two other cells that meet in the walked one: (output, tap) for an input,
// (input, tap) for an output, (input, output) for a tap.
struct Meeting {
  int64_t first, second;
};

// For plain loops over windows of any rank; optimised kernels have loops of their own.
class Meetings {
 public:
  // CHECK: all sizes are known.
  Meetings(const Window& window, CellsOf walked);
  int64_t cells() const { return cells_; }
  // All meetings in a cell, taps (for a tap: outputs) in row-major order; those in the padding are
  // left out.
  void of(int64_t cell, std::vector<Meeting>& result) const;

 private:
  struct Axis {
    std::vector<std::vector<Meeting>> at;  // by coordinate of the walked array
    int64_t first_size, second_size;
  };
  std::vector<Axis> axes_;
  int64_t cells_ = 1;
};

}  // namespace sardonyx::ops
