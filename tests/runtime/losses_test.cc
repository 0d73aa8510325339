// Attached losses: numbers of PyTorch in double (torch.nn.functional, reduction sum), whole and in
// any cut; what is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/onnx_export.h"
#include "graph/parse.h"
#include "runtime/data/labels.h"
#include "runtime/session.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;
using sardonyx::testing::error_of;
using test::doubles;

// The gradient of w is that of the output, summed over the rows.
constexpr const char* kModel = R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[N,3] x) => (float[N,3] y) <float[3] w = {0, 0, 0}> { y = Add(x, w) })";

// Large scores of both signs, zeros, differences of exactly one and below.
const std::vector<double> kScores = {0.5, -2, 1000, -0.25, 3, -1000, 1, 0, 40, -1.5, 0.75, -0.5};

Batch targets() {
  Batch batch;
  batch.inputs.emplace_back("x", doubles({4, 3}, kScores));
  batch.labels = doubles({4, 3}, {0.25, -0.5, 1, 0, 1, 0, 1, 0.5, 0.75, 0.5, 0.75, 1});
  return batch;
}

Batch classes() {
  std::vector<double> x = kScores;
  for (double& value : x) value /= 100;
  Batch batch;
  batch.inputs.emplace_back("x", doubles({4, 3}, x));
  batch.labels = test::ints({4}, {2, 0, 1, 1});
  return batch;
}

struct Expected {
  double loss_sum, weight;
  std::vector<double> dw;  // of the sum
};

passes::LossOptions loss_of(const char* kind, std::vector<double> class_weights = {}) {
  passes::LossOptions loss;
  loss.kind = kind;
  loss.class_weights = std::move(class_weights);
  return loss;
}

void expect_step(passes::LossOptions loss, const Batch& batch, const Expected& expected) {
  for (const bool mean : {true, false}) {
    for (const Cut& cut :
         {Cut{{4}}, Cut{{2, 2}}, Cut{{3, 1}}, Cut{{1, 1, 1, 1}}, Cut{{1}, {2, 1}}, Cut{{}, {4}}}) {
      SessionOptions options;
      options.devices.assign(cut.size(), "cpu");
      options.threads = static_cast<int>(cut.size());
      options.pipeline.dtype = DType::kFloat64;
      options.pipeline.loss = loss;
      options.pipeline.loss.mean = mean;
      options.pipeline.loss.labels = batch.labels.type();
      options.pipeline.trainable.exactly = {"w"};
      Session session(graph::Model::from_bytes(graph::to_onnx_bytes(*graph::parse(kModel))),
                      options);
      const StepResult result = session.train_step(batch, cut, 1);
      EXPECT_NEAR(result.loss_sum, expected.loss_sum, 1e-12 * std::abs(expected.loss_sum))
          << loss.kind;
      EXPECT_NEAR(result.weight, expected.weight, 1e-12) << loss.kind;
      const double divisor = mean ? expected.weight : 1;
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(session.state("w").as_double(i), -expected.dw[i] / divisor, 1e-13)
            << loss.kind << " " << i;
      }
    }
  }
}

TEST(Losses, of_targets_are_those_of_pytorch) {
  expect_step(loss_of("mse"), targets(), {1999554.4375, 12, {-4, 0, 73.5}});
  expect_step(loss_of("l1"), targets(), {2046.25, 12, {-1, -1, 0}});
  expect_step(loss_of("smooth_l1"), targets(), {2041.9375, 12, {-1, -0.5, 0}});
  expect_step(
      loss_of("bce_with_logits"), targets(),
      {14.106801903031592, 12, {0.22376693275241777, 0.5009557480199439, -0.3724593312018546}});
}

TEST(Losses, class_weights_count_in_the_sum_and_in_what_divides_it) {
  const std::vector<double> weights = {0.5, 2, 1};
  expect_step(loss_of("cross_entropy", weights), classes(),
              {5.03543892262351, 5.5, {0.9822959648846766, -2.50031500453143, 1.5180190396467528}});
  expect_step(loss_of("nll", weights), classes(), {-10.01375, 5.5, {-0.5, -4, -1}});
  // Class 0 doesn't count: of the weights 1 + 0.5 + 2 + 2 there is 5.
  passes::LossOptions loss = loss_of("cross_entropy", weights);
  loss.label_smoothing = 0.1;
  loss.ignore_index = 0;
  expect_step(loss, classes(),
              {5.307515753234705, 5, {1.1348511238516688, -2.6062700529535565, 1.471418929101887}});
}

TEST(Losses, class_weights_need_one_number_per_class) {
  EXPECT_NE(error_of([] {
              expect_step(loss_of("nll", {1, 2}), classes(), {0, 0, {0, 0, 0}});
            }).find("--class-weights has 2 numbers, but 'y' of type double[N:4,3] has 3 classes"),
            std::string::npos);
}

TEST(Losses, an_unknown_loss_is_refused_with_those_there_are) {
  EXPECT_NE(error_of([] {
              expect_step(loss_of("huber"), targets(), {0, 0, {0, 0, 0}});
            })
                .find("there is no loss 'huber'; known: cross_entropy, nll, mse, l1, smooth_l1, "
                      "bce_with_logits"),
            std::string::npos);
}

TEST(Losses, probabilities_are_from_0_to_1) {
  check_shares(Tensor::of<float>({3}, {0, 0.5f, 1}), "data");
  EXPECT_EQ(error_of([] {
              check_shares(Tensor::of<float>({2, 1}, {1, -0.5f}), "data");
            }),
            "data: target -0.5 at index [1,0] is no probability: loss bce_with_logits expects 0 to "
            "1");
  EXPECT_NE(error_of([] { check_shares(Tensor::of<float>({1}, {NAN}), "data"); }), "no error");
}

}  // namespace
}  // namespace sardonyx::runtime
