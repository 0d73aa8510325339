// DepthToSpace and SpaceToDepth: channels to blocks of b x b cells, and back. A permutation.
//
// DepthToSpace  y[n, c, h b + i, w b + j] = x[n, (i b + j) C' + c, h, w]   mode DCR, C' = C / b^2
//                                         = x[n, c b^2 + i b + j, h, w]    mode CRD
// SpaceToDepth  the inverse of the same mode
// Inputs   x [N,C,H,W] of any type      Output  [N,C/b^2,H b,W b] and [N,C b^2,H/b,W/b]
// C1 rank 4    C2 C mod b^2 = 0    C3 H mod b = W mod b = 0    C4 b >= 1    C5 mode DCR or CRD
// Gradient the other operator on dy; x and y are not read.
// Source   ONNX DepthToSpace-28, SpaceToDepth-28
#include "ops/core/definition.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/sizes.h"

namespace sardonyx::ops {

namespace {

// --- Shape

Dim times(const Dim& dim, int64_t factor) {
  if (factor == 1) return dim;
  return dim.known() ? Dim(checked_product(dim.value, factor)) : Dim();
}

Dim divided(const InferContext& c, const char* constraint, int axis, int64_t divisor) {
  const Dim& dim = c.dims(0)[axis];
  if (divisor == 1) return dim;
  c.require(!dim.known() || dim.value % divisor == 0, constraint,
            "axis {} of {} has {} entries, expected a multiple of {}", axis, c.type(0).str(),
            dim.value, divisor);
  return dim.known() ? Dim(dim.value / divisor) : Dim();
}

int64_t block_of(const InferContext& c) {
  const int64_t block = c.node().get_int("blocksize", 0);
  c.require(block >= 1, "C4", "blocksize is {}, expected 1 or more", block);
  const std::string mode = c.node().get_string("mode", "DCR");
  c.require(mode == "DCR" || mode == "CRD", "C5", "mode is '{}', expected DCR or CRD", mode);
  c.require(c.rank(0) < 0 || c.rank(0) == 4, "C1", "input 0 has type {}, expected 4 axes",
            c.type(0).str());
  return block;
}

void infer_depth_to_space(InferContext& c) {
  const int64_t b = block_of(c);
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  const std::vector<Dim>& x = c.dims(0);
  c.set(0, c.dtype(0),
        {x[0], divided(c, "C2", 1, checked_product(b, b)), times(x[2], b), times(x[3], b)});
}

void infer_space_to_depth(InferContext& c) {
  const int64_t b = block_of(c);
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  const std::vector<Dim>& x = c.dims(0);
  c.set(0, c.dtype(0),
        {x[0], times(x[1], checked_product(b, b)), divided(c, "C3", 2, b), divided(c, "C3", 3, b)});
}

// --- Gradient

Gradient by_other(const char* other) {
  return gradient([other](GradientContext& c) {
    const Node& node = c.node();
    if (!c.wants(0)) return;
    c.set(0, c.b().op(other, {c.dy(0)},
                      {{"blocksize", node.get_int("blocksize", 0)},
                       {"mode", node.get_string("mode", "DCR")}}));
  });
}

// --- Definition

OpDef definition(const char* name, const char* doc, std::vector<int> since, InferRule infer,
                 const char* other) {
  OpDef op = standard_op(name, doc, std::move(since), {{"input"}}, {{"output"}}, infer);
  op.gradient = by_other(other);
  op.batch = rows;
  return op;
}

}  // namespace

void register_depth_to_space(OpRegistry& ops) {
  const AttributeDef block = {"blocksize", "int: side of a block"};
  OpDef to_space = definition("DepthToSpace", "Spreads channels over blocks of cells.",
                              {1, 11, 13, 28}, infer_depth_to_space, "SpaceToDepth");
  to_space.attributes = {
      block, {"mode", "string, default DCR: order of the channels, DCR or CRD (channel first)"}};
  OpDef to_depth = definition("SpaceToDepth", "Gathers blocks of cells into channels.", {1, 13, 28},
                              infer_space_to_depth, "DepthToSpace");
  to_depth.attributes = {
      block, {"mode", "string, default DCR: order of the channels, as of DepthToSpace"}};
  ops.add(std::move(to_space));
  ops.add(std::move(to_depth));
}

}  // namespace sardonyx::ops
