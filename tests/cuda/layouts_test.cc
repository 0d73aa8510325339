// assign_layouts for CUDA devices: what lies with channels last, where that changes, and that a
// whole network computes the same.
#include <gtest/gtest.h>

#include "graph/parse.h"
#include "ops/core/cublas.h"
#include "ops/core/cuda_context.h"
#include "ops/core/cudnn.h"
#include "passes/lower.h"
#include "tests/support/host_cuda/fixture.h"

namespace sardonyx::passes {
namespace {

class CudaTarget final : public Target {
 public:
  ops::Device device() const override { return ops::Device::kCuda; }
  int threads() const override { return 1; }
  std::string name() const override { return "cuda"; }
  size_t l2_bytes() const override { return size_t{1} << 20; }
  int vector_floats() const override { return 1; }
  ops::CudaLibraries* libraries() const override { return &libraries_; }

 private:
  ops::cudnn::Handle cudnn_;
  ops::cublas::Handle cublas_;
  mutable ops::CudaLibraries libraries_{cudnn_, cublas_};
};

class CudaLayouts : public host_cuda::HostCuda {
 protected:
  // The nodes that assign_layouts and select_kernels make of a graph, one per line.
  static std::string lowered(const std::string& text, const PipelineOptions& wanted) {
    const CudaTarget target;
    PassContext context;
    context.options = wanted;
    context.options.batch = 2;
    context.target = &target;
    StateTable states;
    Lowering lowering;
    lowering.graph =
        graph::parse("<ir_version: 8, opset_import: [\"\" : 13, \"sardonyx\" : 1]>\n" + text);
    run_named(lowering, context, states,
              {"bind_batch", "infer_shapes", "form_regions", "assign_layouts", "select_kernels"});
    const std::string printed = print(lowering);
    const size_t begin = printed.find("whole batch\n") + 12;
    return squeezed(printed.substr(begin, printed.rfind('}') - begin));
  }

  // Without the spaces in front of lines and those that align them.
  static std::string squeezed(const std::string& text) {
    std::string result;
    for (const char c : text) {
      const bool repeats = result.empty() || result.back() == ' ' || result.back() == '\n';
      if (c != ' ' || !repeats) result += c;
    }
    return result;
  }

  static PipelineOptions channels(ChannelOrder order) {
    PipelineOptions options;
    options.channels = order;
    return options;
  }
};

constexpr const char* kNet = R"(
  g (float[N,2,4,4] x) => (float[N,48] y)
  <state(parameter) float[3,2,3,3] w>
  {
    c = Conv<pads = [1, 1, 1, 1]>(x, w)
    r = Relu(c)
    y = Flatten(r)
  })";

TEST_F(CudaLayouts, convolutions_and_what_follows_lie_with_channels_last) {
  EXPECT_EQ(
      lowered(kNet, channels(ChannelOrder::kLast)),
      R"("x@channels_last" = sardonyx.Reorder<to = "channels_last">(x) # float[N:2,2,4,4]@0231 # reorder.cuda
c = Conv<pads = [1, 1, 1, 1]>("x@channels_last", w) # float[N:2,3,4,4]@0231 # conv.cudnn_nhwc
r = Relu(c) # float[N:2,3,4,4]@0231 # activation.cuda
"r@plain" = sardonyx.Reorder<to = "plain">(r) # float[N:2,3,4,4] # reorder.cuda
y = Flatten("r@plain") # float[N:2,48]
)");
}

TEST_F(CudaLayouts, one_channel_and_one_cell_are_the_same_bytes) {
  EXPECT_EQ(lowered(R"(
  g (float[N,1,4,4] x) => (float[N,3] y)
  <state(parameter) float[3,1,4,4] w>
  {
    c = Conv(x, w)
    y = Flatten(c)
  })",
                    channels(ChannelOrder::kLast)),
            R"("x@channels_last" = sardonyx.Relabel<to = "channels_last">(x) # float[N:2,1,4,4]@0231
c = Conv("x@channels_last", w) # float[N:2,3,1,1]@0231 # conv.cudnn_nhwc
"c@plain" = sardonyx.Relabel<to = "plain">(c) # float[N:2,3,1,1]
y = Flatten("c@plain") # float[N:2,3]
)");
}

TEST_F(CudaLayouts, tensor_cores_ask_for_channels_last_unless_they_are_first) {
  const auto has_reorders = [](const PipelineOptions& options) {
    return lowered(kNet, options).find("Reorder") != std::string::npos;
  };
  PipelineOptions options;
  EXPECT_FALSE(has_reorders(options));
  options.precision = Precision::kTf32;
  EXPECT_TRUE(has_reorders(options));
  options.channels = ChannelOrder::kFirst;
  EXPECT_FALSE(has_reorders(options));
}

TEST_F(CudaLayouts, additions_follow_and_normalisations_ask) {
  const PipelineOptions last = channels(ChannelOrder::kLast);
  const std::string sum = lowered("g (float[N,3,4] x) => (float[N,3,4] y) { y = Add(x, x) }", last);
  EXPECT_EQ(sum, "y = Add(x, x) # float[N:2,3,4] # arithmetic.cuda\n");
  EXPECT_EQ(
      lowered(R"(
  g (float[N,2,4,4] x) => (float[N,2] y)
  <float[2,1,1] b = {1, 2}, int64[2] cells = {2, 3}>
  {
    s = sardonyx.BatchNormSums(x)
    p = GlobalAveragePool(x)
    c = Add(p, b)
    y = ReduceMean<keepdims = 0>(c, cells)
  })",
              last),
      R"("x@channels_last" = sardonyx.Reorder<to = "channels_last">(x) # float[N:2,2,4,4]@0231 # reorder.cuda
s = sardonyx.BatchNormSums("x@channels_last") # double[3,2] # batch_norm.cuda_nhwc
p = GlobalAveragePool("x@channels_last") # float[N:2,2,1,1]@0231 # pool.cuda_nhwc
c = Add(p, b) # float[N:2,2,1,1]@0231 # arithmetic.cuda_nhwc
y = ReduceMean<keepdims = 0>(c, cells) # float[N:2,2] # reduce.cuda_nhwc
)");
}

TEST_F(CudaLayouts, an_output_is_published_plain_under_its_name) {
  const std::string text = lowered(R"(
  g (float[N,2,4,4] x) => (float[N,2,4,4] y)
  <state(parameter) float[2,2,1,1] w>
  { y = Conv(x, w) })",
                                   channels(ChannelOrder::kLast));
  EXPECT_NE(text.find("y = sardonyx.Reorder<to = \"plain\">(\"y@channels_last\")"), text.npos)
      << text;
}

}  // namespace
}  // namespace sardonyx::passes
