// LRN: y[n,c,..] = x[n,c,..] / d[n,c,..]^beta    d = bias + alpha / size * sum of x[n,k,..]^2
//
// k runs over the `size` channels around c, c - (size-1)/2 to c + size/2, as far as they exist.
// Inputs   x [N,C,...]                                           Output  y, the shape of x
// L1 floating elements     L2 x has a batch and channels     L3 size >= 1
// L4 bias is finite and at least 0
// Gradient dx = LrnGrad(x, dy), which computes d again
//             = dy d^-beta - 2 alpha beta / size * x * sum of dy x d^(-beta-1) over the k that see
//             c
// Source   ONNX LRN-1, LRN-13
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/epsilon.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"

namespace sardonyx::ops {

namespace {

// --- Schema

const std::vector<AttributeDef> kAttributes = {
    {"size", "int, required: channels that are added up"},
    {"alpha", "float, default 1e-4: weight of their squares"},
    {"beta", "float, default 0.75: exponent"},
    {"bias", "float, default 1: added to the squares"},
};

// --- Shape

void require_operand(const InferContext& c) {
  require_floating(c, 0, "L1");
  c.require(c.rank(0) < 0 || c.rank(0) >= 2, "L2", "x is {}, expected a batch and channels",
            c.type(0).str());
  const int64_t size = c.node().get_int("size", 0);
  c.require(size >= 1, "L3", "size is {}, expected at least 1", size);
  require_epsilon(c, "L4", "bias");
}

void infer_lrn(InferContext& c) {
  require_operand(c);
  infer_same(c);
}

void infer_lrn_grad(InferContext& c) {
  require_operand(c);
  infer_same_shapes(c, 0, 1, "L2");
}

// --- Gradient

void lrn_gradient(GradientContext& c) {
  c.set(0, c.b().own("LrnGrad", {c.x(0), c.dy(0)}, c.node().attributes));
}

}  // namespace

// --- Definition

void register_lrn(OpRegistry& ops) {
  OpDef op = standard_op("LRN", "Divides by a power of the squares of neighbouring channels.",
                         {1, 13}, {{"x"}}, {{"y"}}, infer_lrn);
  op.attributes = kAttributes;
  op.gradient = gradient(lrn_gradient);
  op.hint = [](const Node& node) { return hint_at_zero(node, "bias", 1); };
  op.batch = rows;
  ops.add(std::move(op));

  OpDef grad =
      gradient_op("LrnGrad", "Gradient of LRN.", "LRN", {{"x"}, {"dy"}}, {{"dx"}}, infer_lrn_grad);
  grad.attributes = kAttributes;
  grad.batch = rows_of_all;
  ops.add(std::move(grad));
}

}  // namespace sardonyx::ops
