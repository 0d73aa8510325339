// Gemm: y[m,n] = alpha * sum_k a'[m,k] b'[k,n] + beta * c, a' = a or a^T (transA), b' likewise
//
// Inputs   a [M,K] or [K,M]   b [K,N] or [N,K]   c broadcast to [M,N] (optional)   Output  y [M,N]
// G1 a and b have 2 axes      G2 the inner sizes agree      G3 c broadcasts to [M,N]
// G4 one floating type, or integers of 32 or 64 bits         G5 of integers alpha and beta are
// whole numbers beta 0: c is never read Gradient da, db = Gemm of dy and the other one with the
// flags that undo the transposes
//          db = GemmGradWeight(a, dy) where a isn't transposed: the sum runs over the batch
//          dc = beta * dy summed over the broadcast axes; GemmGradBias where that is the rows
//          reads a, b; does not read y.
// MatMul in matmul.cc: numpy's rules for batches and vectors.
//
// GemmGradWeight: dw[p,q] = alpha * sum over all leading axes of a[..,p] b[..,q]   (+ acc)
// W1 equal rank >= 2          W2 equal leading axes          W3 acc is [P,Q]
// GemmGradBias: db[n] = scale * sum over all leading axes of dy[..,n]              (+ acc)
// B1 rank >= 2                B2 acc has the shape of db: [N], with keepdims [1,N]
// Source   ONNX Gemm-1, 6, 7, 9, 11, 13 (broadcast of 1 and 6 is implied)
#include "ops/gemm/gemm.h"

#include <algorithm>
#include <cmath>

#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/one_type.h"
#include "ops/gemm/matmul.h"

namespace sardonyx::ops {

namespace {

using gemm::product_fan;
using gemm::Trans;
using gemm::trans_of;

// --- Shape

bool known_and_differ(const Dim& a, const Dim& b) {
  return a.known() && b.known() && a.value != b.value;
}

void infer_gemm(InferContext& context) {
  const DType dtype = context.dtype(0);
  if (gemm::is_multiplied_integer(dtype)) {
    for (const char* factor : {"alpha", "beta"}) {
      const double value = context.node().get_float(factor, 1);
      context.require(value == std::trunc(value) && std::abs(value) < 0x1p53, "G5",
                      "{} is {}, expected a whole number: the matrices are {}", factor, value,
                      graph::dtype_name(dtype));
    }
  } else {
    require_floating(context, 0, "G4");
  }
  require_one_type(context, 0, 2, "G4");
  for (int i : {0, 1}) {
    context.require(context.rank(i) < 0 || context.rank(i) == 2, "G1",
                    "{} must be a matrix, found {}", i == 0 ? "a" : "b", context.type(i).str());
  }
  const bool trans_a = trans_of(context.node(), "transA") == Trans::kYes;
  const bool trans_b = trans_of(context.node(), "transB") == Trans::kYes;
  std::vector<Dim> y(2);
  if (context.rank(0) == 2) y[0] = context.dims(0)[trans_a ? 1 : 0];
  if (context.rank(1) == 2) y[1] = context.dims(1)[trans_b ? 0 : 1];
  if (context.rank(0) == 2 && context.rank(1) == 2) {
    context.require(
        !known_and_differ(context.dims(0)[trans_a ? 0 : 1], context.dims(1)[trans_b ? 1 : 0]), "G2",
        "inner sizes differ: a is {}{}, b is {}{}", context.type(0).str(),
        trans_a ? " transposed" : "", context.type(1).str(), trans_b ? " transposed" : "");
  }
  if (context.has(2) && context.type(2).ranked) {
    const std::vector<Dim>& c = context.dims(2);
    bool fits = c.size() <= 2;
    for (size_t i = 0; fits && i < c.size(); ++i) {
      fits = c[c.size() - 1 - i].value == 1 || !known_and_differ(c[c.size() - 1 - i], y[1 - i]);
    }
    context.require(fits, "G3", "c {} does not broadcast to the product {}", graph::shape_str(c),
                    graph::shape_str(y));
  }
  context.set(0, dtype, y);
}

void infer_grad_weight(InferContext& context) {
  const TensorType &a = context.type(0), &b = context.type(1);
  if (!a.ranked || !b.ranked) return context.set_unranked(0, a.dtype);
  context.require(a.rank() >= 2 && a.rank() == b.rank(), "W1",
                  "a {} and b {} must have the same two or more axes", a.str(), b.str());
  for (int i = 0; i + 1 < a.rank(); ++i) {
    context.require(!known_and_differ(a.dims[i], b.dims[i]), "W2",
                    "a {} and b {} must agree on all but the last axis", a.str(), b.str());
  }
  TensorType dw(a.dtype, {a.dims.back(), b.dims.back()});
  if (context.has(2) && context.type(2).is_static() && dw.is_static()) {
    context.require(context.type(2).shape() == dw.shape(), "W3", "acc {} must have the shape {}",
                    context.type(2).str(), graph::shape_str(dw.dims));
  }
  context.set(0, std::move(dw));
}

void infer_grad_bias(InferContext& context) {
  const TensorType& dy = context.type(0);
  if (!dy.ranked) return context.set_unranked(0, dy.dtype);
  context.require(dy.rank() >= 2, "B1", "dy must have two or more axes, found {}", dy.str());
  TensorType db(dy.dtype, {dy.dims.back()});
  if (context.node().get_int("keepdims", 0) != 0) db.dims.insert(db.dims.begin(), Dim(1));
  if (context.has(1) && context.type(1).is_static() && db.is_static()) {
    context.require(context.type(1).shape() == db.shape(), "B2", "acc {} must have the shape {}",
                    context.type(1).str(), graph::shape_str(db.dims));
  }
  context.set(0, std::move(db));
}

// --- Gradient

graph::Attributes product_attributes(double alpha, bool trans_a, bool trans_b) {
  graph::Attributes attributes;
  if (alpha != 1) attributes["alpha"] = alpha;
  if (trans_a) attributes["transA"] = int64_t{1};
  if (trans_b) attributes["transB"] = int64_t{1};
  return attributes;
}

Value* grad_c(GradientContext& g) {
  const double beta = g.node().get_float("beta", 1);
  Value* c = g.x(2);
  if (beta == 0) return g.b().filled_like(c, 0);
  const std::vector<int64_t> shape = g.shape(c);
  const int64_t columns = g.shape(g.dy(0))[1];
  if (shape == std::vector<int64_t>{columns} || shape == std::vector<int64_t>{1, columns}) {
    graph::Attributes attributes;
    if (beta != 1) attributes["scale"] = beta;
    if (shape.size() == 2) attributes["keepdims"] = int64_t{1};
    return g.b().own("GemmGradBias", {g.dy(0)}, std::move(attributes));
  }
  Value* dc = g.reduce_to(g.dy(0), c);
  return beta == 1 ? dc : g.b().op("Mul", {dc, g.b().scalar(dc->type.dtype, beta)});
}

void gemm_gradient(GradientContext& g) {
  const bool trans_a = trans_of(g.node(), "transA") == Trans::kYes;
  const bool trans_b = trans_of(g.node(), "transB") == Trans::kYes;
  const double alpha = g.node().get_float("alpha", 1);
  Value *a = g.x(0), *b = g.x(1), *dy = g.dy(0);
  if (g.wants(0)) {
    g.set(0, trans_a ? g.b().op("Gemm", {b, dy}, product_attributes(alpha, trans_b, true))
                     : g.b().op("Gemm", {dy, b}, product_attributes(alpha, false, !trans_b)));
  }
  if (g.wants(1)) {
    if (trans_a) {
      g.set(1, trans_b ? g.b().op("Gemm", {dy, a}, product_attributes(alpha, true, true))
                       : g.b().op("Gemm", {a, dy}, product_attributes(alpha, false, false)));
    } else {
      Value *left = trans_b ? dy : a, *right = trans_b ? a : dy;
      g.set(1, g.b().own("GemmGradWeight", {left, right}, product_attributes(alpha, false, false)));
    }
  }
  if (g.wants(2)) g.set(2, grad_c(g));
}

// --- Definition

// Of the bias: that of b, the weight of nearly all layers.
graph::Fan gemm_fan(const Node& node, int slot) {
  return slot == 0 ? product_fan(node, 0, trans_of(node, "transA") == Trans::kNo)
                   : product_fan(node, 1, trans_of(node, "transB") == Trans::kYes);
}

BatchRole gemm_batch(const Node& node, int) {
  const bool a = carries_batch(node, node.input(0)), b = carries_batch(node, node.input(1));
  const Value* c = node.get_float("beta", 1) != 0 ? node.input(2) : nullptr;
  const bool trans_a = trans_of(node, "transA") == Trans::kYes;
  const bool trans_b = trans_of(node, "transB") == Trans::kYes;
  if (a && b && c == nullptr && trans_a && !trans_b) return BatchRole::kSum;
  if (!a || b || trans_a) return BatchRole::kCouples;
  if (c == nullptr || carries_batch(node, c)) return BatchRole::kRows;
  // Rows of c that aren't known to be those of the batch can't be cut with it.
  const bool same_for_all_rows =
      c->type.ranked && (c->type.rank() < 2 || c->type.dims[0].value == 1);
  return same_for_all_rows ? BatchRole::kRows : BatchRole::kCouples;
}

BatchRole grad_weight_batch(const Node& node, int) {
  return carries_batch(node, node.input(0)) && carries_batch(node, node.input(1))
             ? BatchRole::kSum
             : BatchRole::kCouples;
}

OpDef gemm_op() {
  OpDef op;
  op.name = "Gemm";
  op.doc = "Product of two matrices, plus a broadcast third one.";
  op.since = {1, 6, 7, 9, 11, 13};
  op.inputs = {{"a"}, {"b"}, {"c", Presence::kOptional}};
  op.outputs = {{"y"}};
  op.attributes = {{"alpha", "float, default 1: factor of the product"},
                   {"beta", "float, default 1: factor of c; 0: c is not read"},
                   {"transA", "int, default 0: 1 transposes a"},
                   {"transB", "int, default 0: 1 transposes b"}};
  op.infer = infer_gemm;
  op.gradient = gradient(gemm_gradient);
  op.batch = gemm_batch;
  op.parameter_slot = [](int slot) {
    return slot == 2 ? ParameterSlot::kBias : ParameterSlot::kWeight;
  };
  op.fan = gemm_fan;
  op.narrow = Narrow::kProducts;
  op.flops = [](const KernelRequest& request) {
    const gemm::Product product = gemm::GemmShape::of(request).product;
    return 2.0 * static_cast<double>(product.m * product.n) * static_cast<double>(product.k);
  };
  return op;
}

OpDef grad_weight_op() {
  OpDef op = gradient_op(
      "GemmGradWeight",
      "Gradient of a product with respect to its weight: a^T b, summed over all but the last axis.",
      "a matrix product", {{"a"}, {"b"}, {"acc", Presence::kOptional}}, {{"dw"}},
      infer_grad_weight);
  op.attributes = {{"alpha", "float, default 1: factor of the product"}};
  op.batch = grad_weight_batch;
  op.accumulate_input = 2;
  op.flops = [](const KernelRequest& request) {
    const gemm::Product product = gemm::grad_weight_product(request);
    return 2.0 * static_cast<double>(product.m * product.n) * static_cast<double>(product.k);
  };
  return op;
}

OpDef grad_bias_op() {
  OpDef op = gradient_op(
      "GemmGradBias",
      "Gradient of a product with respect to its bias: the sum over all but the last axis.",
      "a matrix product", {{"dy"}, {"acc", Presence::kOptional}}, {{"db"}}, infer_grad_bias);
  op.attributes = {{"scale", "float, default 1: factor of the sum"},
                   {"keepdims", "int, default 0: 1 keeps one leading axis of size 1"}};
  op.batch = sums;
  op.accumulate_input = 1;
  return op;
}

}  // namespace

void register_gemm(OpRegistry& ops) {
  ops.add(gemm_op());
  ops.add(gemm::matmul_op());
  ops.add(grad_weight_op());
  ops.add(grad_bias_op());
}

}  // namespace sardonyx::ops
