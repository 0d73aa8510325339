// What the updates of the room have in common: attributes, and the constraints O1, O2 and O4 of the
// plate of optimizer.cc. Private to ops/optimizer.
#pragma once

#include <initializer_list>

#include "ops/core/infer.h"

namespace sardonyx::ops::optimizer {

inline const AttributeDef kWeightDecay = {"weight_decay",
                                          "float, default 0: see the rule of the update"};
inline const AttributeDef kLrFactor = {"lr_factor", "float, default 1: of the learning rate"};
inline const AttributeDef kClipValue = {
    "clip_value", "float, default 0 (none): largest element of the scaled gradient"};

void require_scalar(const InferContext& context, int input, DType dtype);
void require_shape_of(const InferContext& context, int input, int other);
void require_not_negative(const InferContext& context, std::initializer_list<const char*> names);
void require_share(const InferContext& context, const char* name, double fallback);
// Of w, g, lr and scale; sets w_next.
void infer_update(InferContext& context);

}  // namespace sardonyx::ops::optimizer
