// A weight that the file stores in double and casts to float: trained in float, saved in double.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/onnx_export.h"
#include "graph/onnx_import.h"
#include "graph/parse.h"
#include "runtime/session.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

using graph::Tensor;

constexpr const char* kModel = R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,2] y) <double[2,2] w = {0.1, 0.3, 0.2, 0.4}> {
  t = Transpose<perm = [1, 0]>(w)
  f = Cast<to = 1>(t)
  y = MatMul(x, f)
})";

// One step on rows (1, 0) of class 0, in which only the first column of w has a gradient.
std::vector<double> trained(graph::DType dtype) {
  SessionOptions options;
  options.threads = 1;
  options.pipeline.dtype = dtype;
  Session session(graph::Model::from_bytes(graph::to_onnx_bytes(*graph::parse(kModel))), options);
  Batch batch;
  batch.inputs.emplace_back("", Tensor::of<float>({2, 2}, {1, 0, 1, 0}));
  batch.labels = Tensor::of<int64_t>({2}, {0, 0});
  session.train_step(batch, {{2}}, 0.5);
  const testing::TemporaryFolder folder;
  session.save(folder.path() / "m.onnx");
  const auto saved = graph::import_model(graph::Model::open(folder.path() / "m.onnx"));
  const Tensor& w = saved.graph->find("w")->data;
  EXPECT_EQ(w.dtype(), graph::DType::kFloat64);
  return w.to_doubles();
}

TEST(DoubleWeight, behind_a_cast_is_trained_and_what_training_left_alone_keeps_its_digits) {
  const double step = 0.5 * (1 - 1 / (1 + std::exp(0.1)));  // rate times (1 - p of class 0)
  for (const graph::DType dtype : {graph::DType::kFloat32, graph::DType::kFloat64}) {
    const double room = dtype == graph::DType::kFloat32 ? 1e-7 : 1e-8;
    const std::vector<double> w = trained(dtype);
    EXPECT_NEAR(w[0], 0.1 + step, room);
    EXPECT_EQ(w[1], 0.3);
    EXPECT_NEAR(w[2], 0.2 - step, room);
    EXPECT_EQ(w[3], 0.4);
  }
}

}  // namespace
}  // namespace sardonyx::runtime
