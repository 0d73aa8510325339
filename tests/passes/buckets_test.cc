// A bucket moves nothing: its members are written where they belong, in every plan of a step.
#include "passes/buckets.h"

#include <gtest/gtest.h>

#include "graph/support/error.h"
#include "models/lenet.h"
#include "passes/lower.h"
#include "passes/pass_manager.h"
#include "passes/pipelines.h"

namespace sardonyx::passes {
namespace {

std::unique_ptr<Plan> lenet_plan(MicroBatch micro_batch, int64_t block, int64_t first_bucket) {
  auto graph = models::lenet({});
  for (graph::Value* constant : graph->constants()) {
    constant->origin = {graph::Origin::Kind::kInitializer, "", -1, -1, constant->name, ""};
  }
  const NullTarget target(2);
  PassContext context;
  context.target = &target;
  context.options.batch = 32;
  context.options.block = block;
  context.options.micro_batch = micro_batch;
  context.options.reduce.replicas = 2;
  context.options.reduce.first_bucket_bytes = first_bucket;
  run_pipeline(*graph, context, training_pipeline());
  StateTable states;
  return lower(std::move(graph), context, states);
}

struct Members {
  int in_place = 0, moved = 0, buckets = 0;
  std::string layout;  // member and offset, to compare plans
};

Members members_of(const Plan& plan) {
  Members found;
  for (const Region& region : plan.regions) {
    for (const Step& step : region.steps) {
      if (step.node->op != "Bucket") continue;
      ++found.buckets;
      const std::vector<int64_t> offsets = step.node->get_ints("offsets", {});
      for (size_t i = 0; i < offsets.size(); ++i) {
        const Location& member = step.inputs[i];
        const Location& bucket = step.outputs[0];
        const bool there =
            member.space == bucket.space &&
            member.offset == bucket.offset + static_cast<size_t>(offsets[i]) * sizeof(float);
        ++(there ? found.in_place : found.moved);
        found.layout += fmt::format("{}{} ", offsets[i], step.node->input(i)->type.str());
      }
      found.layout += "\n";
    }
  }
  return found;
}

// 8 gradients, the loss sum, its weight and the count of correct rows.
TEST(Buckets, members_are_written_in_place_in_every_plan) {
  std::string layout;
  for (const int64_t block : {0, 16}) {
    for (const MicroBatch micro_batch : {MicroBatch::kOnly, MicroBatch::kLast, MicroBatch::kNone}) {
      const Members members = members_of(*lenet_plan(micro_batch, block, 1 << 20));
      EXPECT_EQ(members.in_place, 11) << "block " << block;
      EXPECT_EQ(members.moved, 0) << "block " << block;
      if (layout.empty()) layout = members.layout;
      EXPECT_EQ(members.layout, layout) << "replicas that run different plans meet in one bucket";
    }
  }
}

TEST(Buckets, a_full_bucket_is_followed_by_the_next) {
  const auto plan = lenet_plan(MicroBatch::kOnly, 0, 1024);
  const auto found = buckets(*plan->graph);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].members.size(), 1u) << "the gradient of fc2.weight, 10 * 128 * 4 bytes";
  EXPECT_EQ(found[1].members.size(), 10u);
  EXPECT_EQ(members_of(*plan).in_place, 11);
}

TEST(Buckets, a_replica_without_samples_runs_no_forward) {
  const auto plan = lenet_plan(MicroBatch::kNone, 0, 1 << 20);
  for (const graph::Node& node : plan->graph->nodes()) {
    EXPECT_NE(node.op, "Conv");
    EXPECT_NE(node.op, "SoftmaxCrossEntropyLoss");
  }
  EXPECT_EQ(plan->graph->bindings().size(), 8u) << "it updates every parameter";
}

}  // namespace
}  // namespace sardonyx::passes
