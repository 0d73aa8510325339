// Reorder: bytes in the right place, padding lanes untouched or never read.
#include <gtest/gtest.h>

#include "ops/core/infer.h"
#include "ops/core/op_builder.h"
#include "tests/support/kernel_run.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using ops::Value;

struct Reorder {
  Reorder(graph::TensorType type, const char* to) {
    ops::OpBuilder b(graph);
    node = b.own("Reorder", {graph.add_input("x", std::move(type))}, {{"to", std::string(to)}})
               ->producer;
    request = ops::KernelRequest::of(*node);
  }
  const ops::KernelDef& kernel() const {
    return *ops::KernelRegistry::get().find(ops::kDomain, "Reorder").at(0);
  }
  graph::Graph graph;
  graph::Node* node;
  ops::KernelRequest request;
};

graph::TensorType in_lanes(graph::TensorType type) {
  type.layout = graph::Layout::lanes(16);
  return type;
}

// 17 images of two values through the kernel on raw buffers.
TEST(Reorder, puts_16_images_side_by_side) {
  Reorder r(graph::TensorType(DType::kInt32, {17, 2}), "n16");
  EXPECT_EQ(r.node->output(0)->type.str(), "int32[17,2]@n16");
  std::vector<int32_t> x(34), y(64, -7);
  for (int i = 0; i < 34; ++i) x[i] = i;
  ops::SerialPool pool;
  ops::CpuContext context;
  context.pool = &pool;
  context.inputs = {x.data()};
  context.outputs = {y.data()};
  r.kernel().create(r.request)->run(context);
  for (int n = 0; n < 16; ++n) {
    EXPECT_EQ(y[n], 2 * n);
    EXPECT_EQ(y[16 + n], 2 * n + 1);
    EXPECT_EQ(y[32 + n], n == 0 ? 32 : -7);
    EXPECT_EQ(y[48 + n], n == 0 ? 33 : -7);
  }
}

TEST(Reorder, clears_the_padding_where_the_layout_promises_zeros) {
  Reorder r(graph::TensorType(DType::kInt32, {3}), "n16");
  r.request.out[0].layout.padding = graph::Layout::Padding::kZero;
  const std::vector<int32_t> x{1, 2, 3};
  std::vector<int32_t> y(16, -7);
  ops::SerialPool pool;
  ops::CpuContext context;
  context.pool = &pool;
  context.inputs = {x.data()};
  context.outputs = {y.data()};
  r.kernel().create(r.request)->run(context);
  std::vector<int32_t> want(16, 0);
  for (int i = 0; i < 3; ++i) want[i] = i + 1;
  EXPECT_EQ(y, want);
}

TEST(Reorder, keeps_every_value_in_every_type) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kInt32,
                            DType::kUint8, DType::kInt16, DType::kBool}) {
    for (const int64_t rows : {0, 1, 16, 19, 61}) {
      const Tensor x = random_tensor(dtype, {rows, 3, 7}, 0, dtype == DType::kBool ? 1 : 100, 5);
      for (const int threads : {1, 3}) {
        const Reorder in(x.type(), "n16"), out(in_lanes(x.type()), "plain");
        EXPECT_EQ(out.node->output(0)->type.layout, graph::Layout());
        for (const Reorder* r : {&in, &out}) {
          const RunResult got = run_kernel(r->kernel(), r->request, {x}, {.threads = threads});
          EXPECT_EQ(got.faults, std::vector<std::string>());
          EXPECT_TRUE(got.outputs[0].identical(x)) << r->node->output(0)->type.str();
        }
      }
    }
  }
}

TEST(Reorder, to_its_own_layout_copies) {
  const Tensor x = random_tensor(DType::kFloat32, {5, 3});
  const Reorder plain(x.type(), "plain"), lanes(in_lanes(x.type()), "n16");
  for (const Reorder* r : {&plain, &lanes}) {
    EXPECT_TRUE(run_kernel(r->kernel(), r->request, {x}, {}).outputs[0].identical(x));
  }
}

TEST(Reorder, reorder_r1_rejects_unknown_layouts) {
  const OpCase c = {.domain = ops::kDomain,
                    .op = "Reorder",
                    .inputs = {random({2, 2})},
                    .attributes = {{"to", std::string("c16")}}};
  EXPECT_NE(infer_error(c).find("R1: to is 'c16'"), std::string::npos) << infer_error(c);
}

TEST(Reorder, reorder_r2_rejects_scalars) {
  const OpCase c = {.domain = ops::kDomain,
                    .op = "Reorder",
                    .inputs = {random({})},
                    .attributes = {{"to", std::string("n16")}}};
  EXPECT_NE(infer_error(c).find("R2"), std::string::npos) << infer_error(c);
}

TEST(Reorder, gradient_goes_back) {
  for (const char* to : {"n16", "plain"}) {
    graph::TensorType type(DType::kFloat32, {graph::Dim(3, "N"), 2});
    if (std::string(to) == "plain") type = in_lanes(type);
    Reorder r(type, to);
    ops::OpBuilder b(r.graph);
    Value* dy = r.graph.add_input("dy", r.node->output(0)->type);
    ops::GradientContext context(*r.node, b, {dy}, {true});
    ops::OpRegistry::get().find(*r.node)->gradient.rule(context);
    EXPECT_EQ(context.result()[0]->type, type);
  }
}

}  // namespace
}  // namespace sardonyx::test
