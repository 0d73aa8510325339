// Inputs that the operator's definition binds to one element type.
#pragma once

#include "ops/core/infer.h"

namespace sardonyx::ops {

// What these functions throw: of all constraints the one that has to be asked for in the types of
// the file, because conversion makes them one (passes/convert_dtype.cc).
class MixedTypesError : public ConstraintError {
 public:
  using ConstraintError::ConstraintError;
};

// Throw MixedTypesError unless, as far as they are there, input `input` has the element type of
// input `like`; inputs first .. last have one.
void require_type_of(const InferContext& context, int input, int like, const char* constraint);
void require_one_type(const InferContext& context, int first, int last, const char* constraint);
// The same as require_type_of, for a number that older opsets say in an attribute: normalisation
// writes those as float, whatever the type of `like`, and the kernels read every type.
void require_type_of_number(const InferContext& context, int input, int like,
                            const char* constraint);

}  // namespace sardonyx::ops
