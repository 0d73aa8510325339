// ConvGeometry: the shapes and attributes of a convolution, decoded once; the same for Conv and its
// three gradient operators, wherever x, w and y stand in them, and for ConvTranspose, which is the
// data gradient of a convolution. Private to the room.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/core/kernel.h"
#include "ops/core/window.h"

namespace sardonyx::ops::conv {

struct ConvGeometry {
  int64_t batch = 0, channels = 0, outputs = 0, groups = 1;
  Window window;
  // Cells of y, from the first corner, that anything reads; equals window.out when all.
  std::vector<int64_t> needed;

  int64_t group_channels() const { return channels / groups; }
  int64_t group_outputs() const { return outputs / groups; }
  int64_t filter_numel() const { return outputs * group_channels() * window.taps(); }
  // For these cells of y along the axes (`needed`, or window.out). Multiply-adds count twice; the
  // padding counts as well.
  double flops(const std::vector<int64_t>& cells) const;

  static ConvGeometry forward(const KernelRequest& request);
  static ConvGeometry grad_data(const KernelRequest& request);
  static ConvGeometry grad_filter(const KernelRequest& request);
  static ConvGeometry transposed(const KernelRequest& request);
};

inline constexpr const char* kConvTranspose = "ConvTranspose";

// The window of the convolution whose data gradient a ConvTranspose is: window.out are the spatial
// sizes of its x, window.in those of its y (-1: not known). Throws ConstraintError.
Window transposed_window(const Node& node, std::vector<int64_t> x, std::vector<int64_t> kernel);

// The kernel of ConvTranspose that a kernel of ConvGradData gives: `with_bias` makes it run on the
// operands in ConvTranspose's order and add the bias.
using WithBias = std::unique_ptr<Kernel> (*)(std::unique_ptr<Kernel> data,
                                             const KernelRequest& request);
KernelDef transposed(KernelDef kernel, WithBias with_bias);

// For kernels that know no empty operands.
Refusal needs_images();

// The order among kernels of one speed: where the first doesn't decline it is the faster one.
void register_conv_winograd(KernelRegistry& kernels);
void register_conv_small(KernelRegistry& kernels);
void register_conv_dnnl(KernelRegistry& kernels);
void register_conv_lanes(KernelRegistry& kernels);
// Behind the kernels of ConvGradData, which it takes over.
void register_conv_transpose(KernelRegistry& kernels);

}  // namespace sardonyx::ops::conv
