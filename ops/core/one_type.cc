#include "ops/core/one_type.h"

namespace sardonyx::ops {

void require_type_of(const InferContext& context, int input, int like, const char* constraint) {
  if (!context.has(input) || !context.has(like)) return;
  if (context.dtype(input) == context.dtype(like)) return;
  throw MixedTypesError(
      constraint,
      "{} is {}, but {} is {}: both must have one element type; cast one of them, or export the "
      "model in one type",
      input_label(context.node(), input), context.type(input).str(),
      input_label(context.node(), like), context.type(like).str());
}

void require_one_type(const InferContext& context, int first, int last, const char* constraint) {
  for (int i = first + 1; i <= last; ++i) require_type_of(context, i, first, constraint);
}

void require_type_of_number(const InferContext& context, int input, int like,
                            const char* constraint) {
  const Value* value = context.node().input(input);
  const bool of_attribute = value != nullptr && value->is_constant() &&
                            value->origin.kind == graph::Origin::Kind::kNone &&
                            value->type.dtype == DType::kFloat32 &&
                            graph::is_floating(context.dtype(like));
  if (!of_attribute) require_type_of(context, input, like, constraint);
}

}  // namespace sardonyx::ops
