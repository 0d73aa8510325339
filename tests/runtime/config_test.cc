// What flags become: that each reaches the part that it is for.
#include "runtime/config.h"

#include <gtest/gtest.h>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "runtime/usage.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

using sardonyx::testing::error_of;

// One convolution that Winograd's algorithm speeds up.
std::shared_ptr<const graph::Model> model() {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
net (float[N,64,28,28] x) => (float[N,64] y) <float[64,64,3,3] w = {...}> {
  c = Conv<pads = [1, 1, 1, 1]>(x, w)
  p = GlobalAveragePool(c)
  y = Flatten(p)
})");
  graph->find("w")->data = test::random_tensor(graph::DType::kFloat32, {64, 64, 3, 3});
  return graph::Model::from_bytes(graph::to_onnx_bytes(*graph));
}

int transformed_kernels(SessionOptions options) {
  Session session(model(), std::move(options));
  int count = 0;
  for (const passes::Region& region : session.training_plan(32).regions) {
    for (const passes::Step& step : region.steps) {
      count += step.def != nullptr && step.def->rounding == ops::Rounding::kTransformed ? 1 : 0;
    }
  }
  return count;
}

TEST(Config, direct_only_leaves_no_kernel_that_rounds_in_another_basis) {
  Flags flags;
  flags.threads = 1;
  if (__builtin_cpu_supports("avx512f")) {
    EXPECT_GT(transformed_kernels(session_options(flags)), 0);
  }
  flags.direct_only = true;
  EXPECT_EQ(transformed_kernels(session_options(flags)), 0);
}

TEST(Config, direct_only_counts_more_than_the_kernels_of_the_run_before) {
  Flags flags;
  flags.threads = 1;
  Session before(model(), session_options(flags));
  before.training_plan(32);
  flags.direct_only = true;
  SessionOptions options = session_options(flags);
  options.replay = before.kernel_choices();
  EXPECT_EQ(transformed_kernels(std::move(options)), 0);
}

TEST(Config, what_goes_with_cuda_devices_or_without_them_is_known_before_any_file_is_read) {
  Flags flags;
  flags.devices = {"cpu", "cuda:1"};
  flags.tune = true;
  EXPECT_EQ(error_of([&] { session_options(flags); }),
            "--tune measures kernels of the CPU: leave it out with --devices cuda:1");
  flags.tune = false;
  EXPECT_EQ(session_options(flags).pipeline.fallback, passes::Fallback::kNone);
  flags.fallback = "cpu";
  EXPECT_EQ(session_options(flags).pipeline.fallback, passes::Fallback::kCpu);
  flags.devices = {"cpu"};
  EXPECT_EQ(error_of([&] { session_options(flags); }),
            "--fallback cpu goes with a CUDA device, as --devices cuda:0");
  flags.fallback = "gpu";
  EXPECT_THROW(session_options(flags), UsageError);
}

TEST(Config, what_is_switched_off_in_words_is_off) {
  Flags flags;
  flags.augment = flags.normalize = "none";
  flags.groups = flags.no_decay = {"none"};
  EXPECT_FALSE(augment_options(flags).any());
  EXPECT_TRUE(adapt_options(flags).normalize.mean.empty());
  const passes::OptimizerOptions update = session_options(flags).pipeline.optimizer;
  EXPECT_TRUE(update.groups.empty());
  EXPECT_TRUE(update.decay_norms && update.decay_biases);
  for (const char* warmup : {"0", "none", ""}) {
    flags.warmup = warmup;
    EXPECT_FALSE(lr_schedule(flags).warms_up()) << warmup;
  }
  flags.warmup = "-1";
  EXPECT_THROW(lr_schedule(flags), UsageError);
}

}  // namespace
}  // namespace sardonyx::runtime
