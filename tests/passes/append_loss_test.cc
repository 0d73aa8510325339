// Targets of the mean squared error in the forms that data come in.
#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/support/error.h"
#include "passes/pass_manager.h"

namespace sardonyx::passes {
namespace {

using graph::Dim;
using graph::DType;
using graph::TensorType;

std::unique_ptr<graph::Graph> with_mse(const char* text, const TensorType& labels) {
  auto graph = graph::parse(text);
  const NullTarget target;
  PassContext context;
  context.options.batch = 4;
  context.options.loss.kind = "mse";
  context.options.loss.labels = labels;
  context.target = &target;
  run_pipeline(*graph, context, {{"bind_batch", ""}, {"infer_shapes", ""}, {"append_loss", ""}});
  return graph;
}

constexpr const char* kColumn = R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[N,1] x) => (float[N,1] y) { y = Relu(x) })";
constexpr const char* kThree = R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[N,3] x) => (float[N,3] y) { y = Relu(x) })";

TEST(AppendMse, targets_of_an_unbound_batch_fit_with_and_without_the_column) {
  for (const TensorType& labels : {TensorType(DType::kFloat32, {Dim::named("N")}),
                                   TensorType(DType::kFloat32, {Dim::named("N"), Dim(1)}),
                                   TensorType(DType::kFloat32, {Dim(4)}), TensorType()}) {
    const auto graph = with_mse(kColumn, labels);
    ASSERT_EQ(graph->outputs().size(), 2u);
    EXPECT_EQ(graph->outputs()[0]->name, "loss_sum");
    EXPECT_EQ(graph->outputs()[1]->data.as_double(0), 4.0);  // 4 rows, 1 value each
    EXPECT_EQ(graph->find("labels")->type.shape()[0], 4);
  }
}

TEST(AppendMse, weight_counts_every_value_of_a_row) {
  const TensorType labels(DType::kFloat32, {Dim::named("N"), Dim(3)});
  EXPECT_EQ(with_mse(kThree, labels)->outputs()[1]->data.as_double(0), 12.0);
}

TEST(AppendMse, targets_of_another_width_are_refused_with_the_outputs) {
  try {
    with_mse(kThree, TensorType(DType::kFloat32, {Dim::named("N"), Dim(2)}));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("y  float[N:4,3]"), std::string::npos) << error.what();
  }
}

TEST(AppendMse, an_output_of_unknown_shape_is_refused) {
  try {
    with_mse(R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[N,A] x) => (float[N,A] y) { y = Relu(x) })",
             TensorType());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the loss can't read 'y' of type float[N:4,A]"),
              std::string::npos)
        << error.what();
  }
}

TEST(AppendLoss, labels_with_an_entry_per_class_look_one_hot) {
  const auto refusal = [](std::vector<Dim> labels) -> std::string {
    auto graph = graph::parse(kThree);
    const NullTarget target;
    PassContext context;
    context.options.batch = 4;
    context.options.loss.labels = TensorType(DType::kInt64, std::move(labels));
    context.target = &target;
    try {
      run_pipeline(*graph, context,
                   {{"bind_batch", ""}, {"infer_shapes", ""}, {"append_loss", ""}});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({Dim::named("N"), Dim(3)}),
            "labels have shape [N,3], but loss cross_entropy on 'y' expects class indices: they "
            "look one-hot, with 3 classes along axis 1; give the indices, as "
            "labels.argmax(axis=1) does");
  EXPECT_EQ(refusal({Dim::named("N"), Dim(2)}),
            "none of the model's outputs fits the labels [N,2] of loss cross_entropy: it takes the "
            "shape of an output without the axis of its classes, [N] for scores [N,classes]; for "
            "values give --loss mse; the outputs are:\n  y  float[N:4,3]");
}

}  // namespace
}  // namespace sardonyx::passes
