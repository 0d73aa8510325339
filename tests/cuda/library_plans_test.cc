// What libraries planned is asked for once, refusals too.
#include "ops/core/cuda_plans.h"

#include <gtest/gtest.h>

#include "ops/core/cublas.h"
#include "ops/core/cuda_context.h"
#include "ops/core/cudnn.h"
#include "tests/support/op_graph.h"

namespace sardonyx::test {

namespace {

TEST(LibraryPlans, a_plan_is_made_once) {
  ops::LibraryPlans plans;
  int asked = 0;
  const auto make = [&] { return std::make_unique<int>(++asked); };
  EXPECT_EQ(*plans.find<int>("a", make).plan, 1);
  EXPECT_EQ(*plans.find<int>("a", make).plan, 1);
  EXPECT_EQ(*plans.find<int>("b", make).plan, 2);
}

TEST(LibraryPlans, a_refusal_is_remembered_and_a_fault_is_not_one) {
  ops::LibraryPlans plans;
  int asked = 0;
  const auto refuse = [&]() -> std::unique_ptr<int> {
    ++asked;
    throw Error("no engine");
  };
  for (int time = 0; time < 2; ++time) {
    const ops::LibraryAnswer<int> answer = plans.find<int>("a", refuse);
    EXPECT_EQ(answer.plan, nullptr);
    EXPECT_EQ(answer.refusal, "no engine");
  }
  EXPECT_EQ(asked, 1);
  const auto break_down = []() -> std::unique_ptr<int> { throw InternalError("broken"); };
  EXPECT_THROW(plans.find<int>("b", break_down), InternalError);
}

// Without a device's libraries there is nothing to plan with.
TEST(LibraryPlans, kernels_of_a_library_decline_without_it) {
  const OpCase c{.op = "Conv", .inputs = {random({1, 1, 3}), random({1, 1, 2})}};
  const OpGraph g = build(c, input_values(c, DType::kFloat32, -1));
  const ops::KernelRequest request = ops::KernelRequest::of(*g.node);
  const auto kernels = ops::KernelRegistry::get(ops::Device::kCuda).find("", "Conv");
  std::vector<std::string> names;
  for (const ops::KernelDef* kernel : kernels) names.push_back(kernel->name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv.cudnn", "conv.cudnn_nhwc", "conv.cuda_plain",
                                             "conv.cuda_plain_nhwc"}));
  EXPECT_EQ(ops::declines(*kernels[0], request), "takes what the library has an engine for");
  EXPECT_EQ(ops::declines(*kernels[1], request), "takes batch operands with channels last only");
  EXPECT_EQ(ops::declines(*kernels[2], request), std::nullopt);
  EXPECT_EQ(ops::library_words(*kernels[0], request), "");
}

}  // namespace

}  // namespace sardonyx::test
