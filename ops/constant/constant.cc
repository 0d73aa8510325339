// Operators whose output is known before any data: literals, fills, ranges, identity matrices.
//
// Constant         the tensor in value, value_float(s), value_int(s) or value_string(s)
// ConstantOfShape  value (one element, default float 0) in every element of the shape
// Range            start, start + delta, ... up to, not including, limit
// EyeLike          1 where column - row = k, else 0, in the shape of x
//
// Inputs   ConstantOfShape: shape int64[k]     Range: start, limit, delta, one element each
//          EyeLike: x [M,N], whose bytes are never read                    Output  y
// C1 Constant has exactly one of its attributes
// C2 entries of the shape are not negative
// C3 value has one element
// C4 start, limit and delta have one type and one element; delta is not 0
// C5 EyeLike: rank(x) = 2    C6 dtype is a numeric type
// Gradient ConstantOfShape and EyeLike depend on shapes alone: zero. Constant has no inputs. Range
//          has none: the number of elements changes with its inputs.
// Source   ONNX Constant-25, ConstantOfShape-25, Range-11, EyeLike-22
#include <cmath>

#include "ops/core/constraint.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"

namespace sardonyx::ops {

namespace {

// --- Schema

constexpr const char* kConstantForms[] = {"value",         "value_float", "value_floats",
                                          "value_int",     "value_ints",  "value_string",
                                          "value_strings", "sparse_value"};

// The tensor of a Constant node, whatever its form.
Tensor literal(const Node& node) {
  const char* form = nullptr;
  for (const char* name : kConstantForms) {
    if (!node.has(name)) continue;
    if (form != nullptr) throw ConstraintError("C1", "has both {} and {}", form, name);
    form = name;
  }
  if (form == nullptr)
    throw ConstraintError("C1", "has no value: expected one of value, value_float, ...");
  const std::string_view kind(form);
  if (kind == "value") return *node.get_tensor(form);
  if (kind == "value_int") return Tensor::scalar<int64_t>(node.get_int(form, 0));
  if (kind == "value_float") {
    return Tensor::scalar<float>(static_cast<float>(node.get_float(form, 0)));
  }
  if (kind == "value_ints") {
    const std::vector<int64_t> values = node.get_ints(form, {});
    return Tensor::of<int64_t>({std::ssize(values)}, values);
  }
  if (kind == "value_floats") {
    const std::vector<double> values = node.get_floats(form, {});
    return Tensor::of<double>({std::ssize(values)}, values).cast(DType::kFloat32);
  }
  if (kind == "value_string") return Tensor::of_strings({}, {node.get_string(form, "")});
  if (kind == "value_strings") {
    const auto* values = std::get_if<std::vector<std::string>>(&node.attributes.find(kind)->second);
    if (values == nullptr) throw Error("attribute 'value_strings' is no list of strings");
    return Tensor::of_strings({std::ssize(*values)}, *values);
  }
  throw Error("sparse constants are not supported; export them as dense tensors");
}

// Written out, so that the default follows the compute type too.
void normalize_fill(NormalizeContext& c) {
  if (!c.node().has("value")) c.node().attributes["value"] = Tensor::of<float>({1}, {0});
}

// --- Shape

void infer_constant(InferContext& c) { c.set(0, literal(c.node()).type()); }

void infer_fill(InferContext& c) {
  const Tensor* value = c.node().get_tensor("value");
  c.require(value == nullptr || value->numel() == 1, "C3", "value has {} elements, expected one",
            value == nullptr ? 0 : value->numel());
  const DType dtype = value == nullptr ? DType::kFloat32 : value->dtype();
  const auto shape = c.known_ints(0);
  if (!shape) {
    const int rank = c.listed_rank(0);
    return rank < 0 ? c.set_unranked(0, dtype) : c.set(0, dtype, std::vector<Dim>(rank));
  }
  for (size_t i = 0; i < shape->size(); ++i) {
    c.require((*shape)[i] >= 0, "C2", "shape[{}] is {}", i, (*shape)[i]);
  }
  c.set(0, dtype, graph::to_dims(*shape));
}

int64_t range_length(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  if (graph::is_floating(start.dtype())) {
    const double length = (limit.as_double(0) - start.as_double(0)) / delta.as_double(0);
    if (!(length < 0x1p62)) throw ConstraintError("C4", "the range never ends");
    return length <= 0 ? 0 : static_cast<int64_t>(std::ceil(length));
  }
  const __int128 span = __int128{limit.as_int(0)} - start.as_int(0);
  const __int128 step = delta.as_int(0);
  if (span == 0 || (span < 0) != (step < 0)) return 0;
  const __int128 length = (span + step + (step < 0 ? 1 : -1)) / step;
  if (length > graph::kMaxElements) {
    throw ConstraintError("C4", "the range from {} to {} in steps of {} has more than 2^62 numbers",
                          start.as_int(0), limit.as_int(0), delta.as_int(0));
  }
  return static_cast<int64_t>(length);
}

void infer_range(InferContext& c) {
  require_one_type(c, 0, 2, "C4");
  bool known = true;
  for (int i = 0; i < 3; ++i) {
    c.require(!c.type(i).is_static() || c.type(i).numel() == 1, "C4",
              "{} is {}, expected one element", input_label(c.node(), i), c.type(i).str());
    known = known && c.known_ints(i).has_value();
  }
  if (!known) return c.set(0, c.dtype(0), {Dim()});
  c.require(c.constant(2)->as_double(0) != 0, "C4", "delta is 0");
  c.set(0, c.dtype(0), {Dim(range_length(*c.constant(0), *c.constant(1), *c.constant(2)))});
}

void infer_eye(InferContext& c) {
  TensorType type = c.type(0);
  c.require(!type.ranked || type.rank() == 2, "C5", "input has type {}, expected rank 2",
            type.str());
  const int64_t dtype = c.node().get_int("dtype", static_cast<int64_t>(type.dtype));
  c.require(dtype > 0 && dtype <= static_cast<int64_t>(DType::kBFloat16) &&
                graph::dtype_size(static_cast<DType>(dtype)) > 0,
            "C6", "dtype is {}, expected the number of a numeric type", dtype);
  type.dtype = static_cast<DType>(dtype);
  c.set(0, std::move(type));
}

// --- Gradient

// Ready-made: none has a rule.

// --- Definition

OpDef source(std::string name, std::string doc, std::vector<int> since, Gradient gradient) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.since = std::move(since);
  op.outputs = {{"output"}};
  op.gradient = std::move(gradient);
  return op;
}

}  // namespace

void register_constant(OpRegistry& ops) {
  OpDef constant =
      source("Constant", "The tensor in its attribute.", {1, 9, 11, 12, 13, 19, 21, 23, 24, 25},
             not_differentiable("it has no inputs"));
  for (const char* form : kConstantForms) {
    constant.attributes.push_back({form, "one of the forms of the output"});
  }
  constant.literal = literal;
  constant.infer = infer_constant;
  ops.add(std::move(constant));

  OpDef fill = source("ConstantOfShape", "One number in every element.", {9, 20, 21, 23, 24, 25},
                      zero_gradient("depends on a shape only"));
  fill.inputs = {{"input", Presence::kRequired, "integer shape"}};
  fill.attributes = {{"value", "tensor of one element, default float 0"}};
  fill.normalize = normalize_fill;
  fill.infer = infer_fill;
  ops.add(std::move(fill));

  OpDef range = source("Range", "Numbers from start to limit in steps of delta.", {11, 27},
                       not_differentiable("the number of elements depends on its inputs"));
  range.inputs = {{"start"}, {"limit"}, {"delta"}};
  range.infer = infer_range;
  ops.add(std::move(range));

  OpDef eye = source("EyeLike", "A matrix with ones on one diagonal.", {9, 22},
                     zero_gradient("depends on the shape of its input only"));
  eye.inputs = {{"input", Presence::kRequired, "only its shape is read"}};
  eye.attributes = {{"dtype", "int, default the type of the input"},
                    {"k", "int, default 0: 0 is the main diagonal, positive ones lie above it"}};
  eye.dtype_attributes = {"dtype"};
  eye.reads_only_shapes = true;
  eye.infer = infer_eye;
  ops.add(std::move(eye));
}

}  // namespace sardonyx::ops
