// A bucket moves nothing: its members are written where they belong, in every plan of a step.
#include "passes/buckets.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/support/error.h"
#include "models/lenet.h"
#include "passes/lower.h"
#include "passes/pass_manager.h"
#include "passes/pipelines.h"

namespace sardonyx::passes {
namespace {

// As if the constants were the initializers of a file.
void set_origins(graph::Graph& graph) {
  for (graph::Value* constant : graph.constants()) {
    constant->origin = {graph::Origin::Kind::kInitializer, "", -1, -1, constant->name, ""};
  }
}

std::unique_ptr<Plan> lenet_plan(MicroBatch micro_batch, int64_t block, int64_t first_bucket) {
  auto graph = models::lenet({});
  set_origins(*graph);
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

// A bias that is added, a weight that is scaled and transposed: the first can't be added to in
// place, the gradients of the others are complete only behind all rows. A bucket for each.
std::unique_ptr<Plan> hard_plan(MicroBatch micro_batch, int64_t block, graph::DType wire) {
  auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13], batch: N>
net (float[N,2,6,6] x) => (float[N,3] y)
<float[4,2,3,3] w0 = {...}, float[4,1,1] b0 = {...}, float[3,64] w1 = {...}, float[64,1] g = {...},
 float[3] b1 = {...}> {
  a = Conv(x, w0)
  h = Add(a, b0)
  r = Relu(h)
  f = Flatten(r)
  t = Transpose<perm = [1, 0]>(w1)
  m = Mul(t, g)
  z = MatMul(f, m)
  y = Add(z, b1)
})");
  set_origins(*graph);
  PassContext context;
  const NullTarget target(2);
  context.target = &target;
  context.options.batch = 32;
  context.options.block = block;
  context.options.micro_batch = micro_batch;
  context.options.trainable.exactly = {"w0", "b0", "w1", "g", "b1"};
  context.options.reduce = {
      .replicas = 2, .wire = wire, .bucket_bytes = 1, .first_bucket_bytes = 1};
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
  const auto found = buckets(*plan);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].members.size(), 1u) << "the gradient of fc2.weight, 10 * 128 * 4 bytes";
  EXPECT_EQ(found[1].members.size(), 10u);
  EXPECT_EQ(members_of(*plan).in_place, 11);
}

std::string order_of_sums(const Plan& plan) {
  std::string order;
  for (const Region& region : plan.regions) {
    for (const Step& step : region.steps) {
      if (step.node->op != "AllReduce") continue;
      order += step.node->output(0)->name + step.node->output(0)->type.str() + " ";
    }
  }
  return order;
}

// One replica may run all three in one step, with and without blocks: sums are matched by order.
TEST(Buckets, sums_start_in_the_same_order_in_every_plan) {
  for (const int64_t block : {0, 16}) {
    std::map<bool, std::string> orders;  // by whether gradients travel rounded
    for (const MicroBatch micro_batch : {MicroBatch::kOnly, MicroBatch::kLast, MicroBatch::kNone}) {
      for (const graph::DType wire : {graph::DType::kUndefined, graph::DType::kBFloat16}) {
        const auto plan = hard_plan(micro_batch, block, wire);
        const std::string order = order_of_sums(*plan);
        const bool rounded = wire != graph::DType::kUndefined;
        EXPECT_EQ(std::count(order.begin(), order.end(), '/'), rounded ? 6 : 5) << order;
        if (orders[rounded].empty()) orders[rounded] = order;
        EXPECT_EQ(order, orders[rounded]);
      }
    }
  }
}

std::unique_ptr<Plan> synced_plan(MicroBatch micro_batch, int64_t batch, int64_t block) {
  auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 15], batch: N>
net (float[N,2,6,6] x) => (float[N,3] y)
<float[4,2,3,3] w0 = {...}, float[4] s0 = {...}, float[4] b0 = {...}, float[4] m0 = {...}, float[4] v0 = {...},
 float[5,4,3,3] w1 = {...}, float[5] s1 = {...}, float[5] b1 = {...}, float[5] m1 = {...}, float[5] v1 = {...},
 float[3,20] w2 = {...}> {
  a = Conv(x, w0)
  b = BatchNormalization(a, s0, b0, m0, v0)
  c = Conv(b, w1)
  d = BatchNormalization(c, s1, b1, m1, v1)
  f = Flatten(d)
  y = Gemm<transB = 1>(f, w2)
})");
  set_origins(*graph);
  PassContext context;
  const NullTarget target(2);
  context.target = &target;
  context.options.batch = batch;
  context.options.block = block;
  context.options.micro_batch = micro_batch;
  context.options.sync_statistics = true;
  context.options.reduce = {.replicas = 2, .bucket_bytes = 1, .first_bucket_bytes = 1};
  run_pipeline(*graph, context, training_pipeline());
  StateTable states;
  return lower(std::move(graph), context, states);
}

TEST(Buckets, are_woven_into_the_sums_of_shared_statistics_alike_in_every_plan) {
  const std::string forward = "sync/b/sums/sumdouble[12] sync/d/sums/sumdouble[15] ";
  const std::string whole = forward +
                            "bucket0/sumfloat[60] sync/dbias/sumdouble[13] bucket1/sumfloat[5] "
                            "bucket2/sumfloat[5] bucket3/sumfloat[180] "
                            "sync/dbias.1/sumdouble[12] bucket4/sumfloat[4] bucket5/sumfloat[4] "
                            "bucket6/sumfloat[113] ";
  for (const int64_t block : {0, 16}) {
    for (const int64_t batch : {1, 32, 61}) {
      for (const MicroBatch m :
           {MicroBatch::kOnly, MicroBatch::kLast, MicroBatch::kNone, MicroBatch::kNoneLast}) {
        EXPECT_EQ(order_of_sums(*synced_plan(m, batch, block)), whole);
      }
      for (const MicroBatch m : {MicroBatch::kFirst, MicroBatch::kMiddle, MicroBatch::kNoneFirst,
                                 MicroBatch::kNoneMiddle}) {
        EXPECT_EQ(order_of_sums(*synced_plan(m, batch, block)),
                  forward + "sync/dbias/sumdouble[13] sync/dbias.1/sumdouble[12] ");
      }
    }
  }
}

TEST(Buckets, what_completes_a_bucket_is_told_as_it_runs) {
  const auto whole = buckets(*lenet_plan(MicroBatch::kOnly, 0, 1 << 20));
  EXPECT_EQ(whole[0].region, -1);
  EXPECT_NE(whole[0].ready_after.find("dconv1.bias"), std::string::npos) << whole[0].ready_after;
  const auto blocked = lenet_plan(MicroBatch::kOnly, 16, 1024);
  for (const BucketFacts& bucket : buckets(*blocked)) {
    EXPECT_EQ(bucket.region, 0) << bucket.name;
    EXPECT_EQ(bucket.ready_after, blocked->regions[0].steps.back().node->label());
  }
}

TEST(Buckets, what_completes_a_view_completes_the_bucket) {
  auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13], batch: N>
net (float[N,4] x) => (float[N,3] y)
<float[12] flat = {...}, int64[2] shape = {4, 3}> {
  w = Reshape(flat, shape)
  y = MatMul(x, w)
})");
  set_origins(*graph);
  PassContext context;
  const NullTarget target(1);
  context.target = &target;
  context.options.batch = 32;
  context.options.trainable.exactly = {"flat"};
  context.options.reduce.replicas = 2;
  run_pipeline(*graph, context, training_pipeline());
  StateTable states;
  const auto plan = lower(std::move(graph), context, states);
  const auto found = buckets(*plan);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].ready_after.find("dw"), std::string::npos) << found[0].ready_after;
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
