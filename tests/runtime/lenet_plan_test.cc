// LeNet through the whole lowering: regions, lanes and memory give the numbers that the reference
// kernels give.
#include <gtest/gtest.h>

#include <cmath>

#include "models/lenet.h"
#include "passes/pipelines.h"
#include "tests/support/interpret.h"
#include "tests/support/run_plan.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;
using passes::MicroBatch;

passes::PassContext context_of(int64_t batch, DType dtype, const passes::Target& target) {
  passes::PassContext context;
  context.options.batch = batch;
  context.options.dtype = dtype;
  // The first of several micro-batches: gradients end in accumulators, where they can be read.
  context.options.micro_batch = MicroBatch::kFirst;
  context.target = &target;
  return context;
}

std::unique_ptr<graph::Graph> lenet() {
  models::ImageModel options;
  options.init = graph::parse_init("kaiming", 3);
  auto graph = models::lenet(options);
  for (graph::Value* constant : graph->constants()) {
    constant->origin = {graph::Origin::Kind::kInitializer, "", -1, -1, constant->name, ""};
  }
  return graph;
}

std::map<std::string, Tensor> feeds(int64_t batch, DType dtype) {
  auto graph = lenet();
  graph->inputs()[0]->type.dims[0] = graph::Dim(batch);
  graph->inputs()[0]->type.dtype = dtype;
  auto result = tests::random_feeds(*graph, 5);
  std::vector<int64_t> labels(batch);
  for (int64_t i = 0; i < batch; ++i) labels[i] = (i * 7) % 10;
  result["labels"] = Tensor::of<int64_t>({batch}, labels);
  return result;
}

tests::PlanRun run(int64_t batch, DType dtype, int threads, int64_t block, int64_t lanes) {
  const passes::NullTarget target(threads);
  passes::PassContext context = context_of(batch, dtype, target);
  context.options.block = block;
  context.options.lanes = lanes;
  auto graph = lenet();
  passes::run_pipeline(*graph, context, passes::training_pipeline());
  return tests::run_plan(std::move(graph), context, threads, feeds(batch, dtype));
}

std::map<std::string, Tensor> oracle(int64_t batch, DType dtype) {
  const passes::NullTarget target;
  passes::PassContext context = context_of(batch, dtype, target);
  auto graph = lenet();
  passes::run_pipeline(*graph, context, passes::training_pipeline());
  return tests::interpret(*graph, feeds(batch, dtype)).states;
}

// The accumulators: what a step leaves behind for the next micro-batch.
std::map<std::string, Tensor> accumulators(const tests::PlanRun& run) {
  std::map<std::string, Tensor> result;
  for (const auto& [name, value] : run.states) {
    if (name.starts_with("acc/")) result[name] = value;
  }
  return result;
}

void expect_equal(const tests::PlanRun& run, const std::map<std::string, Tensor>& want,
                  double tolerance) {
  const auto got = accumulators(run);
  ASSERT_EQ(got.size(), 11u);  // 8 gradients, loss sum, weight, correct rows
  for (const auto& [name, value] : got) {
    const Tensor& expected = want.at(name);
    double largest = 0;
    for (const double x : expected.to_doubles()) largest = std::max(largest, std::abs(x));
    EXPECT_GT(largest, 0.0) << name;
    for (int64_t i = 0; i < value.numel(); ++i) {
      ASSERT_NEAR(value.as_double(i), expected.as_double(i), tolerance * largest)
          << name << "[" << i << "]";
    }
  }
}

TEST(LenetPlan, blocks_of_16_on_two_threads_equal_one_block_in_float64) {
  const auto want = oracle(61, DType::kFloat64);
  const tests::PlanRun whole = run(61, DType::kFloat64, 1, 0, 0);
  const tests::PlanRun blocks = run(61, DType::kFloat64, 2, 16, -1);
  EXPECT_EQ(whole.plan->regions.size(), 1u);
  EXPECT_FALSE(whole.plan->regions[0].blocked());
  ASSERT_TRUE(blocks.plan->regions[0].blocked());
  EXPECT_EQ(blocks.plan->regions[0].blocks, 4);
  EXPECT_EQ(blocks.plan->regions[0].tail_rows, 13);
  expect_equal(whole, want, 1e-12);
  expect_equal(blocks, want, 1e-12);
}

TEST(LenetPlan, the_whole_training_step_is_one_blocked_region_in_lanes) {
  const tests::PlanRun blocks = run(64, DType::kFloat32, 2, 16, -1);
  ASSERT_EQ(blocks.plan->regions.size(), 1u);
  int lanes = 0;
  for (const passes::Step& step : blocks.plan->regions[0].steps) {
    lanes += step.def->layouts == ops::Layouts::kLanes ? 1 : 0;
  }
  EXPECT_GE(lanes, 12);  // conv, pool and gemm, forward and backward
}

TEST(LenetPlan, float32_blocks_agree_with_the_reference) {
  expect_equal(run(61, DType::kFloat32, 2, 16, -1), oracle(61, DType::kFloat32), 2e-5);
  expect_equal(run(61, DType::kFloat32, 2, 0, 0), oracle(61, DType::kFloat32), 2e-5);
}

TEST(LenetPlan, the_same_run_gives_the_same_bits) {
  for (const int threads : {1, 2, 3}) {
    const tests::PlanRun a = run(61, DType::kFloat32, threads, 16, -1);
    const tests::PlanRun b = run(61, DType::kFloat32, threads, 16, -1);
    for (const auto& [name, value] : accumulators(a)) {
      EXPECT_TRUE(value.identical(b.states.at(name))) << name << ", " << threads << " threads";
    }
  }
}

TEST(LenetPlan, blocked_memory_is_a_fraction_of_the_whole_batch) {
  const tests::PlanRun whole = run(256, DType::kFloat32, 2, 0, 0);
  const tests::PlanRun blocks = run(256, DType::kFloat32, 2, 16, -1);
  EXPECT_LT(blocks.plan->arena_bytes * 2, whole.plan->arena_bytes);
}

}  // namespace
}  // namespace sardonyx::runtime
