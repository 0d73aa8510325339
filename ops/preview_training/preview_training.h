// The nodes that the operators of ai.onnx.preview.training stand for; private to the room.
#pragma once

#include "ops/core/composed.h"

namespace sardonyx::ops::preview_training {

inline constexpr const char* kPreviewDomain = "ai.onnx.preview.training";

void write_momentum(ComposeContext& c);
void write_adagrad(ComposeContext& c);
void write_adam(ComposeContext& c);

}  // namespace sardonyx::ops::preview_training
