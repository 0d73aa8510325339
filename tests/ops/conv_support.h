// Geometries of convolutions, their cases, and one node to run single kernels on.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/core/infer.h"
#include "ops/core/window.h"
#include "tests/support/kernel_run.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {

using graph::Attributes;
using Ints = std::vector<int64_t>;

struct Geometry {
  std::string name;
  Ints x, w;
  Attributes attributes = {};
  bool bias = false;
};

// One for every CONV case that differs in shape.
inline const std::vector<Geometry> kGeometries = {
    {"stride3_not_dividing", {2, 2, 8, 8}, {3, 2, 3, 3}, {{"strides", Ints{3, 3}}}},
    {"stride2_dilation2",
     {1, 2, 7, 7},
     {2, 2, 3, 3},
     {{"strides", Ints{2, 2}}, {"dilations", Ints{2, 2}}}},
    {"pads_1_0_2_3", {1, 2, 5, 5}, {2, 2, 3, 3}, {{"pads", Ints{1, 0, 2, 3}}}, true},
    {"pads_at_the_end_stride2",
     {2, 2, 6, 6},
     {3, 2, 3, 3},
     {{"pads", Ints{0, 0, 1, 1}}, {"strides", Ints{2, 2}}}},
    {"kernel_larger_than_input", {1, 1, 3, 3}, {2, 1, 5, 5}, {{"pads", Ints{2, 2, 2, 2}}}},
    {"k1_stride2", {2, 3, 5, 5}, {2, 3, 1, 1}, {{"strides", Ints{2, 2}}}},
    {"k1_plain", {2, 3, 2, 3}, {4, 3, 1, 1}, {}, true},
    {"bias_over_batch_and_space", {3, 1, 4, 4}, {2, 1, 3, 3}, {{"pads", Ints{1, 1, 1, 1}}}, true},
    {"stride_and_dilation_differ_per_axis",
     {1, 2, 8, 7},
     {2, 2, 3, 2},
     {{"strides", Ints{1, 2}}, {"dilations", Ints{3, 1}}}},
    {"kernel_2x3", {1, 1, 5, 4}, {1, 1, 2, 3}},
    {"two_groups_4_to_6", {2, 4, 5, 5}, {6, 2, 3, 3}, {{"group", int64_t{2}}}, true},
    {"depthwise_stride2",
     {1, 24, 4, 4},
     {24, 1, 3, 3},
     {{"group", int64_t{24}}, {"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}}},
    {"depthwise_pad1",
     {2, 3, 5, 4},
     {3, 1, 3, 3},
     {{"group", int64_t{3}}, {"pads", Ints{1, 1, 1, 1}}}},
    {"depthwise_multiplier2", {1, 3, 4, 4}, {6, 1, 3, 3}, {{"group", int64_t{3}}}, true},
    {"one_axis_two_groups",
     {2, 4, 9},
     {4, 2, 3},
     {{"group", int64_t{2}}, {"pads", Ints{1, 1}}, {"strides", Ints{2}}}},
    {"one_axis_causal", {1, 2, 7}, {3, 2, 3}, {{"pads", Ints{4, 0}}, {"dilations", Ints{2}}}, true},
    {"three_axes",
     {1, 2, 3, 4, 3},
     {2, 2, 2, 2, 2},
     {{"pads", Ints{0, 1, 0, 1, 0, 0}}, {"strides", Ints{1, 2, 1}}},
     true},
    {"four_axes", {1, 1, 2, 3, 2, 3}, {2, 1, 2, 2, 1, 2}, {{"pads", Ints{0, 0, 0, 1, 0, 0, 0, 0}}}},
    {"channels_fill_no_vector", {2, 5, 4, 3}, {7, 5, 2, 2}, {}, true},
};

inline OpCase conv_case(const Geometry& g) {
  OpCase c;
  c.claim = g.name;
  c.op = "Conv";
  c.inputs = {random(g.x), parameter(random(g.w))};
  if (g.bias) c.inputs.push_back(parameter(random({g.w[0]})));
  c.attributes = g.attributes;
  c.batch = true;
  c.must_run = {"conv.ref"};
  const size_t axes = g.x.size() - 2;
  if (axes <= 3) c.must_run.push_back("conv.onednn");
  if (axes <= 2) c.must_run.push_back("conv.lanes");
  return c;
}

inline Ints tail(const Ints& shape) { return {shape.begin() + 2, shape.end()}; }

inline Ints output_shape(const Geometry& g) {
  graph::Graph graph;
  graph::Node* node = graph.add_node("", "Conv", {}, {});
  node->attributes = g.attributes;
  const Ints out = ops::window_of(*node, tail(g.x), tail(g.w)).out;
  Ints shape{g.x[0], g.w[0]};
  shape.insert(shape.end(), out.begin(), out.end());
  return shape;
}

inline OpCase gradient_case(const Geometry& g, const char* op) {
  OpCase c = conv_case(g);
  c.claim = std::string(op) + " " + g.name;
  c.domain = ops::kDomain;
  c.op = op;
  c.float_tolerance = {1e-5, 1e-5};
  return c;
}

inline OpCase grad_data_case(const Geometry& g) {
  OpCase c = gradient_case(g, "ConvGradData");
  c.inputs = {parameter(random(g.w)), random(output_shape(g))};
  c.attributes["input_shape"] = tail(g.x);
  return c;
}

inline OpCase grad_filter_case(const Geometry& g) {
  OpCase c = gradient_case(g, "ConvGradFilter");
  c.inputs = {random(g.x), random(output_shape(g))};
  c.attributes["kernel_shape"] = tail(g.w);
  return c;
}

inline OpCase grad_bias_case(const Geometry& g) {
  OpCase c = gradient_case(g, "ConvGradBias");
  c.inputs = {random(output_shape(g))};
  c.attributes = {};
  c.must_run = {"conv.ref", "conv.plain", "conv.lanes"};
  return c;
}

inline const ops::KernelDef& kernel_named(const OpCase& c, const std::string& name) {
  for (const ops::KernelDef* kernel : ops::KernelRegistry::get().find(c.domain, c.op)) {
    if (kernel->name == name) return *kernel;
  }
  throw Error("no kernel {} of {}", name, c.op);
}

// One node with operands of `c`, ready to run kernels on, those that would decline as well. The
// numbers are the same in float and double.
struct OneNode {
  explicit OneNode(const OpCase& c, DType dtype = DType::kFloat32) {
    std::vector<ops::Value*> values;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const OpInput& input = c.inputs[i];
      inputs.push_back(random_tensor(dtype, input.shape, input.low, input.high, i + 1));
      values.push_back(graph.add_input(fmt::format("x{}", i), inputs.back().type()));
      batch.push_back(input.role == Role::kData);
    }
    node = graph.add_node(c.domain, c.op, values, {"y"});
    node->attributes = c.attributes;
    ops::infer_node(*node);
    request = ops::KernelRequest::of(*node);
  }
  // Batch operands in lanes; `out`: whether the output carries the batch.
  void to_lanes(bool out) {
    for (size_t i = 0; i < batch.size(); ++i) {
      if (batch[i]) request.in[i].layout = graph::Layout::lanes(16);
    }
    if (out) request.out[0].layout = graph::Layout::lanes(16);
  }
  Tensor run(const ops::KernelDef& kernel, int threads) const {
    return run(kernel, RunOptions{.threads = threads});
  }
  Tensor run(const ops::KernelDef& kernel, const RunOptions& options) const {
    const RunResult result = run_kernel(kernel, request, inputs, options);
    for (const std::string& fault : result.faults) ADD_FAILURE() << kernel.name << ": " << fault;
    return result.outputs[0];
  }

  graph::Graph graph;
  graph::Node* node;
  std::vector<Tensor> inputs;
  std::vector<bool> batch;
  ops::KernelRequest request;
};

}  // namespace sardonyx::test
