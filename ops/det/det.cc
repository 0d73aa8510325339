// Det: y[..] = determinant of the matrix x[.., :, :]
//
// sardonyx.DetGrad(x, dy)    dx = dy cof(x), the matrix of cofactors: det(x) times the transposed
//                            inverse of x, where there is one
// Inputs   x [.., M, M]      Output  y [..]
// C1 x is floating    C2 rank(x) >= 2    C3 the last two axes are equal    C4 dy has the shape of y
// A matrix without elements has the determinant 1.
// Gradient DetGrad, which exists for singular matrices, too.
// Batch    rows, unless axis 0 is one of the two.
// Source   ONNX Det-22
#include <algorithm>

#include "ops/core/axes.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"

namespace sardonyx::ops {

namespace {

// --- Shape

// Throws unless input 0 is square matrices.
void require_square(const InferContext& c) {
  require_floating(c, 0, "C1");
  const TensorType& x = c.type(0);
  if (!x.ranked) return;
  c.require(x.rank() >= 2, "C2", "input 0 has type {}, expected 2 axes or more", x.str());
  c.require(agree(x.dims[x.rank() - 2], x.dims[x.rank() - 1]), "C3",
            "input 0 has type {}, expected square matrices", x.str());
}

void infer_det(InferContext& c) {
  require_square(c);
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  const std::vector<Dim>& x = c.dims(0);
  c.set(0, c.dtype(0), std::vector<Dim>(x.begin(), x.end() - 2));
}

void infer_det_grad(InferContext& c) {
  require_square(c);
  const TensorType &x = c.type(0), &dy = c.type(1);
  const bool fits =
      !x.ranked || !dy.ranked ||
      std::equal(x.dims.begin(), x.dims.end() - 2, dy.dims.begin(), dy.dims.end(), agree);
  c.require(fits, "C4", "x has type {}, but dy has type {}", x.str(), dy.str());
  infer_same(c);
}

// --- Gradient

void det_gradient(GradientContext& c) {
  if (c.wants(0)) c.set(0, c.b().own("DetGrad", {c.x(0), c.dy(0)}));
}

// --- Definition

BatchRole det_role(const Node& node, int slot) {
  const TensorType& x = node.input(0)->type;
  return x.ranked && x.rank() > 2 ? rows_of_all(node, slot) : BatchRole::kCouples;
}

}  // namespace

void register_det(OpRegistry& ops) {
  OpDef op =
      standard_op("Det", "Determinants of square matrices.", {11, 22}, {{"X"}}, {{"Y"}}, infer_det);
  op.gradient = gradient(det_gradient);
  op.batch = det_role;
  ops.add(std::move(op));

  OpDef grad = gradient_op("DetGrad", "dy times the cofactors of x.", "Det", {{"x"}, {"dy"}},
                           {{"dx"}}, infer_det_grad);
  grad.batch = det_role;
  ops.add(std::move(grad));
}

}  // namespace sardonyx::ops
