// opt with any pass, and any stage, alone or out of order: a word, never an internal error.
#include <gtest/gtest.h>

#include "passes/lower.h"
#include "tests/support/onnx_sketch.h"
#include "tests/tools/program.h"

namespace sardonyx::testing {
namespace {

constexpr const char* kOpenSizes = R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3,H,W] x) => (float[N,5] y)
<float[4,3,3,3] w = {...}, float[4] b = {0, 0, 0, 0}, float[4,5] fc = {...}> {
  c = Conv<pads = [1, 1, 1, 1]>(x, w, b)
  r = Relu(c)
  t = Transpose<perm = [0, 2, 3, 1]>(r)
  m = ReduceMax<axes = [1, 2], keepdims = 0>(t)
  y = MatMul(m, fc)
}
)";

class OptOrder : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(program_.file("open.txt"), kOpenSizes);
    ASSERT_EQ(program_.run("model lenet -o lenet.onnx --input 1x16x16").code, 0);
  }

  // `front` and then each pass and stage; all codes but 0 and 1 count.
  std::string faults_behind(const std::string& front, const std::string& flags = "") const {
    std::vector<std::string_view> names;
    for (const passes::Pass& pass : passes::all_passes()) names.push_back(pass.name);
    for (const passes::LoweringStage& stage : passes::lowering_stages())
      names.push_back(stage.name);
    std::string faults;
    for (const char* model : {"lenet.onnx", "open.txt"}) {
      for (const std::string_view name : names) {
        const std::string command =
            fmt::format("opt {} --passes {}{} {}", model, front, name, flags);
        const Outcome outcome = program_.run(command);
        if (outcome.code != 0 && outcome.code != 1) {
          faults += fmt::format("{}: {} {}", command, outcome.code, outcome.err);
        }
      }
    }
    return faults;
  }

  const Program program_;
};

TEST_F(OptOrder, no_pass_alone_is_an_internal_error) { EXPECT_EQ(faults_behind(""), ""); }

TEST_F(OptOrder, no_pass_behind_types_alone_is_an_internal_error) {
  EXPECT_EQ(faults_behind("bind_batch,infer_shapes,", "--devices cpu,cpu --sync-bn"), "");
}

TEST_F(OptOrder, no_pass_behind_gradients_is_an_internal_error) {
  EXPECT_EQ(faults_behind("bind_batch,infer_shapes,append_loss,mark_trainable,apply_mode,"
                          "build_backward,append_optimizer,"),
            "");
  EXPECT_EQ(faults_behind("infer_shapes,form_regions,assign_layouts,"), "");
}

}  // namespace
}  // namespace sardonyx::testing
