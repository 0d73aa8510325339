// A network that turns its own input: AffineGrid and GridSample in training, against PyTorch in
// double. The size of the grid is that of the batch, whatever that is cut into.
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/onnx_export.h"
#include "runtime/session.h"
#include "tests/ops/wave.h"

namespace sardonyx::runtime {
namespace {

using graph::Tensor;
using graph::Value;
using test::wave;

Tensor scaled(Tensor tensor, double factor) {
  for (double& number : tensor.mutable_data<double>()) number *= factor;
  return tensor;
}

std::unique_ptr<graph::Graph> transformer() {
  auto g = std::make_unique<graph::Graph>();
  g->opsets[""] = 20;
  graph::Builder b(*g);
  const graph::Attributes transposed = {{"transB", int64_t{1}}};
  Value* x = g->add_input(
      "x", graph::TensorType(graph::DType::kFloat64, {graph::Dim::named("N"), 1, 4, 4}));
  Value* w = g->add_constant("place.w", scaled(wave({6, 16}, 1), 0.1));
  Value* bias = g->add_constant("place.b", test::doubles({6}, {.9, .05, .02, -.03, .95, .01}));
  Value* numbers = b.op("Gemm", {b.op("Flatten", {x}), w, bias}, transposed);
  Value* shape = g->add_constant("shape", test::ints({3}, {-1, 2, 3}));
  Value* theta = b.op("Reshape", {numbers, shape});
  Value* grid = b.op("AffineGrid", {theta, b.op("Shape", {x})});
  Value* turned = b.op("GridSample", {x, grid}, {{"padding_mode", std::string("border")}});
  Value* class_w = g->add_constant("class.w", wave({3, 16}, 2));
  Value* class_b = g->add_constant("class.b", test::doubles({3}, {0, 0, 0}));
  g->add_output(b.op("Gemm", {b.op("Flatten", {turned}), class_w, class_b}, transposed, "y"));
  return g;
}

TEST(SpatialTransformer, takes_pytorchs_steps_however_the_batch_is_cut) {
  for (const std::vector<int64_t>& cut : {std::vector<int64_t>{5}, {2, 3}, {1, 1, 3}}) {
    SessionOptions options;
    options.threads = 2;
    options.pipeline.dtype = graph::DType::kFloat64;
    Session session(graph::Model::from_bytes(graph::to_onnx_bytes(*transformer())), options);
    Batch batch;
    batch.inputs.emplace_back("x", wave({5, 1, 4, 4}, 3));
    batch.labels = test::ints({5}, {0, 1, 2, 1, 0});
    for (const double loss : {2.523258258, 1.256470798, 0.766766917, 0.641057178}) {
      EXPECT_NEAR(session.train_step(batch, {cut}, 0.05).loss, loss, 1e-8);
    }
    const auto fault = test::difference(
        session.state("place.b"),
        test::doubles({6}, {0.8664089179442362, 0.008147318228982047, 0.15924284695842192,
                            0.024389628932505382, 0.9726059209840655, -0.0246902468314543}),
        {1e-9, 1e-9});
    EXPECT_FALSE(fault) << *fault;
  }
}

}  // namespace
}  // namespace sardonyx::runtime
