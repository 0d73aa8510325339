#include "models/lenet.h"

#include "graph/builder.h"
#include "graph/support/error.h"

namespace sardonyx::models {

namespace {

using graph::Builder;
using graph::Value;

constexpr int64_t kSmallestImage = 16;

Value* conv(Builder& b, const Init& init, Value* x, const std::string& name, int64_t from,
            int64_t to, int64_t kernel) {
  Value* weight =
      b.constant(name + ".weight", init_weight(init, name + ".weight", {to, from, kernel, kernel}));
  Value* bias =
      b.constant(name + ".bias", init_bias(init, name + ".bias", to, from * kernel * kernel));
  return b.op("Conv", {x, weight, bias}, {{"kernel_shape", std::vector<int64_t>{kernel, kernel}}},
              name + ".out");
}

Value* relu_pool(Builder& b, Value* x, const std::string& number) {
  Value* y = b.op("Relu", {x}, {}, "relu" + number);
  return b.op(
      "AveragePool", {y},
      {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}},
      "pool" + number);
}

Value* linear(Builder& b, const Init& init, Value* x, const std::string& name, int64_t from,
              int64_t to, const std::string& output) {
  Value* weight = b.constant(name + ".weight", init_weight(init, name + ".weight", {to, from}));
  Value* bias = b.constant(name + ".bias", init_bias(init, name + ".bias", to, from));
  return b.op("Gemm", {x, weight, bias}, {{"transB", int64_t{1}}}, output);
}

int64_t behind_pools(int64_t size) { return ((size - 2) / 2 - 4) / 2; }

}  // namespace

std::unique_ptr<graph::Graph> lenet(const ImageModel& options) {
  if (options.height < kSmallestImage || options.width < kSmallestImage) {
    throw Error("LeNet needs images of at least {0} x {0}, asked for {1} x {2}", kSmallestImage,
                options.height, options.width);
  }
  auto graph = std::make_unique<graph::Graph>();
  graph->name = "lenet";
  graph->opsets[""] = 17;
  Builder b(*graph);
  const graph::TensorType input(graph::DType::kFloat32, {graph::Dim::named("N"), options.channels,
                                                         options.height, options.width});
  Value* x = graph->add_input("input", input);
  x = relu_pool(b, conv(b, options.init, x, "conv1", options.channels, 20, 3), "1");
  x = relu_pool(b, conv(b, options.init, x, "conv2", 20, 50, 5), "2");
  x = b.op("Flatten", {x}, {}, "flatten");
  const int64_t features = 50 * behind_pools(options.height) * behind_pools(options.width);
  x = linear(b, options.init, x, "fc1", features, 128, "fc1.out");
  x = b.op("Relu", {x}, {}, "relu3");
  x = linear(b, options.init, x, "fc2", 128, options.classes, "output");
  x->type = graph::TensorType(graph::DType::kFloat32, {graph::Dim::named("N"), options.classes});
  graph->add_output(x);
  return graph;
}

}  // namespace sardonyx::models
