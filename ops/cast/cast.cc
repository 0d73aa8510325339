// Cast, CastLike: the same numbers in another element type. BitCast: the same bytes, read as one.
//
// Inputs   x of any numeric type or bool; CastLike: target, whose type is taken      Output  y
// Attributes  to: element type (Cast, BitCast)
//             saturate, round_mode: accepted, they concern 8-bit floats
// C1 x and the new type are numbers or bool    C2 BitCast: their elements have equally many bytes
// Floats truncate towards zero when they become integers; what is out of range saturates, NaN is 0.
// Integers wrap around. bool is (x != 0). float16 and bfloat16 round to nearest even.
// Gradient between floating types: dy in the type of x. An integer or bool result stops it: zero.
//          BitCast has none: bits have no slope.
// Source   ONNX Cast-28, CastLike-25, BitCast-26
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"

namespace sardonyx::ops {

namespace {

// --- Schema

// Opset 1 names the type: "FLOAT", "INT64", ...
void normalize_cast(NormalizeContext& c) {
  Node& node = c.node();
  const auto it = node.attributes.find("to");
  if (it == node.attributes.end() || !std::holds_alternative<std::string>(it->second)) return;
  std::string name;
  for (char letter : std::get<std::string>(it->second)) {
    name += static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
  }
  const DType dtype = graph::dtype_from_name(name);
  if (dtype == DType::kUndefined) c.refuse("type '" + name + "' is not known");
  it->second = static_cast<int64_t>(dtype);
}

// --- Shape

bool is_number(DType dtype) {
  return graph::is_floating(dtype) || graph::is_integer(dtype) || dtype == DType::kBool;
}

void infer_as(InferContext& c, DType dtype) {
  c.require(is_number(c.dtype(0)), "C1", "input 0 is {}, expected numbers or bool",
            graph::dtype_name(c.dtype(0)));
  TensorType type = c.type(0);
  type.dtype = dtype;
  c.set(0, std::move(type));
}

DType new_type(const InferContext& c) {
  const int64_t to = c.node().get_int("to", 0);
  c.require(
      to > 0 && to <= static_cast<int64_t>(DType::kBFloat16) && is_number(static_cast<DType>(to)),
      "C1", "attribute 'to' is {}, which is no supported type of numbers", to);
  return static_cast<DType>(to);
}

void infer_cast(InferContext& c) { infer_as(c, new_type(c)); }

void infer_bit_cast(InferContext& c) {
  const DType from = c.dtype(0), to = new_type(c);
  c.require(graph::dtype_size(from) == graph::dtype_size(to), "C2",
            "input 0 is {}, which has {} bytes, but {} has {}", graph::dtype_name(from),
            graph::dtype_size(from), graph::dtype_name(to), graph::dtype_size(to));
  infer_as(c, to);
}

void infer_cast_like(InferContext& c) {
  c.require(is_number(c.dtype(1)), "C1", "input 1 is {}, expected numbers or bool",
            graph::dtype_name(c.dtype(1)));
  infer_as(c, c.dtype(1));
}

// --- Gradient

void cast_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const DType from = c.x(0)->type.dtype, to = c.y(0)->type.dtype;
  if (!graph::is_floating(to) || c.dy(0) == nullptr) {
    c.set(0, c.b().filled_like(c.x(0), 0));
  } else {
    c.set(0,
          from == to ? c.dy(0) : c.b().op("Cast", {c.dy(0)}, {{"to", static_cast<int64_t>(from)}}));
  }
}

// --- Definition

OpDef definition(std::string name, std::string doc, std::vector<int> since) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.since = std::move(since);
  op.inputs = {{"input"}};
  op.outputs = {{"output"}};
  op.attributes = {{"saturate", "int, default 1: concerns 8-bit floats only"},
                   {"round_mode", "string, default \"up\": concerns 8-bit floats only"}};
  op.infer = infer_cast;
  op.gradient = gradient(cast_gradient);
  op.preprocessing = true;
  return op;
}

}  // namespace

void register_cast(OpRegistry& ops) {
  OpDef cast = definition("Cast", "The same numbers in another type.",
                          {1, 6, 9, 13, 19, 21, 23, 24, 25, 28});
  cast.attributes.insert(cast.attributes.begin(), {"to", "int: element type of the output"});
  cast.dtype_attributes = {"to"};
  cast.normalize = normalize_cast;
  cast.batch = rows;
  cast.axes = AxisUse::kElementwise;
  ops.add(std::move(cast));

  OpDef bits = definition("BitCast", "The same bytes as elements of another type.", {26});
  bits.attributes = {{"to", "int: element type of the output"}};
  bits.dtype_attributes = {"to"};
  bits.infer = infer_bit_cast;
  bits.gradient = not_differentiable("the result is the bits of the numbers");
  bits.batch = rows;
  bits.axes = AxisUse::kElementwise;
  ops.add(std::move(bits));

  OpDef like = definition("CastLike", "The same numbers in the type of another tensor.",
                          {15, 19, 21, 23, 24, 25});
  like.inputs.push_back({"target_type", Presence::kRequired, "only its type is read", true});
  like.infer = infer_cast_like;
  like.batch = [](const Node& node, int) {
    return carries_batch(node, node.input(0)) ? BatchRole::kRows : BatchRole::kCouples;
  };
  ops.add(std::move(like));
}

}  // namespace sardonyx::ops
