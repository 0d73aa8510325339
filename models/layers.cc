#include "models/layers.h"

#include <algorithm>

namespace sardonyx::models {

using graph::Value;

namespace {

graph::Tensor filled(int64_t size, float value) {
  graph::Tensor tensor(graph::DType::kFloat32, {size});
  std::ranges::fill(tensor.mutable_data<float>(), value);
  return tensor;
}

std::vector<int64_t> twice(int64_t value) { return {value, value}; }

}  // namespace

Value* Layers::conv(Value* x, const std::string& name, int64_t from, int64_t to,
                    const ConvOptions& options) {
  const auto [size, stride, pad] = options.window;
  const int64_t each = from / options.groups;
  std::vector<Value*> inputs = {
      x,
      b_.constant(name + ".weight", init_weight(init_, name + ".weight", {to, each, size, size}))};
  if (options.bias == Bias::kAdded) {
    inputs.push_back(
        b_.constant(name + ".bias", init_bias(init_, name + ".bias", to, each * size * size)));
  }
  graph::Attributes attributes = {{"kernel_shape", twice(size)}};
  if (stride != 1) attributes["strides"] = twice(stride);
  if (pad != 0) attributes["pads"] = std::vector<int64_t>(4, pad);
  if (options.groups != 1) attributes["group"] = options.groups;
  return b_.op("Conv", std::move(inputs), std::move(attributes), name + ".out");
}

Value* Layers::batch_norm(Value* x, const std::string& name, int64_t channels) {
  Value* weight = b_.constant(name + ".weight", filled(channels, 1));
  Value* bias = b_.constant(name + ".bias", filled(channels, 0));
  Value* mean = b_.constant(name + ".running_mean", filled(channels, 0));
  Value* variance = b_.constant(name + ".running_var", filled(channels, 1));
  return b_.op("BatchNormalization", {x, weight, bias, mean, variance},
               {{"epsilon", 1e-5}, {"momentum", 0.9}}, name + ".out");
}

Value* Layers::linear(Value* x, const std::string& name, int64_t from, int64_t to,
                      const std::string& result) {
  Value* weight = b_.constant(name + ".weight", init_weight(init_, name + ".weight", {to, from}));
  Value* bias = b_.constant(name + ".bias", init_bias(init_, name + ".bias", to, from));
  return b_.op("Gemm", {x, weight, bias}, {{"transB", int64_t{1}}}, result);
}

Value* Layers::relu6(Value* x, const std::string& name) {
  Value* low = b_.constant(name + ".min", graph::Tensor::scalar<float>(0));
  Value* high = b_.constant(name + ".max", graph::Tensor::scalar<float>(6));
  return b_.op("Clip", {x, low, high}, {}, name);
}

Value* Layers::pool(const char* kind, Value* x, const Window& window, const std::string& name) {
  graph::Attributes attributes = {{"kernel_shape", twice(window.size)},
                                  {"strides", twice(window.stride)}};
  if (window.pad != 0) attributes["pads"] = std::vector<int64_t>(4, window.pad);
  return b_.op(kind, {x}, std::move(attributes), name);
}

}  // namespace sardonyx::models
