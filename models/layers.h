// Layers with their parameters, as PyTorch names and initialises them: what the networks of this
// folder are made of.
#pragma once

#include <cstdint>
#include <string>

#include "graph/builder.h"
#include "graph/init.h"

namespace sardonyx::models {

enum class Bias : uint8_t { kNone, kAdded };

// Square windows, the same padding on all sides.
struct Window {
  int64_t size = 3, stride = 1, pad = 0;
};

struct ConvOptions {
  Window window;
  Bias bias = Bias::kAdded;
  int64_t groups = 1;
};

class Layers {
 public:
  Layers(graph::Graph& graph, const graph::Init& init) : b_(graph), init_(init) {}

  // Parameters NAME.weight [to, from / groups, k, k] and NAME.bias [to]; the result is NAME.out.
  graph::Value* conv(graph::Value* x, const std::string& name, int64_t from, int64_t to,
                     const ConvOptions& options);
  // NAME.weight (1), NAME.bias (0), NAME.running_mean (0), NAME.running_var (1), all [channels];
  // momentum 0.9 (PyTorch's 0.1), epsilon 1e-5.
  graph::Value* batch_norm(graph::Value* x, const std::string& name, int64_t channels);
  // NAME.weight [to, from], NAME.bias [to]; the result is called `result`.
  graph::Value* linear(graph::Value* x, const std::string& name, int64_t from, int64_t to,
                       const std::string& result);
  // The end of a network of convolutions: the mean over the pixels (`avgpool`), `flatten`, linear.
  graph::Value* pooled_head(graph::Value* x, const std::string& name, int64_t from, int64_t to) {
    return linear(op("Flatten", op("GlobalAveragePool", x, "avgpool"), "flatten"), name, from, to,
                  "output");
  }
  graph::Value* relu(graph::Value* x, const std::string& name) { return op("Relu", x, name); }
  graph::Value* relu6(graph::Value* x, const std::string& name);
  graph::Value* pool(const char* kind, graph::Value* x, const Window& window,
                     const std::string& name);
  // A one-input operator without attributes: "Flatten", "GlobalAveragePool", ...
  graph::Value* op(const char* kind, graph::Value* x, const std::string& name) {
    return b_.op(kind, {x}, {}, name);
  }
  graph::Value* add(graph::Value* x, graph::Value* y, const std::string& name) {
    return b_.op("Add", {x, y}, {}, name);
  }

 private:
  graph::Builder b_;
  const graph::Init& init_;
};

}  // namespace sardonyx::models
