#include "ops/optimizer/shape_rules.h"

#include "ops/core/elementwise.h"

namespace sardonyx::ops::optimizer {

void require_scalar(const InferContext& context, int input, DType dtype) {
  const TensorType& type = context.type(input);
  context.require(type.dtype == dtype && (!type.ranked || type.rank() == 0), "O2",
                  "input {} has type {}, expected a {} scalar", input, type.str(),
                  graph::dtype_name(dtype));
}

void require_shape_of(const InferContext& context, int input, int other) {
  const TensorType &a = context.type(input), &b = context.type(other);
  const bool known = a.is_static() && b.is_static();
  context.require(a.dtype == b.dtype && (!known || a.shape() == b.shape()), "O1",
                  "input {} has type {}, but input {} has type {}", input, a.str(), other, b.str());
}

void require_not_negative(const InferContext& context, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const double value = context.node().get_float(name, 0);
    context.require(value >= 0, "O4", "{} is {}, expected at least 0", name, value);
  }
}

void require_share(const InferContext& context, const char* name, double fallback) {
  const double value = context.node().get_float(name, fallback);
  context.require(value >= 0 && value < 1, "O4", "{} is {}, expected at least 0 and below 1", name,
                  value);
}

void infer_update(InferContext& context) {
  require_floating(context, 0, "O1");
  require_shape_of(context, 1, 0);
  require_scalar(context, 2, DType::kFloat64);
  require_scalar(context, 3, context.dtype(0));
  require_not_negative(context, {"weight_decay", "lr_factor", "clip_value"});
  context.set(0, context.type(0));
}

}  // namespace sardonyx::ops::optimizer
