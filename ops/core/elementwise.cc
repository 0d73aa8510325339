#include "ops/core/elementwise.h"

#include "ops/core/axes.h"

namespace sardonyx::ops {

void infer_same(InferContext& context) { context.set(0, context.type(0)); }

void infer_same_shapes(InferContext& context, int first, int last, const char* constraint) {
  TensorType result = context.type(first);
  for (int i = first + 1; i <= last; ++i) {
    const TensorType& other = context.type(i);
    if (!other.ranked) continue;
    if (!result.ranked) {
      const DType dtype = result.dtype;
      result = other;
      result.dtype = dtype;
      continue;
    }
    bool fits = result.rank() == other.rank();
    for (int axis = 0; fits && axis < result.rank(); ++axis) {
      Dim& dim = result.dims[axis];
      const Dim& d = other.dims[axis];
      fits = agree(dim, d);
      if (!dim.known()) dim.value = d.value;
      if (dim.symbol.empty()) dim.symbol = d.symbol;
    }
    context.require(fits, constraint, "input {} has type {}, but input {} has type {}", first,
                    context.type(first).str(), i, other.str());
  }
  context.set(0, std::move(result));
}

void require_floating(const InferContext& context, int input, const char* constraint) {
  const DType dtype = context.dtype(input);
  context.require(graph::is_floating(dtype), constraint, "input {} is {}, expected a floating type",
                  input, graph::dtype_name(dtype));
}

void require_numbers(const InferContext& context, int input, const char* constraint) {
  const DType dtype = context.dtype(input);
  context.require(graph::is_floating(dtype) || graph::is_integer(dtype), constraint,
                  "input {} is {}, expected numbers", input, graph::dtype_name(dtype));
}

}  // namespace sardonyx::ops
