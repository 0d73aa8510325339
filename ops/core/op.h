// What an operator is: OpDef, one per operator, filled by its room.
//
// Everything the passes know about an operator is in this struct; no pass compares operator names.
// The structs are plain data and std::function, so that a plug-in can add operators at run time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/init.h"

namespace sardonyx::ops {

using graph::Dim;
using graph::DType;
using graph::Node;
using graph::Tensor;
using graph::TensorType;
using graph::Value;

// Sardonyx's own operators (gradients, losses, optimizers, Reorder) live in this domain.
inline constexpr const char* kDomain = "sardonyx";

enum class Presence : uint8_t { kRequired, kOptional, kVariadic };

// One input or output of an operator.
struct Port {
  std::string name;
  Presence presence = Presence::kRequired;
  // Non-empty: no gradient flows through this input, and why ("integer indices", "shape", ...).
  std::string no_gradient = {};
  // Nothing of this input is read but its element type.
  bool type_only = false;
};

// Who says an attribute: the user's file, or only normalisation, gradient rules and passes.
enum class Writer : uint8_t { kFile, kRules };

struct AttributeDef {
  std::string name;
  std::string doc;  // kind, default, meaning: "ints, default all 1: step of the window"
  // kRules: private to Sardonyx; what a file says under this name is dropped.
  Writer writer = Writer::kFile;
};

struct KernelRequest;
class NormalizeContext;
class InferContext;
class GradientContext;
class InferenceFormContext;
class ModeContext;
class OpBuilder;

struct Gradient {
  enum class Kind : uint8_t { kMissing, kRule, kZero, kNone };
  Kind kind = Kind::kMissing;
  std::function<void(GradientContext&)> rule;
  std::string reason;  // kZero, kNone: said to the user
};

inline Gradient gradient(std::function<void(GradientContext&)> rule) {
  return {Gradient::Kind::kRule, std::move(rule), {}};
}
// The gradient is zero wherever it exists (Floor, Sign, Round ...).
inline Gradient zero_gradient(std::string reason) {
  return {Gradient::Kind::kZero, {}, std::move(reason)};
}
// There is no gradient; a path from a parameter to the loss through this operator is an error with
// this reason.
inline Gradient not_differentiable(std::string reason) {
  return {Gradient::Kind::kNone, {}, std::move(reason)};
}

// How an output depends on the batch axis (axis 0 of the values that carry the batch). Decides
// which nodes may run per block of images (regions).
enum class BatchRole : uint8_t {
  kCouples,  // anything else: forces a region border
  kRows,     // row i of the output depends only on row i of the batch-carrying inputs
  kSum,  // the output is a sum over rows: blocks may be added up in any grouping; zero for no rows
};

// What a parameter in an input slot is to its operator.
// kScale: of a normalisation; kSlope: of an activation.
enum class ParameterSlot : uint8_t { kNone, kWeight, kBias, kScale, kSlope, kStatistic };

// How an operator treats the order of axes: f(Transpose(x)) = Transpose(f'(x)), where f' is f with
// other attributes or constants (ops/core/axis_order.h).
enum class AxisUse : uint8_t {
  kNone,         // there is no such f'
  kElementwise,  // f' is f; all operands have the axes, short ones are broadcast
  kAxis,         // the attribute "axis" names one of them; all operands have the axes
  kReduction,    // input 1 lists them; input 0 has the axes. Nothing that adds: sums would be
                 // added up in another order, and round differently
  kPads,         // input 1 lists two numbers for each of them; input 0 has the axes
};

// An operator that closes a classifier by turning scores into (log-)probabilities.
enum class ClassOutput : uint8_t { kNone, kProbabilities, kLogProbabilities };

// Work of neighbouring nodes that an operator can do while it passes over its operands anyway, so
// that they need no pass of their own (fuse_activations, fuse_gradients). Slots; -1: it can't.
struct Fusion {
  // Optional input that is added to output 0, which has the same type.
  int addend = -1;
  // Operators of one operand, one of which the attribute "activation" may name: applied last.
  std::vector<std::string> activations;
  // Optional input that is added to input 0, which has the same type, as it is read.
  int second = -1;
  // The sums of output `summed` per channel (over all axes but 1) are what output `sums` holds.
  int summed = -1, sums = -1;
};

// What an operator computes in where products run in bfloat16 (narrow_products). Its kernels on
// devices that have such products then take both types.
enum class Narrow : uint8_t {
  kNo,        // float: it needs the digits (losses, exponentials)
  kProducts,  // the narrow type
  kFollows,   // the narrow type where an operand has it already
};

// What an input may hold where that depends on its values, as class numbers do.
struct ValueCheck {
  int input = -1;  // there is none
  // Throws Error. `values` is host memory. Kernels of the CPU ask this themselves; where kernels
  // can't refuse anything, who feeds the input asks before. `first_sample`: index of row 0 in the
  // batch.
  std::function<void(const KernelRequest&, const void* values, int64_t first_sample)> check;
};

struct OpDef {
  std::string domain;  // "" = ai.onnx
  std::string name;
  std::string doc;         // one sentence
  std::vector<int> since;  // since-versions of the standard operator that `normalize` understands
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<AttributeDef> attributes;

  // Turns every accepted opset form into the canonical one (the newest form). Null: all forms are
  // canonical.
  std::function<void(NormalizeContext&)> normalize;
  // Output types from input types and constant inputs. Unknown dimensions (-1) propagate, they are
  // no error.
  std::function<void(InferContext&)> infer;
  // What the user should know about a node that runs as it stands; null or empty: nothing.
  std::function<std::string(const Node&)> hint;
  Gradient gradient;
  // Role of output `slot`; null: kCouples for all.
  std::function<BatchRole(const Node&, int slot)> batch;
  // (output, input) pairs: the output overwrites the input (optimizer updates, accumulation).
  std::function<std::vector<std::pair<int, int>>(const Node&)> aliases;
  // What a parameter at input `slot` would be; null: kNone. Fills "trainable one-element floats",
  // "state by slot".
  std::function<ParameterSlot(int slot)> parameter_slot;
  // What the weight at input `slot`, or the layer whose bias is there, joins. Asked of nodes whose
  // types are inferred and whose parameters have static ones. Null: nothing is summed.
  std::function<graph::Fan(const Node&, int slot)> fan;
  AxisUse axes = AxisUse::kNone;
  // Whether slice i of the outputs along the rows depends on slice i of the inputs only; `axes`:
  // for each input the axis along which its rows stand, -1 where it has none. Null: `axes` above
  // and `batch` say so (ops/core/rows_apart.h).
  std::function<bool(const Node&, const std::vector<int>& axes)> keeps_rows_apart;
  // Leading cells per spatial axis of input 0 that are read when only the leading `needed` cells of
  // output 0 are; null: all of them.
  std::function<std::vector<int64_t>(const Node&, const std::vector<int64_t>& needed)> cells_read;
  // Honours the attribute "needed" (leading cells per spatial axis of output 0 that anything
  // reads).
  bool skips_unneeded = false;
  // Turns the node into the form of the mode (Dropout, BatchNormalization); null: the same in both.
  std::function<void(ModeContext&)> apply_mode;
  // What changes in a node of the user's file, as its opset writes it, so that the file computes
  // what evaluation does (ops/core/inference_form.h); null: it always does.
  std::function<void(InferenceFormContext&)> inference_form;
  // For an operator that is itself a mean loss over rows: (sum, weight) such that the output is sum
  // / weight; null outputs when this node is none. Lets a loss inside the file be accumulated
  // exactly.
  std::function<std::pair<Value*, Value*>(Node&, OpBuilder&)> split_loss;
  // Set for Softmax and LogSoftmax: cross-entropy takes the input of a closing one.
  ClassOutput class_output = ClassOutput::kNone;
  ValueCheck value_check;
  // Attributes that hold an element type ("to"): converted together with the graph's floats.
  std::vector<std::string> dtype_attributes;
  // Constants that meet the model's input only through such operators are data preprocessing, not
  // parameters.
  bool preprocessing = false;
  // An addition of all inputs: a one-element constant added to a product is a bias.
  bool adds = false;
  // Output 0 is the sums of input 0 per channel (over all axes but 1), in its element type.
  bool sums_channels = false;
  Fusion fusion;
  // Floating-point operations of one run with these types, for reports; null: not counted.
  std::function<double(const KernelRequest&)> flops;
  // Input slot that, when present, is added to output 0 and overwritten by it (`acc' = F(x, dy,
  // acc)`); -1: none.
  int accumulate_input = -1;
  // Another spelling of standard operators: normalize writes these, so that no pass meets it.
  bool spelling = false;
  // The output is input 0 under another shape: same bytes, no kernel (Reshape, Flatten, Identity
  // ...).
  bool view = false;
  // Of a view: the element of input 0 at which the output begins; null: 0.
  std::function<int64_t(const Node&)> view_begin;
  // Output 0 consists of the inputs: element of output 0 at which each begins; null: it doesn't.
  // The planner puts inputs where they belong when it can, the kernel moves the rest.
  std::function<std::vector<int64_t>(const Node&)> joins_at;
  // Inputs that are sums over the rows of a micro-batch: with --sync-bn over those of all replicas.
  std::vector<int> shared_sums;
  // The outputs depend on the types of the inputs only (Shape, Size).
  bool reads_only_shapes = false;
  // Output 0 stands in the attributes (Constant): any of its attribute forms -> the tensor, strings
  // too. Null: it doesn't.
  std::function<Tensor(const Node&)> literal;
  // About one pass over its operands: cheap enough to be computed again instead of kept.
  bool cheap = false;
  Narrow narrow = Narrow::kNo;
  // Inputs that then have the narrow type; empty: all that are float.
  std::vector<int> narrow_inputs;
  // Same inputs give same outputs (false for Dropout in training): may be folded and merged.
  bool pure = true;
};

// Ready-made rules for `OpDef::batch`: kRows (kSum) for every output. For operators with one
// operand that has rows; with several, one may have lost the batch's symbol (half of a concatenated
// batch) and would be read from its first row in every block.
BatchRole rows(const Node& node, int slot);
BatchRole sums(const Node& node, int slot);
// kRows when every input has the rows of the batch or (no axes, axis 0 of size one) none of its
// own; else kCouples.
BatchRole rows_of_all(const Node& node, int slot);
// Ready-made rule for `OpDef::fan`: of a kernel [out, in, ...] at input 1.
graph::Fan fan_of_kernel(const Node& node, int slot);
// True when axis 0 of the value is the graph's batch axis.
bool carries_batch(const graph::Graph& graph, const Value* value);
bool carries_batch(const Node& node, const Value* value);

class OpRegistry {
 public:
  // The operators of all rooms of ops.def. Built once, on first use.
  static const OpRegistry& get();

  // CHECK: not yet there; doc, infer and gradient are set.
  void add(OpDef op);
  const OpDef* find(std::string_view domain, std::string_view name) const;  // nullptr when unknown
  const OpDef* find(const Node& node) const { return find(node.domain, node.op); }
  // Throws Error: `node conv1 (Foo): operator ai.example::Foo is not known`, with near names.
  const OpDef& at(const Node& node) const;
  std::vector<const OpDef*> all() const;  // sorted by domain and name

 private:
  std::map<std::pair<std::string, std::string>, OpDef, std::less<>> ops_;
};

// (output, input) pairs of a node, {} for unknown operators: the queries that graph::verify wants.
// The output overwrites the input; it is the input's bytes under another shape.
std::vector<std::pair<int, int>> aliases_of(const Node& node);
std::vector<std::pair<int, int>> views_of(const Node& node);
// "Conv", "com.microsoft::Gelu"
std::string op_label(std::string_view domain, std::string_view name);

}  // namespace sardonyx::ops
