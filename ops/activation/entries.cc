#include "ops/activation/activation.h"
#include "ops/core/op.h"

namespace sardonyx::ops::activation {

namespace {

constexpr Entry kEntries[] = {
    {"", "Relu", Loop::kRelu},
    {"", "Sigmoid", Loop::kSigmoid},
    {"", "Tanh", Loop::kTanh},
    {"", "LeakyRelu", Loop::kLeakyRelu, kLeakyAlpha},
    {"", "Elu", Loop::kElu, kEluAlpha, kOne},
    {"", "Selu", Loop::kElu, kSeluAlpha, kSeluGamma},
    {"", "Celu", Loop::kCelu, kCeluAlpha},
    {"", "Softplus", Loop::kSoftplus},
    {"", "Softsign", Loop::kSoftsign},
    {"", "Erf", Loop::kErf},
    {"", "Gelu", Loop::kGelu},
    {"", "Swish", Loop::kSwish, kSwishAlpha},
    {"", "Mish", Loop::kMish},
    {"", "HardSwish", Loop::kHardSwish},
    {"", "HardSigmoid", Loop::kHardSigmoid, kHardSigmoidAlpha, kHardSigmoidBeta},
    {"", "ThresholdedRelu", Loop::kThresholdedRelu, kThreshold},
    {"", "Shrink", Loop::kShrink, kShrinkLambd, kShrinkBias},
    {"", "Clip", Loop::kClip},
    {"", "SwiGLU", Loop::kSwiGlu, kSwishAlpha},
    {kDomain, "ReluGrad", Loop::kReluGrad},
    {kDomain, "SigmoidGrad", Loop::kSigmoidGrad},
    {kDomain, "TanhGrad", Loop::kTanhGrad},
    {kDomain, "LeakyReluGrad", Loop::kLeakyReluGrad, kLeakyAlpha},
    {kDomain, "EluGrad", Loop::kEluGrad, kEluAlpha, kOne},
    {kDomain, "SeluGrad", Loop::kEluGrad, kSeluAlpha, kSeluGamma},
    {kDomain, "CeluGrad", Loop::kCeluGrad, kCeluAlpha},
    {kDomain, "SoftsignGrad", Loop::kSoftsignGrad},
    {kDomain, "ErfGrad", Loop::kErfGrad},
    {kDomain, "GeluGrad", Loop::kGeluGrad},
    {kDomain, "SwishGrad", Loop::kSwishGrad, kSwishAlpha},
    {kDomain, "MishGrad", Loop::kMishGrad},
    {kDomain, "HardSwishGrad", Loop::kHardSwishGrad},
    {kDomain, "HardSigmoidGrad", Loop::kHardSigmoidGrad, kHardSigmoidAlpha, kHardSigmoidBeta},
    {kDomain, "ThresholdedReluGrad", Loop::kThresholdedReluGrad, kThreshold},
    {kDomain, "ShrinkGrad", Loop::kShrinkGrad, kShrinkLambd, kShrinkBias},
    {kDomain, "ClipGrad", Loop::kClipGrad},
};

}  // namespace

std::span<const Entry> entries() { return kEntries; }

Numbers numbers_of(const Entry& entry, const Node& node) {
  if (entry.loop == Loop::kGelu || entry.loop == Loop::kGeluGrad) {
    const bool by_tanh = node.get_string(kApproximate, "none") == "tanh";
    return {by_tanh ? 1.0 : 0.0, 0};
  }
  const auto number = [&](const Parameter& parameter) {
    return parameter.name == nullptr ? parameter.fallback
                                     : node.get_float(parameter.name, parameter.fallback);
  };
  return {number(entry.p), number(entry.q)};
}

}  // namespace sardonyx::ops::activation
