// RotaryEmbedding: pairs of numbers of each head, turned by an angle that depends on the position
//
// y1 = cos x1 - sin x2    y2 = sin x1 + cos x2    for the R/2 pairs of the first R numbers of a
// head; the others come out as they are. x1 and x2 are the two halves, interleaved: neighbours.
// Inputs   x [B,H,S,D] or [B,S,H*D]    cos, sin [positions,R/2] with position_ids [B,S], which
// choose
//          rows; without them [B,S,R/2]                      Output  y, the shape of x
// R1 x, cos, sin are of one floating type; position_ids are int32 or int64
// R2 x has 4 axes, or 3 and num_heads is given and divides the last one
// R3 rotary_embedding_dim R is even, 0 (all: D) to D       R4 cos and sin fit, and are alike
// Gradient that of the nodes it consists of. Tables in the file are constants, not parameters.
// Source   ONNX RotaryEmbedding-23
#include "ops/attention/attention.h"
#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/infer.h"
#include "ops/core/one_type.h"

namespace sardonyx::ops::attention {

namespace {

enum RotaryInput : int { kX, kCos, kSin, kPositions };

// --- Shape

void require_cache(const InferContext& c, int input, const Dim& batch, const Dim& length,
                   const Dim& half) {
  if (c.rank(input) < 0) return;
  const std::vector<Dim>& dims = c.dims(input);
  const bool by_position = c.has(kPositions);
  const auto fits = [](const Dim& a, const Dim& b) { return a.value == 1 || agree(a, b); };
  const bool fit = by_position ? dims.size() == 2 && agree(dims[1], half)
                               : dims.size() == 3 && fits(dims[0], batch) &&
                                     fits(dims[1], length) && agree(dims[2], half);
  c.require(fit, "R4", "input {} is {}, expected {}", input, c.type(input).str(),
            by_position ? fmt::format("[positions,{}]", half.value)
                        : graph::shape_str(std::vector<Dim>{batch, length, half}));
}

void infer_rotary(InferContext& c) {
  require_floating(c, kX, "R1");
  require_one_type(c, kX, kSin, "R1");
  if (c.has(kPositions)) {
    c.require(c.dtype(kPositions) == DType::kInt64 || c.dtype(kPositions) == DType::kInt32, "R1",
              "position_ids are {}, expected int64", c.type(kPositions).str());
  }
  c.set(0, c.type(kX));
  if (c.rank(kX) < 0) return;
  c.require(c.rank(kX) == 3 || c.rank(kX) == 4, "R2", "x is {}, expected 3 or 4 axes",
            c.type(kX).str());
  const std::vector<Dim>& x = c.dims(kX);
  Dim size = x.back();
  if (c.rank(kX) == 3) {
    const int64_t heads = c.node().get_int("num_heads", 0);
    c.require(heads >= 1 && (!size.known() || size.value % heads == 0), "R2",
              "num_heads is {}, which doesn't divide the last axis of x, {}", heads,
              c.type(kX).str());
    if (size.known()) size = Dim(size.value / heads);
  } else {
    const int64_t heads = c.node().get_int("num_heads", 0);
    c.require(heads == 0 || (heads >= 1 && agree(x[1], Dim(heads))), "R2",
              "num_heads is {}, but x is {}", heads, c.type(kX).str());
  }
  const int64_t given = c.node().get_int("rotary_embedding_dim", 0);
  const Dim turned = given == 0 ? size : Dim(given);
  c.require(given >= 0 && (!size.known() || turned.value <= size.value) &&
                (!turned.known() || turned.value % 2 == 0),
            "R3",
            "rotary_embedding_dim is {}, a head has {} numbers: expected an even number of them",
            given, size.value);
  const Dim half = turned.known() ? Dim(turned.value / 2) : Dim();
  const Dim length = c.rank(kX) == 3 ? x[1] : x[2];
  for (const int input : {kCos, kSin}) require_cache(c, input, x[0], length, half);
  if (!c.has(kPositions) || c.rank(kPositions) < 0) return;
  const std::vector<Dim>& positions = c.dims(kPositions);
  c.require(positions.size() == 2 && (positions[0].value == 1 || agree(positions[0], x[0])) &&
                agree(positions[1], length),
            "R4", "position_ids are {}, expected {}", c.type(kPositions).str(),
            graph::shape_str(std::vector<Dim>{x[0], length}));
}

}  // namespace

// --- Parts

namespace {

// [positions,R/2] or [B,S,R/2] -> what multiplies [B,H,S,R/2] or [B,S,H,R/2].
Value* angles(ComposeContext& c, int input, int64_t heads_axis) {
  Value* cache = c.x(input);
  if (Value* positions = c.x(kPositions)) {
    cache = c.b().op("Gather", {cache, positions}, {{"axis", int64_t{0}}});
  }
  return c.b().op("Unsqueeze", {cache, c.b().ints({heads_axis})});
}

}  // namespace

void write_rotary(ComposeContext& c) {
  OpBuilder& b = c.b();
  Value* x = c.x(kX);
  const bool flat = x->type.rank() == 3;
  const int64_t width = x->type.dims.back().value;
  const int64_t heads = flat ? c.node().get_int("num_heads", 1) : 1;
  const int64_t size = width / heads;
  if (flat) x = b.op("Reshape", {x, b.ints({0, 0, heads, size})});
  const int64_t given = c.node().get_int("rotary_embedding_dim", 0);
  const int64_t half = (given == 0 ? size : given) / 2, rest = size - 2 * half;
  Value *cos = angles(c, kCos, flat ? 2 : 1), *sin = angles(c, kSin, flat ? 2 : 1);
  const auto split = [&](Value* value, std::vector<int64_t> sizes) {
    const std::vector<std::string> names(sizes.size(), "part");
    return b.node("", "Split", {value, b.ints(sizes)}, names, {{"axis", int64_t{-1}}})->outputs();
  };
  const auto join = [&](std::vector<Value*> parts) {
    return b.op("Concat", std::move(parts), {{"axis", int64_t{-1}}});
  };
  std::vector<Value*> tail;
  if (rest > 0) {
    const std::vector<Value*> parts = split(x, {2 * half, rest});
    x = parts[0];
    tail = {parts[1]};
  }
  const bool interleaved = c.node().get_int("interleaved", 0) != 0;
  if (interleaved) {
    x = b.op("Reshape", {x, b.ints({0, 0, 0, half, 2})});
    for (Value** value : {&cos, &sin}) *value = b.op("Unsqueeze", {*value, b.ints({-1})});
  }
  const std::vector<Value*> x12 = interleaved ? split(x, {1, 1}) : split(x, {half, half});
  const auto times = [&](Value* factor, int i) { return b.op("Mul", {factor, x12[i]}); };
  Value* y1 = b.op("Sub", {times(cos, 0), times(sin, 1)});
  Value* y2 = b.op("Add", {times(sin, 0), times(cos, 1)});
  if (interleaved) {
    Value* pairs = b.op("Reshape", {join({y1, y2}), b.ints({0, 0, 0, 2 * half})});
    tail.insert(tail.begin(), pairs);
  } else {
    tail.insert(tail.begin(), {y1, y2});
  }
  Value* y = tail.size() == 1 ? tail[0] : join(tail);
  c.set(0, flat ? b.op("Reshape", {y, b.ints({0, 0, width})}) : y);
}

// --- Definition

OpDef rotary_op() {
  OpDef op;
  op.name = "RotaryEmbedding";
  op.doc = "Turns pairs of numbers by angles that depend on the position.";
  op.since = {23};
  const char* table = "table of angles";
  op.inputs = {{"x"},
               {"cos_cache", Presence::kRequired, table},
               {"sin_cache", Presence::kRequired, table},
               {"position_ids", Presence::kOptional, "integer positions"}};
  op.outputs = {{"y"}};
  op.attributes = {
      {"interleaved", "int, default 0: 1 makes pairs of neighbours instead of halves"},
      {"rotary_embedding_dim", "int, default 0 (all): numbers of a head that are turned"},
      {"num_heads", "int: heads of x, where it has 3 axes"}};
  op.infer = infer_rotary;
  op.batch = rows_of_all;
  compose(op, write_rotary);
  return op;
}

}  // namespace sardonyx::ops::attention
