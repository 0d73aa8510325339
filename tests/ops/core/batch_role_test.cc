// Batch roles of operators with several operands: a region cuts only what carries the batch, so an
// operand with rows of its own that lost the symbol (a part of a concatenated batch) forces a
// border.
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "ops/core/infer.h"

namespace sardonyx::ops {
namespace {

const Dim kBatch(8, "N");

struct Operand {
  std::vector<Dim> dims;
  DType dtype = DType::kFloat32;
};

BatchRole role(const std::string& domain, const std::string& op,
               const std::vector<Operand>& operands, graph::Attributes attributes = {},
               int slot = 0) {
  graph::Graph g;
  g.batch_symbol = "N";
  std::vector<Value*> values;
  for (const Operand& operand : operands) {
    values.push_back(
        g.add_input("x" + std::to_string(values.size()), TensorType(operand.dtype, operand.dims)));
  }
  Node* node = g.add_node(domain, op, values, {"y", "z"});
  node->attributes = std::move(attributes);
  infer_node(*node);
  return OpRegistry::get().at(*node).batch(*node, slot);
}

const Operand kRows{{kBatch, 3}}, kLost{{8, 3}};
const graph::Attributes kWindow = {{"kernel_shape", std::vector<int64_t>{2}}};

TEST(BatchRole, a_gradient_is_rows_when_all_its_operands_carry_the_batch) {
  for (const char* op : {"ReluGrad", "SigmoidGrad", "TanhGrad", "LeakyReluGrad", "EluGrad",
                         "ClipGrad", "SoftmaxGrad", "LogSoftmaxGrad"}) {
    EXPECT_EQ(role(kDomain, op, {kRows, kRows}), BatchRole::kRows) << op;
    EXPECT_EQ(role(kDomain, op, {kRows, kLost}), BatchRole::kCouples) << op;
    EXPECT_EQ(role(kDomain, op, {kLost, kRows}), BatchRole::kCouples) << op;
  }
  const Operand mask{{kBatch, 3}, DType::kBool}, lost_mask{{8, 3}, DType::kBool};
  EXPECT_EQ(role(kDomain, "DropoutGrad", {kRows, mask}), BatchRole::kRows);
  EXPECT_EQ(role(kDomain, "DropoutGrad", {kLost, mask}), BatchRole::kCouples);
  EXPECT_EQ(role(kDomain, "DropoutGrad", {kRows, lost_mask}), BatchRole::kCouples);
  const Operand x{{kBatch, 2, 3}}, dy{{kBatch, 2, 2}}, lost_dy{{8, 2, 2}};
  EXPECT_EQ(role(kDomain, "MaxPoolGrad", {x, dy}, kWindow), BatchRole::kRows);
  EXPECT_EQ(role(kDomain, "MaxPoolGrad", {x, lost_dy}, kWindow), BatchRole::kCouples);
}

TEST(BatchRole, bounds_of_one_element_are_the_same_for_all_rows) {
  EXPECT_EQ(role(kDomain, "ClipGrad", {kRows, kRows, {{}}, {{1}}}), BatchRole::kRows);
}

TEST(BatchRole, a_loss_is_a_sum_when_scores_and_labels_carry_the_batch) {
  const Operand labels{{kBatch}, DType::kInt64}, lost_labels{{8}, DType::kInt64};
  for (const char* op : {"CrossEntropyLoss", "NllLoss", "CountCorrect"}) {
    EXPECT_EQ(role(kDomain, op, {kRows, labels}), BatchRole::kSum) << op;
    EXPECT_EQ(role(kDomain, op, {kLost, labels}), BatchRole::kCouples) << op;
    EXPECT_EQ(role(kDomain, op, {kRows, lost_labels}), BatchRole::kCouples) << op;
  }
  const graph::Attributes sum = {{"reduction", std::string("sum")}};
  const graph::Attributes none = {{"reduction", std::string("none")}};
  for (const char* op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    EXPECT_EQ(role("", op, {kRows, labels}, sum), BatchRole::kSum) << op;
    EXPECT_EQ(role("", op, {kRows, labels}, none), BatchRole::kRows) << op;
    EXPECT_EQ(role("", op, {kLost, labels}, sum), BatchRole::kCouples) << op;
    EXPECT_EQ(role("", op, {kRows, lost_labels}, none), BatchRole::kCouples) << op;
  }
}

TEST(BatchRole, a_loss_gradient_is_rows_when_all_its_operands_carry_the_batch) {
  const Operand labels{{kBatch}, DType::kInt64}, lost_labels{{8}, DType::kInt64};
  const Operand scalar{{}}, each{{kBatch}}, lost_each{{8}};
  const graph::Attributes none = {{"reduction", std::string("none")}};
  const graph::Attributes classes = {{"classes", int64_t{3}}};
  EXPECT_EQ(role(kDomain, "CrossEntropyGrad", {scalar, kRows, labels}), BatchRole::kRows);
  EXPECT_EQ(role(kDomain, "CrossEntropyGrad", {scalar, kLost, labels}), BatchRole::kCouples);
  EXPECT_EQ(role(kDomain, "CrossEntropyGrad", {scalar, kRows, lost_labels}), BatchRole::kCouples);
  EXPECT_EQ(role(kDomain, "CrossEntropyGrad", {each, kRows, labels}, none), BatchRole::kRows);
  EXPECT_EQ(role(kDomain, "CrossEntropyGrad", {lost_each, kRows, labels}, none),
            BatchRole::kCouples);
  EXPECT_EQ(role(kDomain, "NllGrad", {scalar, labels}, classes), BatchRole::kRows);
  EXPECT_EQ(role(kDomain, "NllGrad", {scalar, lost_labels}, classes), BatchRole::kCouples);
}

}  // namespace
}  // namespace sardonyx::ops
