#include "passes/missing_operators.h"

#include <algorithm>
#include <string_view>

#include "ops/core/op.h"

namespace sardonyx::passes {

namespace {

constexpr std::string_view kStandard[] = {
    "Bernoulli",
    "BlackmanWindow",
    "ConcatFromSequence",
    "ConvInteger",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "HammingWindow",
    "HannWindow",
    "ImageDecoder",
    "Loop",
    "MatMulInteger",
    "MelWeightMatrix",
    "Multinomial",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "RegexFullMatch",
    "STFT",
    "Scan",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SequenceMap",
    "SplitToSequence",
    "StringConcat",
    "StringNormalizer",
    "StringSplit",
    "TfIdfVectorizer",
};

// One that has a room is missing in this operator set only, which is another thing.
bool has_a_room(const std::string& name) {
  return std::ranges::any_of(ops::OpRegistry::get().all(), [&](const ops::OpDef* op) {
    return op->domain.empty() && op->name == name;
  });
}

}  // namespace

std::string missing_standard_operator(const std::string& name) {
  if (std::ranges::find(kStandard, name) == std::end(kStandard) || has_a_room(name)) return "";
  const std::string missing = "a standard operator that Sardonyx doesn't have";
  if (name == "Loop" || name == "Scan") {
    return missing + ": unroll the loop, or export without scripting, which traces its steps";
  }
  return missing + " (docs/limits.md)";
}

}  // namespace sardonyx::passes
