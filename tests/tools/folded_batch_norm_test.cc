// What `check` says about BatchNormalization that an exporter left out, on files as exporters write
// them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/tools/program.h"

namespace sardonyx::testing {
namespace {

// The line behind "  N BatchNormalization", without the hint at the documentation.
std::string said_of(const std::string& fixture) {
  const std::filesystem::path file = shared_folder() / "fixtures" / fixture / "model.onnx";
  const Outcome outcome = Program().run("check " + file.string());
  const size_t begin = outcome.out.find(" BatchNormalization", outcome.out.find("\nfacts\n"));
  EXPECT_NE(begin, std::string::npos) << outcome.out << outcome.err;
  if (begin == std::string::npos) return "";
  std::string line = outcome.out.substr(begin + 19, outcome.out.find('\n', begin) - begin - 19);
  const size_t hint = line.find(" (docs/exporters.md)");
  return hint == std::string::npos ? line : line.substr(0, hint);
}

class FoldedBatchNorm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (shared_fixtures().empty()) GTEST_SKIP() << "the shared fixtures are not there";
  }
};

TEST_F(FoldedBatchNorm, of_the_current_torch_exporter_is_counted_by_its_own_notes) {
  const auto folded = [](int count) {
    return fmt::format(": this export folded {} into convolutions; optimize=False keeps them",
                       count);
  };
  EXPECT_EQ(said_of("torch-dynamo__resnet18_d2l__opset18"), folded(17));
  EXPECT_EQ(said_of("torch-dynamo__mobilenet__default-dynbatch"), folded(10));
  EXPECT_EQ(said_of("torch-dynamo__resnet_tiny__external-data"), folded(5));
  EXPECT_EQ(said_of("torch-dynamo__resnet_tiny__train-mode-dynbatch"), folded(5));
}

TEST_F(FoldedBatchNorm, of_the_older_torch_exporter_is_counted_by_the_names_of_weights) {
  EXPECT_EQ(said_of("torch-ts__resnet18_d2l__eval-opset17"),
            ": this export folded 17 into convolutions; "
            "training=torch.onnx.TrainingMode.TRAINING keeps them");
}

TEST_F(FoldedBatchNorm, of_keras_3_is_arithmetic) {
  for (const char* fixture :
       {"keras-native__mobilenet__opset18", "keras-native__resnet_preact__default",
        "tf2onnx__resnet18_d2l__opset18"}) {
    EXPECT_EQ(said_of(fixture),
              ": this export wrote them as multiplications and additions, which are trained as "
              "they are; Keras 2 (tf-keras) keeps them");
  }
}

TEST_F(FoldedBatchNorm, by_onnxsim_is_counted_by_its_list_of_removed_nodes) {
  EXPECT_EQ(said_of("onnxsim__resnet_tiny__ts-opset17"),
            ": onnxsim folded 5 into convolutions; take the file from before it");
  EXPECT_EQ(said_of("onnxsim__mobilenet__paddle-opset13-dynbatch"),
            ": onnxsim folded 3 into convolutions; take the file from before it");
  EXPECT_EQ(said_of("onnxsim__vit__ts-opset17-dynbatch"),
            " (if your network has some, the export folded them: docs/exporters.md)");
}

TEST_F(FoldedBatchNorm, is_not_claimed_where_the_file_doesnt_tell) {
  const std::string hint = " (if your network has some, the export folded them: docs/exporters.md)";
  for (const char* fixture :
       {"torch-ts__lenet__eval-opset9", "torch-dynamo__lenet__default", "tf2onnx__lenet__opset13",
        "torch-dynamo__norm_zoo__default", "torch-ts__squeezenet__training-opset13"}) {
    EXPECT_EQ(said_of(fixture), hint) << fixture;
  }
  EXPECT_EQ(said_of("torch-ts__mlp_reg__eval-opset9"), "") << "it has no convolution";
}

TEST_F(FoldedBatchNorm, is_not_claimed_where_they_are_kept) {
  for (const auto& [fixture, form] : {std::pair{"torch-ts__resnet18_d2l__training-opset17", 17},
                                      {"torch-dynamo__resnet_tiny__unoptimized", 0},
                                      {"torch-dynamo__preact_default_init__default", 0},
                                      {"paddle2onnx__resnet18_d2l__opset17", 0},
                                      {"tf2onnx__mobilenet__keras2-opset11-dynbatch", 0},
                                      {"mxnet__resnet_tiny__default", 0}}) {
    EXPECT_EQ(said_of(fixture),
              fmt::format(" ({} in training form): batch statistics in training only", form))
        << fixture;
  }
}

TEST_F(FoldedBatchNorm, stands_in_the_report_for_programs) {
  const auto report = [](const char* fixture) {
    const std::filesystem::path file = shared_folder() / "fixtures" / fixture / "model.onnx";
    return nlohmann::json::parse(Program().run("check --json " + file.string()).out);
  };
  EXPECT_EQ(report("torch-ts__resnet18_d2l__eval-opset17")["folded_batch_normalizations"],
            "this export folded 17 into convolutions; training=torch.onnx.TrainingMode.TRAINING "
            "keeps them");
  EXPECT_EQ(report("torch-ts__lenet__eval-opset9")["folded_batch_normalizations"], nullptr);
}

}  // namespace
}  // namespace sardonyx::testing
