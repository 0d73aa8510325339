// The operators between replicas: where members lie, what a communicator is asked for, and what is
// refused. The sum itself is tested in tests/runtime/collectives.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/support/error.h"
#include "ops/core/communicator.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;

OpCase own(const char* op, std::vector<OpInput> inputs, Attributes attributes = {}) {
  return {.domain = ops::kDomain,
          .op = op,
          .inputs = std::move(inputs),
          .attributes = std::move(attributes)};
}

TEST(Bucket, members_lie_at_their_offsets) {
  OpCase c = own("Bucket", {given(doubles({2, 1}, {1, 2})), given(doubles({}, {3}))},
                 {{"offsets", std::vector<int64_t>{0, 2}}});
  c.expected = {doubles({3}, {1, 2, 3})};
  check_op(c);
  c.attributes["offsets"] = std::vector<int64_t>{0, 16};
  EXPECT_EQ(inferred_type(c), "float[17]");
}

// In a bucket full of garbage: who looks for values that aren't finite must find none there.
TEST(Bucket, what_lies_between_members_is_zero) {
  OpCase c = own("Bucket", {given(doubles({2}, {1, 2})), given(doubles({}, {3}))},
                 {{"offsets", std::vector<int64_t>{0, 4}}});
  c.expected = {doubles({5}, {1, 2, 0, 0, 3})};
  check_op(c);
}

TEST(Bucket, bucket_a2_rejects_members_that_overlap) {
  OpCase c = own("Bucket", {given(doubles({2}, {1, 2})), given(doubles({}, {3}))},
                 {{"offsets", std::vector<int64_t>{0, 1}}});
  EXPECT_NE(infer_error(c).find("member 1 begins at 1, member 0 ends at 2"), std::string::npos);
  c.attributes["offsets"] = std::vector<int64_t>{0};
  EXPECT_NE(infer_error(c).find("1 offsets for 2 members"), std::string::npos);
}

TEST(BucketMember, is_a_part_of_the_bucket_in_its_own_shape) {
  OpCase c = own("BucketMember", {given(doubles({5}, {1, 2, 3, 4, 5}))},
                 {{"offset", int64_t{1}}, {"shape", std::vector<int64_t>{2, 2}}});
  EXPECT_EQ(inferred_type(c), "float[2,2]");
  EXPECT_EQ(reference(c)[0].to_doubles(), (std::vector<double>{2, 3, 4, 5}));
  c.attributes["offset"] = int64_t{2};
  EXPECT_NE(infer_error(c).find("elements 2 to 6 of a bucket of type float[5]"), std::string::npos);
}

TEST(AllReduce, alone_the_sum_is_what_there_is) {
  for (const char* op : {"AllReduce", "Await"}) {
    OpCase c = own(op, {parameter(given(doubles({3}, {1, 2, 3})))});
    c.expected = {doubles({3}, {1, 2, 3})};
    check_op(c);
  }
}

TEST(AllReduce, all_reduce_a4_rejects_wire_types_it_does_not_know) {
  const OpCase c =
      own("AllReduce", {given(doubles({3}, {1, 2, 3}))}, {{"wire", std::string("float16")}});
  EXPECT_NE(infer_error(c).find("wire is 'float16'"), std::string::npos);
}

// Notes what it is asked for; the other rank has the same data, so the sum is twice as much.
class Recorder final : public ops::Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  void start_sum(void* data, size_t count, DType dtype, DType wire, ops::ThreadPool&) override {
    asked = fmt::format("{} {} as {}", count, graph::dtype_name(dtype), graph::dtype_name(wire));
    started = static_cast<float*>(data);
    size_ = count;
  }
  void progress(ops::ThreadPool&) override {}
  void wait(const void* data, ops::ThreadPool&) override {
    EXPECT_EQ(data, started);
    for (size_t i = 0; i < size_; ++i) started[i] *= 2;
  }
  std::string asked;
  float* started = nullptr;

 private:
  size_t size_ = 0;
};

void run(const OpCase& c, ops::Communicator& communicator, float* data) {
  graph::Graph graph;
  graph::Value* x = graph.add_input("x", graph::TensorType(DType::kFloat32, {3}));
  graph::Node* node = graph.add_node(ops::kDomain, c.op, {x}, {"y"});
  node->attributes = c.attributes;
  node->output(0)->type = x->type;
  const ops::KernelRequest request = ops::KernelRequest::of(*node);
  ops::SerialPool pool;
  ops::CpuContext context;
  context.inputs = {data};
  context.outputs = {data};
  context.pool = &pool;
  context.communicator = &communicator;
  ops::KernelRegistry::get().find(ops::kDomain, c.op).front()->create(request)->run(context);
}

TEST(AllReduce, the_communicator_gets_the_memory_from_the_start_to_the_wait) {
  std::vector<float> data{1, 2, 3};
  Recorder communicator;
  run(own("AllReduce", {}, {{"wire", std::string("bfloat16")}}), communicator, data.data());
  EXPECT_EQ(communicator.asked, "3 float as bfloat16");
  EXPECT_EQ(data, (std::vector<float>{1, 2, 3}));
  run(own("Await", {}), communicator, data.data());
  EXPECT_EQ(data, (std::vector<float>{2, 4, 6}));
}

}  // namespace
}  // namespace sardonyx::test
