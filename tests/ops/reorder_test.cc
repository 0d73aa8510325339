// Reorder: bytes in the right place, padding lanes untouched or never read. Relabel: only where the
// bytes stay.
#include <gtest/gtest.h>

#include "ops/core/infer.h"
#include "ops/core/op_builder.h"
#include "tests/support/kernel_run.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using ops::Value;

struct Reorder {
  Reorder(graph::TensorType type, const char* to, const char* op = "Reorder") {
    ops::OpBuilder b(graph);
    node = b.own(op, {graph.add_input("x", std::move(type))}, {{"to", std::string(to)}})->producer;
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

graph::TensorType with_channels_last(graph::TensorType type) {
  type.layout = graph::Layout::channels_last(type.rank());
  return type;
}

TEST(Reorder, puts_channels_last_and_back) {
  const Reorder last(graph::TensorType(DType::kInt32, {2, 3, 2}), "channels_last");
  const Reorder plain(with_channels_last(last.node->input(0)->type), "plain");
  EXPECT_EQ(last.node->output(0)->type.str(), "int32[2,3,2]@021");
  std::vector<int32_t> x(12), y(12), back(12);
  for (int i = 0; i < 12; ++i) x[i] = i;
  ops::SerialPool pool;
  ops::CpuContext context;
  context.pool = &pool;
  context.inputs = {x.data()};
  context.outputs = {y.data()};
  last.kernel().create(last.request)->run(context);
  EXPECT_EQ(y, (std::vector<int32_t>{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}));
  context.inputs = {y.data()};
  context.outputs = {back.data()};
  plain.kernel().create(plain.request)->run(context);
  EXPECT_EQ(back, x);
}

TEST(Reorder, refuses_to_go_from_lanes_to_channels_last) {
  const Reorder r(in_lanes(graph::TensorType(DType::kFloat32, {16, 2, 2})), "channels_last");
  EXPECT_EQ(ops::declines(r.kernel(), r.request),
            "knows plain against lanes of 16 images or channels last only");
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

TEST(Reorder, reorder_r2_rejects_too_few_axes) {
  OpCase c = {.domain = ops::kDomain,
              .op = "Reorder",
              .inputs = {random({})},
              .attributes = {{"to", std::string("n16")}}};
  EXPECT_NE(infer_error(c).find("R2: x is a scalar"), std::string::npos) << infer_error(c);
  c.inputs = {random({2, 3})};
  c.attributes["to"] = std::string("channels_last");
  EXPECT_NE(infer_error(c).find("R2: x has no axes behind"), std::string::npos) << infer_error(c);
}

graph::TensorType type_of_gradient(Reorder& r) {
  ops::OpBuilder b(r.graph);
  Value* dy = r.graph.add_input("dy", r.node->output(0)->type);
  ops::GradientContext context(*r.node, b, {dy}, {true});
  ops::OpRegistry::get().find(*r.node)->gradient.rule(context);
  return context.result()[0]->type;
}

TEST(Reorder, gradient_goes_back) {
  const graph::TensorType type(DType::kFloat32, {graph::Dim(3, "N"), 2, 1});
  for (const char* to : {"n16", "channels_last"}) {
    Reorder r(type, to), back(r.node->output(0)->type, "plain");
    EXPECT_EQ(type_of_gradient(r), type);
    EXPECT_EQ(type_of_gradient(back), r.node->output(0)->type);
  }
}

TEST(Relabel, keeps_the_bytes_of_one_channel_or_one_cell) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4, 1, 3, 5}, {4, 7, 1, 1}}) {
    Reorder r(graph::TensorType(DType::kFloat32, graph::to_dims(shape)), "channels_last",
              "Relabel");
    EXPECT_EQ(r.node->output(0)->type.layout.str(), "@0231");
    EXPECT_EQ(type_of_gradient(r), r.node->input(0)->type);
  }
}

TEST(Relabel, relabel_r3_rejects_what_would_move) {
  const auto error = [](std::vector<int64_t> shape, const char* to) {
    const std::string text = infer_error({.domain = ops::kDomain,
                                          .op = "Relabel",
                                          .inputs = {random(std::move(shape))},
                                          .attributes = {{"to", std::string(to)}}});
    return text.substr(0, text.find('\n'));
  };
  const std::string reason = "its bytes mean something else in another layout";
  EXPECT_EQ(error({2, 2, 3}, "channels_last"), "R3: x is float[2,2,3]: " + reason);
  EXPECT_EQ(error({2, 1, 3}, "n16"), "R3: x is float[2,1,3]: " + reason);
}

}  // namespace
}  // namespace sardonyx::test
