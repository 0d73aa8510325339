// Seeded initial values for the parameters of a graph.
//
//   normal:STD   weights N(0, STD^2), biases 0
//   kaiming      weights N(0, 2 / fan_in), biases 0             (He et al. 2015, for ReLU)
//   xavier       weights U(-b, b), b = sqrt(6 / (fan_in + fan_out)), biases 0   (Glorot 2010)
//   pytorch      weights and biases U(-b, b), b = 1 / sqrt(fan_in)      (torch.nn.Linear,
//                torch.nn.Conv2d; torch.nn.LSTM and its like: the size of the state for fan_in)
//
// A value depends on (seed, name of the tensor, index) only, so adding a layer changes no other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/tensor.h"

namespace sardonyx::graph {

struct Init {
  enum class Kind : uint8_t { kNormal, kKaiming, kXavier, kPytorch };
  Kind kind = Kind::kPytorch;
  double std = 0.01;  // kNormal
  uint64_t seed = 0;
};

// "normal:0.01", "kaiming", "xavier", "pytorch". Throws Error with the known names.
Init parse_init(const std::string& text, uint64_t seed);

// Numbers of operands that go into one result of a layer, and of results that one operand goes
// into.
struct Fan {
  double in = 1, out = 1;
  double torch = 0;  // what torch.nn's own layer takes for `in`; 0: that
  double torch_in() const { return torch != 0 ? torch : in; }
};
// Of a weight [out, in, ...]: in or out times the receptive field, as torch.nn.init counts them
// (groups don't). 1 and 1 of less than two axes.
Fan fan_of(const std::vector<int64_t>& shape);

// float32 weight; without a fan it has the order above.
Tensor init_weight(const Init& init, const std::string& name, std::vector<int64_t> shape, Fan fan);
Tensor init_weight(const Init& init, const std::string& name, std::vector<int64_t> shape);
// float32, N(0, std^2) whatever the kind.
Tensor init_normal(const Init& init, const std::string& name, std::vector<int64_t> shape,
                   double std);
// float32 bias of `size` elements that belongs to a weight of the given fan_in.
Tensor init_bias(const Init& init, const std::string& name, int64_t size, int64_t fan_in);

}  // namespace sardonyx::graph
