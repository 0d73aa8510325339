// Dropout, as the file has it: y = x, mask all true. Training replaces it (apply_mode) by
// sardonyx.Dropout(x) -> y, mask: mask is true with probability 1 - ratio,
//          y = mask ? x / (1 - ratio) : 0
//
// Inputs   x   ratio, training_mode (optional constants; the file's form only)
// C1 x is floating       C2 0 <= ratio <= 1 (1 drops everything), constant
// The mask of an element depends on the run's seed, the step, the index of the sample in the global
// batch, `key` (a hash of the name of the node's output in the original file) and the element's
// place in the sample; so neither the cut of the batch nor threads nor layout change it. Where x
// doesn't carry the batch, all of x is one sample. Ratio 0 is the exact identity.
// Gradient DropoutGrad(dy, mask) = mask ? dy / (1 - ratio) : 0.   Reads mask only.
// C3 mask has the shape of dy
// Source   ONNX Dropout-1, 6, 7, 10, 12, 13, 22. Below 10 the mask has x's type: private attribute
//          mask_as_data.
#include "graph/names.h"
#include "ops/core/constraint.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/inference_form.h"
#include "ops/core/mode.h"
#include "ops/core/normalize.h"
#include "ops/core/random.h"

namespace sardonyx::ops {

namespace {

constexpr double kDefaultRatio = 0.5;
constexpr const char* kMaskAsData = "mask_as_data";

// --- Schema

void normalize_dropout(NormalizeContext& context) {
  context.attribute_to_input("ratio", 1);
  if (context.opset() < 10) context.node().attributes[kMaskAsData] = int64_t{1};
}

// --- Shape

void infer_file_form(InferContext& context) {
  require_floating(context, 0, "C1");
  infer_same(context);
  TensorType mask = context.type(0);
  if (context.node().get_int(kMaskAsData, 0) == 0) mask.dtype = DType::kBool;
  context.set(1, std::move(mask));
}

void require_ratio(const InferContext& context) {
  const double ratio = context.node().get_float("ratio", kDefaultRatio);
  context.require(ratio >= 0 && ratio <= 1, "C2", "ratio is {}, expected a number from 0 to 1",
                  ratio);
}

void infer_training_form(InferContext& context) {
  require_ratio(context);
  require_floating(context, 0, "C1");
  infer_same(context);
  TensorType mask = context.type(0);
  mask.dtype = DType::kBool;
  context.set(1, std::move(mask));
}

void infer_gradient(InferContext& context) {
  require_ratio(context);
  require_floating(context, 0, "C1");
  context.require(context.dtype(1) == DType::kBool, "C3", "mask is {}, expected bool",
                  graph::dtype_name(context.dtype(1)));
  infer_same_shapes(context, 0, 1, "C3");
}

// --- Gradient

void identity_gradient(GradientContext& g) {
  if (g.wants(0)) g.set(0, g.dy_or_zero(0));
}

void training_gradient(GradientContext& g) {
  if (!g.wants(0)) return;
  Value* mask = g.y(1);
  if (mask == nullptr) {
    Node* node = g.y(0)->producer;
    graph::Graph& graph = *node->graph();
    mask = graph.add_output_value(node, 1, graph::fresh_name(graph, g.y(0)->name + "/mask"));
    infer_node(*node);
  }
  const double ratio = g.node().get_float("ratio", kDefaultRatio);
  g.set(0, g.b().own("DropoutGrad", {g.dy_or_zero(0), mask}, {{"ratio", ratio}}));
}

// --- Definition

double ratio_of(const Node& node) {
  const Value* ratio = node.input(1);
  if (ratio == nullptr) return kDefaultRatio;
  if (!ratio->is_constant() || ratio->data.numel() != 1) {
    throw ConstraintError("C2", "the ratio '{}' must be one constant number", ratio->name);
  }
  return ratio->data.as_double(0);
}

bool file_says_training(const Node& node) {
  const Value* mode = node.input(2);
  return mode != nullptr && mode->is_constant() && mode->data.numel() == 1 &&
         mode->data.as_double(0) != 0;
}

// The name in the user's file, whatever passes made of it.
std::string original_name(const Value& value) {
  const graph::Origin& origin = value.origin;
  if (origin.tensor.empty()) return value.name;
  return origin.path.empty() ? origin.tensor : origin.path + "/" + origin.tensor;
}

void apply_mode(ModeContext& mode) {
  Node& node = mode.node();
  graph::Graph& graph = *node.graph();
  const bool active = mode.dropout_active() && (!mode.respect_file() || file_says_training(node));
  if (!active) {
    graph.drop_trailing_inputs(&node, 1);
    return;
  }
  Value* y = node.output(0);
  const graph::Attributes attributes{{"ratio", ratio_of(node)},
                                     {"key", name_key(original_name(*y))}};
  Node* training =
      mode.b().node(kDomain, "Dropout", {node.input(0)}, {y->name, y->name + "/mask"}, attributes);
  training->name = node.name;
  training->origin = node.origin;
  training->output(0)->origin = y->origin;
  graph.replace_uses(y, training->output(0));
  // The name of the file belongs to the value that is used.
  const std::string name = y->name;
  graph.rename(y, graph::fresh_name(graph, name + "/inactive"));
  graph.rename(training->output(0), name);
  Value* mask = node.output(1);
  if (mask == nullptr || mask->uses().empty()) return;
  Value* replacement = training->output(1);
  if (mask->type.dtype != DType::kBool) {
    replacement =
        mode.b().op("Cast", {replacement}, {{"to", static_cast<int64_t>(mask->type.dtype)}});
  }
  graph.replace_uses(mask, replacement);
}

// Opset 7 to 11 has one form. A mode that the caller feeds counts as training too: a saved file
// has none.
void inference_form(InferenceFormContext& form) {
  constexpr int kMode = 2;
  if (form.opset() < 7) {
    if (form.attribute_is("is_test", 1, 0)) return;
    form.edit().ints["is_test"] = 1;
    form.edit().keep_outputs = 1;  // no mask is made then
  } else if (form.node().input(kMode) != nullptr) {
    const Tensor mode = form.constant(kMode);
    const bool off = mode.defined() && mode.numel() == 1 && mode.as_double(0) == 0;
    if (!off) form.edit().keep_inputs = kMode;
  }
}

OpDef file_form() {
  OpDef op;
  op.name = "Dropout";
  op.doc = "The identity; replaced by sardonyx.Dropout in training.";
  op.since = {1, 6, 7, 10, 12, 13, 22};
  op.inputs = {{"x"},
               {"ratio", Presence::kOptional, "the ratio is a constant"},
               {"training_mode", Presence::kOptional, "a switch"}};
  op.outputs = {{"y"}, {"mask", Presence::kOptional}};
  op.attributes = {
      {"seed", "int: not read, the run has one seed"},
      {kMaskAsData, "private int, default 0: 1 gives the mask the type of x", Writer::kRules}};
  op.normalize = normalize_dropout;
  op.infer = infer_file_form;
  op.gradient = gradient(identity_gradient);
  op.batch = rows;
  op.narrow = Narrow::kFollows;
  op.narrow_inputs = {0};
  op.apply_mode = apply_mode;
  op.inference_form = inference_form;
  return op;
}

OpDef training_form() {
  OpDef op =
      own_op("Dropout", "Sets elements to zero by a counter-based generator and scales the others.",
             {{"x"}}, {{"y"}, {"mask", Presence::kOptional}}, infer_training_form);
  op.attributes = {{"ratio", "float, default 0.5: probability of a zero"},
                   {"key", "int, default 0: which of the run's masks this is"}};
  op.gradient = gradient(training_gradient);
  op.batch = rows;
  op.narrow = Narrow::kFollows;
  op.pure = false;
  return op;
}

OpDef backward() {
  OpDef op = own_op("DropoutGrad", "Gradient of Dropout from its mask.",
                    {{"dy"}, {"mask", Presence::kRequired, "a mask"}}, {{"dx"}}, infer_gradient);
  op.attributes = {{"ratio", "float, default 0.5: that of the forward node"}};
  op.gradient = gradient([](GradientContext& g) {
    if (g.wants(0)) {
      g.set(0, g.b().own("DropoutGrad", {g.dy(0), g.x(1)}, g.node().attributes));
    }
  });
  op.batch = rows_of_all;
  op.narrow = Narrow::kFollows;
  op.narrow_inputs = {0};
  return op;
}

}  // namespace

void register_dropout(OpRegistry& ops) {
  ops.add(file_form());
  ops.add(training_form());
  ops.add(backward());
}

}  // namespace sardonyx::ops
