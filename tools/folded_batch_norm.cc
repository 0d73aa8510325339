#include "tools/folded_batch_norm.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace sardonyx::tools {

namespace {

using By = FoldedBatchNorm::By;

bool is_convolution(const onnx::NodeProto& node) {
  return node.op_type() == "Conv" || node.op_type() == "ConvTranspose";
}

// torch.onnx leaves the rewriter's rules in the node's metadata, which the format got after the
// version of the library that reads it here: so they are looked for among its bytes.
bool is_fused_by_dynamo(const onnx::NodeProto& node) {
  return node.SerializeAsString().find("FuseBatchNormInto") != std::string::npos;
}

// "onnx::Conv_194": a tensor that the exporter has computed, and no parameter of the network.
bool is_computed_by_torchscript(std::string_view name) {
  return name.starts_with("onnx::") && name.find('_') != std::string_view::npos;
}

bool names_batch_norm(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain.find("batchnorm") != std::string::npos;
}

bool names_batch_norm(const onnx::NodeProto& node) {
  return names_batch_norm(node.name()) || std::ranges::any_of(node.output(), [](const auto& name) {
           return names_batch_norm(name);
         });
}

// onnxsim lists what it removed: "BatchNormalization (bn1), Identity (i), ... (+15 more)".
FoldedBatchNorm removed_by_onnxsim(const onnx::ModelProto& model) {
  for (const onnx::StringStringEntryProto& entry : model.metadata_props()) {
    if (entry.key() != "onnxsim.removed_nodes") continue;
    constexpr std::string_view kRemoved = "BatchNormalization (";
    FoldedBatchNorm folded;
    for (size_t at = 0; (at = entry.value().find(kRemoved, at)) != std::string::npos; ++at) {
      folded.by = By::kOnnxsim;
      ++folded.convolutions;
    }
    if (entry.value().ends_with(" more)")) folded.convolutions = 0;
    return folded;
  }
  return {};
}

}  // namespace

FoldedBatchNorm folded_batch_norm(const onnx::ModelProto& model) {
  FoldedBatchNorm dynamo{By::kTorchDynamo}, script{By::kTorchScript};
  bool kept = false, arithmetic = false;
  for (const onnx::NodeProto& node : model.graph().node()) {
    kept |= node.op_type() == "BatchNormalization";
    arithmetic |= (node.op_type() == "Mul" || node.op_type() == "Add") && names_batch_norm(node);
    if (!is_convolution(node)) continue;
    dynamo.convolutions += is_fused_by_dynamo(node);
    script.convolutions += node.input_size() > 2 && is_computed_by_torchscript(node.input(1)) &&
                           is_computed_by_torchscript(node.input(2));
  }
  if (dynamo.convolutions > 0) return dynamo;
  if (script.convolutions > 0) return script;
  if (const FoldedBatchNorm removed = removed_by_onnxsim(model); removed.by != By::kNobody) {
    return removed;
  }
  return arithmetic && !kept ? FoldedBatchNorm{By::kArithmetic} : FoldedBatchNorm{};
}

std::string describe(const FoldedBatchNorm& folded) {
  const std::string convolutions = fmt::format(
      "{} into convolutions",
      folded.convolutions > 0 ? fmt::format("{}", folded.convolutions) : std::string("them"));
  switch (folded.by) {
    case By::kNobody:
      return "";
    case By::kTorchDynamo:
      return fmt::format("this export folded {}; optimize=False keeps them", convolutions);
    case By::kTorchScript:
      return fmt::format(
          "this export folded {}; training=torch.onnx.TrainingMode.TRAINING keeps them",
          convolutions);
    case By::kArithmetic:
      return "this export wrote them as multiplications and additions, which are trained as they "
             "are; Keras 2 (tf-keras) keeps them";
    case By::kOnnxsim:
      return fmt::format("onnxsim folded {}; take the file from before it", convolutions);
  }
  return "";
}

std::string dropout_advice(const std::string& producer) {
  if (producer == "pytorch") {
    return "net.train() keeps it with dynamo=True, training=TrainingMode.TRAINING else";
  }
  if (producer == "tf2onnx") return "an export from Keras never has any";
  return "";
}

}  // namespace sardonyx::tools
