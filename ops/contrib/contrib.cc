// Operators of other domains that are another spelling of standard ones (OpDef::spelling):
// normalize writes them so, and nothing behind it knows that they were there.
//
// com.microsoft (what ONNX Runtime's optimizers write)
//   Gelu x                     Gelu
//   FastGelu x bias            Gelu with tanh of x + bias
//   QuickGelu x                Swish, alpha 1.702
//   BiasGelu a b               Gelu of a + b
//   FusedMatMul a b            alpha * MatMul of a and b, either with its last two axes exchanged
//   LayerNormalization, SimplifiedLayerNormalization   LayerNormalization, RMSNormalization
//   SkipLayerNormalization, SkipSimplifiedLayerNormalization x skip scale [beta] bias
//                              the same of x + skip + bias, over the last axis
// ai.onnx.ml (what scikit-learn exports end in)
//   ZipMap x                   x itself: the map from class to score is for readers
//   ArrayFeatureExtractor x y  Gather along the last axis
// C1 FusedMatMul: transBatchA and transBatchB are 0
// Source   onnxruntime ContribOperators.md; ONNX ai.onnx.ml ArrayFeatureExtractor-1, ZipMap-1
#include <algorithm>

#include "graph/support/error.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

constexpr const char* kMicrosoft = "com.microsoft";
constexpr const char* kMl = "ai.onnx.ml";

std::string name_for(const Node& node, const char* part) {
  return (node.output(0) != nullptr ? node.output(0)->name : node.op) + "/" + part;
}

void set_inputs(Node& node, const std::vector<Value*>& inputs) {
  graph::Graph& graph = *node.graph();
  for (size_t i = 0; i < inputs.size(); ++i) graph.set_input(&node, static_cast<int>(i), inputs[i]);
  for (int i = node.num_inputs(); i-- > static_cast<int>(inputs.size());) {
    graph.set_input(&node, i, nullptr);
  }
}

// The node becomes a standard operator with these inputs.
void become(Node& node, const char* op, const std::vector<Value*>& inputs,
            graph::Attributes attributes) {
  node.domain.clear();
  node.op = op;
  node.attributes = std::move(attributes);
  set_inputs(node, inputs);
}

Value* sum(NormalizeContext& c, Value* a, Value* b, const char* part) {
  return b == nullptr ? a : c.b().op("Add", {a, b}, {}, name_for(c.node(), part));
}

// --- Activations

void gelu(NormalizeContext& c) { become(c.node(), "Gelu", {c.node().input(0)}, {}); }

void bias_gelu(NormalizeContext& c) {
  Node& node = c.node();
  become(node, "Gelu", {sum(c, node.input(0), node.input(1), "biased")}, {});
}

void fast_gelu(NormalizeContext& c) {
  Node& node = c.node();
  become(node, "Gelu", {sum(c, node.input(0), node.input(1), "biased")},
         {{"approximate", std::string("tanh")}});
}

void quick_gelu(NormalizeContext& c) {
  Node& node = c.node();
  become(node, "Swish", {node.input(0)}, {{"alpha", node.get_float("alpha", 1.702)}});
}

// --- Products

Value* exchanged(NormalizeContext& c, int input, const char* attribute, const char* part) {
  Node& node = c.node();
  Value* value = node.input(input);
  if (node.get_int(attribute, 0) == 0 || value == nullptr) return value;
  return c.b().op("Transpose", {value}, {{"swap_last", int64_t{1}}}, name_for(node, part));
}

void fused_mat_mul(NormalizeContext& c) {
  Node& node = c.node();
  for (const char* attribute : {"transBatchA", "transBatchB"}) {
    if (node.get_int(attribute, 0) == 0) continue;
    throw Error("node {}: {} is {}, expected 0: FusedMatMul takes the batch axes in front only",
                node.label(), attribute, node.get_int(attribute, 0));
  }
  Value* a = exchanged(c, 0, "transA", "a");
  Value* b = exchanged(c, 1, "transB", "b");
  const double alpha = node.get_float("alpha", 1.0);
  if (alpha == 1.0) return become(node, "MatMul", {a, b}, {});
  Value* product = c.b().op("MatMul", {a, b}, {}, name_for(node, "product"));
  Value* factor =
      c.b().constant(name_for(node, "alpha"), Tensor::scalar<float>(static_cast<float>(alpha)));
  Value* typed = c.b().op("CastLike", {factor, product}, {}, name_for(node, "alpha"));
  become(node, "Mul", {product, typed}, {});
}

// --- Normalisations

void layer(NormalizeContext& c) { c.node().domain.clear(); }

void simplified_layer(NormalizeContext& c) {
  Node& node = c.node();
  if (node.output(1) != nullptr && !node.output(1)->uses().empty()) {
    throw Error("node {}: output 1 (the inverse deviation) is used, but RMSNormalization has none",
                node.label());
  }
  become(node, "RMSNormalization", {node.input(0), node.input(1)},
         {{"axis", node.get_int("axis", -1)}, {"epsilon", node.get_float("epsilon", 1e-5)}});
}

// Output 3 of the node is the sum, which others read too.
Value* skip_sum(NormalizeContext& c, int bias) {
  Node& node = c.node();
  Value* x = sum(c, sum(c, node.input(0), node.input(1), "skip"), node.input(bias), "sum");
  Value* published = node.output(3);
  if (published != nullptr) {
    graph::Graph& graph = *node.graph();
    const std::string name = published->name;
    x->origin = published->origin;
    graph.replace_uses(published, x);
    graph.drop_output_value(&node, 3);
    graph.rename(x, name);
  }
  return x;
}

void skip_layer(NormalizeContext& c) {
  Node& node = c.node();
  Value* x = skip_sum(c, 4);
  become(node, "LayerNormalization", {x, node.input(2), node.input(3)},
         {{"axis", int64_t{-1}}, {"epsilon", node.get_float("epsilon", 1e-12)}});
}

void skip_simplified_layer(NormalizeContext& c) {
  Node& node = c.node();
  Value* x = skip_sum(c, 3);
  become(node, "RMSNormalization", {x, node.input(2)},
         {{"axis", int64_t{-1}}, {"epsilon", node.get_float("epsilon", 1e-12)}});
}

// --- ai.onnx.ml

void zip_map(NormalizeContext& c) {
  Node& node = c.node();
  if (node.output(0) != nullptr) node.output(0)->type = TensorType();
  become(node, "Identity", {node.input(0)}, {});
}

void array_feature_extractor(NormalizeContext& c) {
  Node& node = c.node();
  const DType chosen = node.input(1)->type.dtype;
  if (chosen != DType::kUndefined && !graph::is_integer(chosen)) {
    throw Error("node {}: {} is {}, expected the integer numbers of the columns to take",
                node.label(), input_label(node, 1), graph::dtype_name(chosen));
  }
  const std::string rows = name_for(node, "indices");
  Value* all = c.b().constant(rows, Tensor::of<int64_t>({1}, {-1}));
  Value* indices = c.b().op("Reshape", {node.input(1), all}, {}, rows);
  Value* x = node.input(0);
  // What is taken of a vector is a matrix of one row.
  if (x != nullptr && x->type.ranked && x->type.rank() == 1) {
    Value* front = c.b().constant(name_for(node, "row"), Tensor::of<int64_t>({1}, {0}));
    x = c.b().op("Unsqueeze", {x, front}, {}, name_for(node, "row"));
  }
  become(node, "Gather", {x, indices}, {{"axis", int64_t{-1}}});
}

// --- Definition

// Never reached: nothing of this name is left after canonicalize.
void infer_nothing(InferContext& c) {
  throw InternalError("node " + c.node().label() + " was not brought to its standard form");
}

struct Spelling {
  const char *domain, *op, *doc;
  std::vector<Port> inputs;
  std::vector<AttributeDef> attributes;
  void (*normalize)(NormalizeContext&);
  std::vector<Port> more_outputs = {};
};

// Said here: what the node becomes has another name and other inputs.
void require_inputs(const Node& node, const std::vector<Port>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool required = inputs[i].presence == Presence::kRequired;
    if (!required || node.input(static_cast<int>(i)) != nullptr) continue;
    throw Error("node {}: input {} ({}) is left out, but {} needs it", node.label(), i,
                inputs[i].name, op_label(node.domain, node.op));
  }
}

OpDef definition(const Spelling& spelling) {
  OpDef op;
  op.domain = spelling.domain;
  op.name = spelling.op;
  op.doc = spelling.doc;
  op.since = {1};
  op.inputs = spelling.inputs;
  op.outputs = {{"y"}};
  for (const Port& port : spelling.more_outputs) op.outputs.push_back(port);
  op.attributes = spelling.attributes;
  op.spelling = true;
  op.normalize = [inputs = spelling.inputs, write = spelling.normalize](NormalizeContext& c) {
    require_inputs(c.node(), inputs);
    write(c);
  };
  op.infer = infer_nothing;
  op.gradient = not_differentiable("it is differentiated in its standard form");
  return op;
}

Port optional(const char* name) { return {name, Presence::kOptional}; }

}  // namespace

void register_contrib(OpRegistry& ops) {
  const AttributeDef axis = {"axis", "int, default -1: first normalised axis"};
  const AttributeDef epsilon = {"epsilon", "float: added to the variance"};
  const AttributeDef stash = {"stash_type", "int, default 1: type of the statistics"};
  const Spelling spellings[] = {
      {kMicrosoft, "Gelu", "Gelu.", {{"x"}}, {}, gelu},
      {kMicrosoft,
       "FastGelu",
       "Gelu with tanh, of x + bias.",
       {{"x"}, optional("bias")},
       {},
       fast_gelu},
      {kMicrosoft,
       "QuickGelu",
       "x * sigmoid(alpha * x): Swish.",
       {{"x"}},
       {{"alpha", "float, default 1.702: factor inside the sigmoid"}},
       quick_gelu},
      {kMicrosoft, "BiasGelu", "Gelu of a + b.", {{"a"}, {"b"}}, {}, bias_gelu},
      {kMicrosoft,
       "FusedMatMul",
       "alpha * MatMul of a and b, transposed as asked.",
       {{"a"}, {"b"}},
       {{"alpha", "float, default 1: factor of the product"},
        {"transA", "int, default 0: 1 exchanges the last two axes of a"},
        {"transB", "int, default 0: 1 exchanges the last two axes of b"},
        {"transBatchA", "int: 0"},
        {"transBatchB", "int: 0"}},
       fused_mat_mul},
      {kMicrosoft,
       "LayerNormalization",
       "LayerNormalization.",
       {{"x"}, {"scale"}, optional("bias")},
       {axis, epsilon, stash},
       layer,
       {optional("mean"), optional("inv_std_dev")}},
      {kMicrosoft,
       "SimplifiedLayerNormalization",
       "RMSNormalization.",
       {{"x"}, {"scale"}},
       {axis, epsilon, stash},
       simplified_layer,
       {optional("inv_std_dev")}},
      {"",
       "SimplifiedLayerNormalization",
       "RMSNormalization, as ONNX Runtime writes it.",
       {{"x"}, {"scale"}},
       {axis, epsilon, stash},
       simplified_layer,
       {optional("inv_std_dev")}},
      {kMicrosoft,
       "SkipLayerNormalization",
       "LayerNormalization of x + skip + bias over the last axis.",
       {{"x"}, {"skip"}, {"scale"}, optional("beta"), optional("bias")},
       {epsilon},
       skip_layer,
       {optional("mean"), optional("inv_std_dev"), optional("sum")}},
      {kMicrosoft,
       "SkipSimplifiedLayerNormalization",
       "RMSNormalization of x + skip + bias over the last axis.",
       {{"x"}, {"skip"}, {"scale"}, optional("bias")},
       {epsilon},
       skip_simplified_layer,
       {optional("mean"), optional("inv_std_dev"), optional("sum")}},
      {kMl,
       "ZipMap",
       "The scores themselves, without the names of their classes.",
       {{"x"}},
       {{"classlabels_int64s", "ints: names of the classes"},
        {"classlabels_strings", "strings: names of the classes"}},
       zip_map},
      {kMl,
       "ArrayFeatureExtractor",
       "Gather along the last axis.",
       {{"x"}, {"y"}},
       {},
       array_feature_extractor},
  };
  for (const Spelling& spelling : spellings) ops.add(definition(spelling));
}

}  // namespace sardonyx::ops
