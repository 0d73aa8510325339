// DFT: y[k] = sum of x[n] exp(-2 pi i k n / L) over n < L along one axis, L = dft_length
//
// inverse: exp(+2 pi i k n / L), divided by L
// onesided: y is the first L / 2 + 1 numbers (x real), or x is that of a y that is real (inverse)
// Inputs   x [.., N, .., 1 or 2]: real numbers, or real and imaginary parts
//          dft_length, axis: one element, constant (optional: N, or 2 (N - 1) where x is half; -2)
// Output   y [.., L or L / 2 + 1, .., 2], onesided and inverse [.., L, .., 1]
// x is cut off at L numbers (L / 2 + 1, where it is half) or goes on with zeros.
// C1 x is floating    C2 rank(x) >= 2, the last axis has 1 or 2 entries
// C3 axis is any but the last    C4 dft_length is one number >= 1
// C5 onesided: x is real; with inverse it is complex
// Gradient the transform the other way round, times L (inverse: divided by L), cut to the shape of
//          x. Where x is half, all but its first (and, of an even L, last) number count twice.
// Batch    rows, unless the axis is axis 0.
// Source   ONNX DFT-17, DFT-20
#include "ops/dft/dft.h"

#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"

namespace sardonyx::ops {

namespace dft {

Direction direction_of(const Node& node) {
  return node.get_int("inverse", 0) != 0 ? Direction::kInverse : Direction::kForward;
}

Half half_of(const Node& node) {
  if (node.get_int("onesided", 0) == 0) return Half::kNone;
  return direction_of(node) == Direction::kInverse ? Half::kInput : Half::kOutput;
}

Sizes sizes_of(const Node& node, int64_t in, int64_t asked) {
  const Half half = half_of(node);
  Sizes sizes;
  sizes.in = in;
  sizes.length = asked >= 0 ? asked : half == Half::kInput ? 2 * (in - 1) : in;
  sizes.out = half == Half::kOutput ? sizes.length / 2 + 1 : sizes.length;
  return sizes;
}

}  // namespace dft

namespace {

using dft::Direction;
using dft::Half;
using dft::Sizes;

constexpr int kLength = 1, kAxis = 2;  // inputs

// --- Schema

// Below opset 20 the axis is an attribute, by default 1.
void normalize_dft(NormalizeContext& c) {
  if (c.opset() >= 20) return;
  c.node().attributes.try_emplace("axis", int64_t{1});
  c.attribute_to_input("axis", kAxis);
}

// --- Shape

// The one number of a constant input; `fallback` where it is left out.
int64_t number(const InferContext& c, int input, const char* constraint, int64_t fallback) {
  if (!c.has(input)) return fallback;
  const std::vector<int64_t> numbers = c.ints(input);  // must be known
  c.require(numbers.size() == 1, constraint, "{} has {} elements, expected one",
            input == kAxis ? "axis" : "dft_length", numbers.size());
  return numbers[0];
}

int checked_signal_axis(const InferContext& c) {
  const int rank = c.rank(0);
  const int64_t axis = number(c, kAxis, "C3", -2);
  c.require(axis >= -rank && axis < rank - 1 && axis != -1, "C3",
            "axis {} is none of the {} axes of {} before the last", axis, rank - 1,
            c.type(0).str());
  return front_axis(axis, rank);
}

void require_components(const InferContext& c) {
  const TensorType& x = c.type(0);
  const Dim& last = x.dims.back();
  c.require(!last.known() || last.value == 1 || last.value == 2, "C2",
            "input 0 has type {}, expected a last axis of 1 (real) or 2 (complex) entries",
            x.str());
  const Half half = dft::half_of(c.node());
  if (half == Half::kNone) return;
  const int64_t expected = half == Half::kOutput ? 1 : 2;
  c.require(!last.known() || last.value == expected, "C5",
            "input 0 has type {}, but onesided with inverse {} takes {} numbers", x.str(),
            half == Half::kOutput ? 0 : 1, half == Half::kOutput ? "real" : "complex");
}

void infer_dft(InferContext& c) {
  require_floating(c, 0, "C1");
  const int64_t asked = number(c, kLength, "C4", -1);
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  c.require(c.rank(0) >= 2, "C2", "input 0 has type {}, expected 2 axes or more", c.type(0).str());
  require_components(c);
  const int axis = checked_signal_axis(c);
  std::vector<Dim> dims = c.dims(0);
  dims.back() = Dim(dft::half_of(c.node()) == Half::kInput ? 1 : 2);
  if (c.has(kLength) || dims[axis].known()) {
    const Sizes sizes = dft::sizes_of(c.node(), dims[axis].value, asked);
    c.require(sizes.length >= 1, "C4", "dft_length is {}, expected 1 or more", sizes.length);
    if (sizes.out != dims[axis].value) dims[axis] = Dim(sizes.out);
  } else if (dft::half_of(c.node()) != Half::kNone) {
    dims[axis] = Dim();
  }
  c.set(0, c.dtype(0), std::move(dims));
}

// --- Gradient

// The first `count` entries along an axis, zeros behind those that there are.
Value* cut_to(OpBuilder& b, Value* x, int axis, int64_t count) {
  const int64_t there = x->type.shape()[axis];
  if (count < there) return b.op("Slice", {x, b.ints({0}), b.ints({count}), b.ints({axis})});
  if (count == there) return x;
  return b.op("Pad", {x, b.ints({0, count - there}), nullptr, b.ints({axis})});
}

// What number k of half a spectrum counts in a sum over the whole, divided by L; along the axis
// that `behind` others follow.
Value* mirrored_shares(OpBuilder& b, const Sizes& sizes, int behind, DType dtype) {
  const int64_t count = sizes.length / 2 + 1;
  std::vector<double> shares(count);
  for (int64_t k = 0; k < count; ++k) {
    const bool alone = k == 0 || 2 * k == sizes.length;
    shares[k] = (alone ? 1.0 : 2.0) / static_cast<double>(sizes.length);
  }
  std::vector<int64_t> shape(behind + 1, 1);
  shape[0] = count;
  return b.constant(Tensor::of<double>(shape, shares).cast(dtype), "shares");
}

void dft_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const Node& node = c.node();
  OpBuilder& b = c.b();
  const TensorType& x = c.x(0)->type;
  const int rank = x.rank();
  const int axis = front_axis(c.x(kAxis) != nullptr ? c.x(kAxis)->data.to_ints().at(0) : -2, rank);
  const int64_t asked = c.x(kLength) != nullptr ? c.x(kLength)->data.to_ints().at(0) : -1;
  const Sizes sizes = dft::sizes_of(node, x.shape()[axis], asked);
  const bool forward = dft::direction_of(node) == Direction::kForward;
  const bool from_half = dft::half_of(node) == Half::kInput;
  const auto length = static_cast<double>(sizes.length);

  Value* g = b.op("DFT", {c.dy(0), b.ints({sizes.length}), b.ints({axis})},
                  {{"inverse", int64_t{forward}}, {"onesided", int64_t{from_half}}});
  Value* scale = from_half ? mirrored_shares(b, sizes, rank - axis - 1, x.dtype)
                           : b.scalar(x.dtype, forward ? length : 1 / length);
  g = cut_to(b, b.op("Mul", {g, scale}), axis, sizes.in);
  c.set(0, cut_to(b, g, rank - 1, x.shape().back()));
}

// --- Definition

BatchRole dft_role(const Node& node, int) {
  const TensorType& x = node.input(0)->type;
  const Value* axis = node.input(kAxis);
  if (!x.ranked || (axis != nullptr && !axis->is_constant())) return BatchRole::kCouples;
  const int64_t number = axis != nullptr ? axis->data.to_ints().at(0) : -2;
  return front_axis(number, x.rank()) == 0 ? BatchRole::kCouples : BatchRole::kRows;
}

}  // namespace

void register_dft(OpRegistry& ops) {
  OpDef op;
  op.name = "DFT";
  op.doc = "Discrete Fourier transform along an axis.";
  op.since = {17, 20};
  op.inputs = {{"input"},
               {"dft_length", Presence::kOptional, "a number of entries"},
               {"axis", Presence::kOptional, "integer axis"}};
  op.outputs = {{"output"}};
  op.attributes = {{"inverse", "int, default 0: 1 transforms back"},
                   {"onesided", "int, default 0: 1 leaves out the mirrored half of a spectrum"}};
  op.normalize = normalize_dft;
  op.infer = infer_dft;
  op.gradient = gradient(dft_gradient);
  op.batch = dft_role;
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops
