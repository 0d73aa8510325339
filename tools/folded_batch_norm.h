// BatchNormalization that an export left out: what `sardonyx check` can tell from the traces in the
// file. A file without traces, as most tools leave it, says nothing.
#pragma once

#include <cstdint>
#include <string>

namespace onnx {
class ModelProto;
}

namespace sardonyx::tools {

struct FoldedBatchNorm {
  enum class By : uint8_t {
    kNobody,       // as far as the file tells
    kTorchDynamo,  // into the weights of convolutions, by torch.onnx.export with dynamo=True
    kTorchScript,  // likewise, with dynamo=False
    kArithmetic,   // written as multiplications and additions, as Keras 3 is
    kOnnxsim,      // into convolutions, behind the exporter
  };
  By by = By::kNobody;
  int64_t convolutions = 0;  // that hold one; 0: unknown
};

FoldedBatchNorm folded_batch_norm(const onnx::ModelProto& model);

// "this export folded 17 into convolutions; training=torch.onnx.TrainingMode.TRAINING keeps them";
// "" where nothing is known.
std::string describe(const FoldedBatchNorm& folded);

// How an export by this producer keeps Dropout, which an export for inference leaves out; "": not
// known.
std::string dropout_advice(const std::string& producer);

}  // namespace sardonyx::tools
