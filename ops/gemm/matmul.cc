// MatMul: y = a b over the last two axes; leading axes broadcast as in numpy
//
// Inputs   a [..,M,K] or [K]    b [..,K,N] or [K]       Output  y [..,M,N] without the axis of a
// vector M1 rank >= 1    M2 the inner sizes agree    M3 leading axes broadcast    M4 floating
// elements, or integers of 32 or 64 bits, without gradient Private attributes trans_a, trans_b: the
// last two axes are stored the other way round (rank >= 2 only); gradients need them, files don't
// have them. Gradient da = MatMul(dy, b^T)   db = GemmGradWeight(a, dy) where b is one matrix, else
//          MatMul(a^T, dy); both summed over broadcast axes. A vector counts as a matrix of one row
//          (a) or column (b).
// Source   ONNX MatMul-1, 9, 13
#include "ops/gemm/matmul.h"

#include <algorithm>

#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/one_type.h"
#include "ops/gemm/gemm.h"

namespace sardonyx::ops::gemm {

namespace {

// --- Shape

// The dimension two axes broadcast to; not known: -1. False when they don't fit.
bool broadcast(const Dim& a, const Dim& b, Dim& result) {
  if (a.value == 1 || b.value == 1) {
    const bool takes_b = b.value != 1 || a.symbol.empty();  // a batch of one row keeps its name
    result = a.value == 1 && takes_b ? b : a;
  } else if (a.known() && b.known()) {
    result = a.symbol.empty() ? b : a;
    return a.value == b.value;
  } else if (a.known() || b.known()) {
    result = a.known() ? a : b;
  } else {
    result = a == b ? a : Dim();
  }
  return true;
}

void infer_matmul(InferContext& context) {
  const DType dtype = context.dtype(0);
  if (!is_multiplied_integer(dtype)) require_floating(context, 0, "M4");
  require_one_type(context, 0, 1, "M4");
  if (context.rank(0) < 0 || context.rank(1) < 0) return context.set_unranked(0, dtype);
  std::vector<Dim> a = context.dims(0), b = context.dims(1);
  context.require(!a.empty() && !b.empty(), "M1", "a is {}, b is {}: scalars have no product here",
                  context.type(0).str(), context.type(1).str());
  const bool a_vector = a.size() == 1, b_vector = b.size() == 1;
  if (a_vector) a.insert(a.begin(), Dim(1));
  if (b_vector) b.push_back(Dim(1));
  if (trans_of(context.node(), "trans_a") == Trans::kYes) std::swap(a.end()[-1], a.end()[-2]);
  if (trans_of(context.node(), "trans_b") == Trans::kYes) std::swap(b.end()[-1], b.end()[-2]);
  const Dim &inner_a = a.end()[-1], &inner_b = b.end()[-2];
  context.require(!inner_a.known() || !inner_b.known() || inner_a.value == inner_b.value, "M2",
                  "inner sizes differ: a is {}, b is {}", context.type(0).str(),
                  context.type(1).str());
  const size_t leading = std::max(a.size(), b.size()) - 2;
  std::vector<Dim> y(leading);
  for (size_t i = 0; i < leading; ++i) {  // from the innermost leading axis outwards
    const Dim da = i + 2 < a.size() ? a[a.size() - 3 - i] : Dim(1);
    const Dim db = i + 2 < b.size() ? b[b.size() - 3 - i] : Dim(1);
    context.require(broadcast(da, db, y[leading - 1 - i]), "M3",
                    "leading axes of a {} and b {} don't broadcast", context.type(0).str(),
                    context.type(1).str());
  }
  if (!a_vector) y.push_back(a.end()[-2]);
  if (!b_vector) y.push_back(b.end()[-1]);
  context.set(0, dtype, std::move(y));
}

// --- Gradient

Value* reshape(GradientContext& g, Value* value, std::vector<int64_t> shape) {
  return g.shape(value) == shape ? value : g.b().op("Reshape", {value, g.b().ints(shape)});
}

Value* multiply(GradientContext& g, Value* a, Trans trans_a, Value* b, Trans trans_b) {
  graph::Attributes attributes;
  if (trans_a == Trans::kYes) attributes["trans_a"] = int64_t{1};
  if (trans_b == Trans::kYes) attributes["trans_b"] = int64_t{1};
  return g.b().op("MatMul", {a, b}, std::move(attributes));
}

Trans flip(Trans trans) { return trans == Trans::kYes ? Trans::kNo : Trans::kYes; }

void matmul_gradient(GradientContext& g) {
  const Trans trans_a = trans_of(g.node(), "trans_a"), trans_b = trans_of(g.node(), "trans_b");
  std::vector<int64_t> a_shape = g.shape(g.x(0)), b_shape = g.shape(g.x(1));
  std::vector<int64_t> dy_shape = g.shape(g.dy(0));
  if (a_shape.size() == 1) {
    a_shape.insert(a_shape.begin(), 1);
    dy_shape.insert(dy_shape.end() - (b_shape.size() == 1 ? 0 : 1), 1);
  }
  if (b_shape.size() == 1) {
    b_shape.push_back(1);
    dy_shape.push_back(1);
  }
  // A value is reshaped only where a gradient reads it.
  const auto a = [&] { return reshape(g, g.x(0), a_shape); };
  const auto b = [&] { return reshape(g, g.x(1), b_shape); };
  Value* dy = reshape(g, g.dy(0), dy_shape);
  const auto finish = [&](int i, Value* dx, const std::vector<int64_t>& shape) {
    if (g.shape(dx).size() > shape.size() || g.shape(dx) != shape) dx = g.reduce_to(dx, g.x(i));
    g.set(i, reshape(g, dx, g.shape(g.x(i))));
  };
  if (g.wants(0)) {
    finish(0,
           trans_a == Trans::kYes ? multiply(g, b(), trans_b, dy, Trans::kYes)
                                  : multiply(g, dy, Trans::kNo, b(), flip(trans_b)),
           a_shape);
  }
  if (!g.wants(1)) return;
  if (b_shape.size() == 2 && trans_a == Trans::kNo) {
    Value *left = trans_b == Trans::kYes ? dy : a(), *right = trans_b == Trans::kYes ? a() : dy;
    return finish(1, g.b().own("GemmGradWeight", {left, right}), b_shape);
  }
  finish(1,
         trans_b == Trans::kYes ? multiply(g, dy, Trans::kYes, a(), trans_a)
                                : multiply(g, a(), flip(trans_a), dy, Trans::kNo),
         b_shape);
}

// --- Definition

graph::Fan matmul_fan(const Node& node, int slot) {
  return slot == 0 ? product_fan(node, 0, trans_of(node, "trans_a") == Trans::kNo)
                   : product_fan(node, 1, trans_of(node, "trans_b") == Trans::kYes);
}

// Neither the columns of the left operand nor the rows of the right one, over which it adds up.
bool product_keeps_apart(const Node& node, const std::vector<int>& axes) {
  if (node.get_int("trans_a", 0) != 0 || node.get_int("trans_b", 0) != 0) return false;
  const int a_rank = node.input(0)->type.rank(), b_rank = node.input(1)->type.rank();
  return axes[0] != a_rank - 1 && (axes[1] < 0 || axes[1] != std::max(b_rank - 2, 0));
}

// What axis 0 of an operand is in the product.
enum class FirstAxis : uint8_t { kInner, kOuter, kLeading };

FirstAxis first_axis(int rank, bool outer_first) {
  if (rank >= 3) return FirstAxis::kLeading;
  return rank == 2 && outer_first ? FirstAxis::kOuter : FirstAxis::kInner;
}

BatchRole matmul_batch(const Node& node, int) {
  const bool a = carries_batch(node, node.input(0)), b = carries_batch(node, node.input(1));
  if (!node.input(0)->type.ranked || !node.input(1)->type.ranked) return BatchRole::kCouples;
  const std::vector<Dim>&a_dims = node.input(0)->type.dims, &b_dims = node.input(1)->type.dims;
  const size_t a_rank = a_dims.size(), b_rank = b_dims.size();
  const FirstAxis a_axis =
      first_axis(static_cast<int>(a_rank), trans_of(node, "trans_a") == Trans::kNo);
  const FirstAxis b_axis =
      first_axis(static_cast<int>(b_rank), trans_of(node, "trans_b") == Trans::kYes);
  if (a && b) {
    if (a_axis == FirstAxis::kInner && b_axis == FirstAxis::kInner) return BatchRole::kSum;
    return a_axis == FirstAxis::kLeading && a_rank == b_rank ? BatchRole::kRows
                                                             : BatchRole::kCouples;
  }
  if (!carries_batch(node, node.output(0))) return BatchRole::kCouples;
  bool rows = false;
  if (a) {
    rows = a_axis == FirstAxis::kLeading
               ? b_rank < a_rank || (b_rank == a_rank && b_dims[0].value == 1)
               : a_axis == FirstAxis::kOuter && b_rank <= 2;
  } else {
    rows = b_axis == FirstAxis::kLeading &&
           (a_rank < b_rank || (a_rank == b_rank && a_dims[0].value == 1));
  }
  return rows ? BatchRole::kRows : BatchRole::kCouples;
}

}  // namespace

graph::Fan product_fan(const Node& node, int slot, bool summed_last) {
  const std::vector<int64_t> shape = node.input(slot)->type.shape();
  const auto size = [&](size_t from_end) { return static_cast<double>(shape.end()[-from_end]); };
  if (shape.size() < 2) return {shape.empty() ? 1 : size(1), 1};
  return summed_last ? graph::Fan{size(1), size(2)} : graph::Fan{size(2), size(1)};
}

OpDef matmul_op() {
  OpDef op;
  op.name = "MatMul";
  op.doc = "Matrix product over the last two axes, leading axes broadcast.";
  op.since = {1, 9, 13};
  op.inputs = {{"a"}, {"b"}};
  op.outputs = {{"y"}};
  op.attributes = {
      {"trans_a", "private int, default 0: 1 when a is stored with its last two axes swapped",
       Writer::kRules},
      {"trans_b", "private int, default 0: 1 when b is stored with its last two axes swapped",
       Writer::kRules}};
  op.infer = infer_matmul;
  op.gradient = gradient(matmul_gradient);
  op.batch = matmul_batch;
  op.keeps_rows_apart = product_keeps_apart;
  op.parameter_slot = [](int) { return ParameterSlot::kWeight; };
  op.fan = matmul_fan;
  op.narrow = Narrow::kProducts;
  op.flops = [](const KernelRequest& request) {
    const double k = static_cast<double>(MatMulShape::of(request).product.k);
    return 2.0 * static_cast<double>(request.out[0].numel()) * k;
  };
  return op;
}

}  // namespace sardonyx::ops::gemm
