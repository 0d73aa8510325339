// The loss operators. Rows {1, 2, 3} and {0, 0, ln 2} with labels 2 and 0 have negative
// log-probabilities 0.40760596444438 and ln 4.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using ops::BatchRole;

constexpr double kFirst = 0.40760596444438013, kSecond = 1.3862943611198906;
const double kLn2 = std::log(2.0);
const Tensor kScores = doubles({2, 3}, {1, 2, 3, 0, 0, kLn2});
const Tensor kLabels = ints({2}, {2, 0});
const Tensor kWeights = doubles({3}, {0.5, 1, 2});
const Tensor kLogProb =
    doubles({2, 3}, {-2.40760596444438, -1.40760596444438, -kFirst, -kSecond, -kSecond, -kLn2});
const std::vector<std::string> kKernels = {"cross_entropy.ref", "cross_entropy.vector"};

OpCase standard(std::string reduction, std::vector<OpInput> inputs, Attributes attributes = {}) {
  attributes["reduction"] = reduction;
  return {.claim = reduction,
          .op = "SoftmaxCrossEntropyLoss",
          .inputs = std::move(inputs),
          .attributes = std::move(attributes),
          .num_outputs = 2,
          .must_run = kKernels};
}

OpCase own(std::vector<OpInput> inputs, Attributes attributes = {}) {
  return {.claim = "own",
          .domain = ops::kDomain,
          .op = "CrossEntropyLoss",
          .inputs = std::move(inputs),
          .attributes = std::move(attributes),
          .num_outputs = 3,
          .batch = true,
          .must_run = kKernels};
}

// Labels and weights of a test case keep their place: only floats follow the run.
OpInput labels(Tensor value) { return given(std::move(value)); }

OpCase expecting(OpCase c, std::vector<Tensor> outputs) {
  c.expected = std::move(outputs);
  return c;
}

TEST(CrossEntropy, reductions_of_the_standard_operator) {
  const std::vector<OpInput> in{given(kScores), labels(kLabels)};
  check_op(expecting(standard("none", in), {doubles({2}, {kFirst, kSecond}), kLogProb}));
  check_op(expecting(standard("sum", in), {doubles({}, {kFirst + kSecond}), kLogProb}));
  check_op(expecting(standard("mean", in), {doubles({}, {(kFirst + kSecond) / 2}), kLogProb}));
}

TEST(CrossEntropy, class_weights_scale_the_terms_and_divide_the_mean) {
  const std::vector<OpInput> in{given(kScores), labels(kLabels), parameter(given(kWeights))};
  check_op(expecting(standard("none", in), {doubles({2}, {2 * kFirst, 0.5 * kSecond})}));
  check_op(expecting(standard("sum", in), {doubles({}, {1.5083591094487057})}));
  check_op(expecting(standard("mean", in), {doubles({}, {1.5083591094487057 / 2.5})}));
}

TEST(CrossEntropy, ignored_labels_count_nothing) {
  for (int64_t ignore : {-1, 1, 7}) {
    const std::vector<OpInput> in{given(kScores), labels(ints({2}, {ignore, 0}))};
    const Attributes attributes{{"ignore_index", ignore}};
    check_op(expecting(standard("none", in, attributes), {doubles({2}, {0, kSecond})}));
    check_op(expecting(standard("mean", in, attributes), {doubles({}, {kSecond})}));
  }
}

TEST(CrossEntropy, mean_over_nothing_is_zero_with_zero_gradient) {
  OpCase c =
      standard("mean", {given(kScores), labels(ints({2}, {9, 9}))}, {{"ignore_index", int64_t{9}}});
  c.seeds = std::vector<int>{0};
  c.expected_gradients = {doubles({2, 3}, {0, 0, 0, 0, 0, 0})};
  c.zero_gradients = {0};
  check_op(expecting(c, {doubles({}, {0}), kLogProb}));
}

TEST(CrossEntropy, ignored_rows_have_zero_gradient_even_where_scores_are_not_finite) {
  OpCase c =
      standard("mean", {given(doubles({2, 2}, {std::nan(""), 1, 0, 0})), labels(ints({2}, {9, 0}))},
               {{"ignore_index", int64_t{9}}});
  c.seeds = std::vector<int>{0};
  c.dy = {doubles({}, {1})};
  c.numeric = Numeric::kSkip;
  c.expected_gradients = {doubles({2, 2}, {0, 0, -0.5, 0.5})};
  check_op(expecting(c, {doubles({}, {kLn2})}));
}

TEST(CrossEntropy, gradient_is_probability_minus_one_at_the_label) {
  OpCase c = standard("sum", {given(kScores), labels(kLabels)});
  c.seeds = std::vector<int>{0};
  c.dy = {doubles({}, {2})};
  c.expected_gradients = {
      doubles({2, 3}, {0.1800611463407609, 0.4894569421095953, -0.6695180884503564, -1.5, 0.5, 1})};
  check_op(c);
}

TEST(CrossEntropy, gradient_reaches_scores_through_log_prob_too) {
  OpCase c = standard("mean", {random({3, 4}), labels(ints({3}, {1, 3, 0}))});
  c.seeds = std::vector<int>{1};
  check_op(c);
  c.seeds = std::vector<int>{0, 1};
  check_op(c);
}

TEST(CrossEntropy, gradient_adds_the_log_prob_output_where_it_is_missing) {
  OpCase c = standard("mean", {random({3, 4}), labels(ints({3}, {1, 3, 0}))});
  c.num_outputs = 1;
  check_op(c);
}

TEST(CrossEntropy, spatial_positions_are_rows_of_their_own) {
  Tensor where = random_tensor(DType::kInt64, {2, 5, 14}, 0, 2, 3);
  for (const char* reduction : {"none", "sum", "mean"}) {
    OpCase c =
        standard(reduction, {random({2, 3, 5, 14}), labels(where), parameter(random({3}, 0.5, 2))},
                 {{"ignore_index", int64_t{1}}});
    c.seeds = std::vector<int>{0};
    check_op(c);
  }
  // Classes lie apart by the number of positions: x[n, c, i].
  OpCase c =
      standard("none", {given(doubles({1, 2, 2}, {0, kLn2, 0, 0})), labels(ints({1, 2}, {0, 0}))});
  check_op(expecting(c, {doubles({1, 2}, {kLn2, std::log(1.5)})}));
}

TEST(CrossEntropy, huge_scores_stay_finite) {
  OpCase c =
      standard("none", {given(doubles({2, 2}, {1e4, -1e4, 1e4, -1e4})), labels(ints({2}, {0, 1}))});
  c.numeric = Numeric::kSkip;
  c.differentiate = std::vector<int>{};
  check_op(expecting(c, {doubles({2}, {0, 2e4})}));
}

TEST(CrossEntropy, one_class_has_no_loss_and_no_gradient) {
  OpCase c = standard("mean", {given(doubles({2, 1}, {3, -5})), labels(ints({2}, {0, 0}))});
  c.zero_gradients = {0};
  check_op(expecting(c, {doubles({}, {0}), doubles({2, 1}, {0, 0})}));
}

TEST(CrossEntropy, labels_of_other_integer_types) {
  for (DType dtype : {DType::kInt32, DType::kUint8}) {
    OpCase c = standard("sum", {given(kScores), labels(kLabels.cast(dtype))});
    check_op(expecting(c, {doubles({}, {kFirst + kSecond})}));
  }
}

TEST(CrossEntropy, own_loss_returns_sum_and_weight) {
  check_op(expecting(own({given(kScores), labels(kLabels)}),
                     {doubles({}, {kFirst + kSecond}), doubles({}, {2}), kLogProb}));
  check_op(expecting(own({given(kScores), labels(kLabels), parameter(given(kWeights))}),
                     {doubles({}, {1.5083591094487057}), doubles({}, {2.5}), kLogProb}));
  check_op(expecting(
      own({given(kScores), labels(ints({2}, {2, -100}))}, {{"ignore_index", int64_t{-100}}}),
      {doubles({}, {kFirst}), doubles({}, {1}), kLogProb}));
}

TEST(CrossEntropy, label_smoothing_spreads_over_all_classes_as_in_pytorch) {
  const Attributes smoothing{{"label_smoothing", 0.1}};
  check_op(expecting(own({given(kScores), labels(kLabels)}, smoothing),
                     {doubles({}, {1.870795419545606}), doubles({}, {2})}));
  check_op(expecting(own({given(kScores), labels(kLabels), parameter(given(kWeights))}, smoothing),
                     {doubles({}, {1.5872684244490034}), doubles({}, {2.5})}));
}

TEST(CrossEntropy, own_loss_of_many_rows_is_cut_between_threads) {
  OpCase c = own({random({700, 5}), labels(random_tensor(DType::kInt64, {700}, 0, 4, 9))});
  c.differentiate = std::vector<int>{};
  c.float_tolerance = {1e-5, 1e-5};
  check_op(c);
}

TEST(CrossEntropy, nll_takes_log_probabilities_as_they_are) {
  OpCase c{.claim = "nll", .op = "NegativeLogLikelihoodLoss"};
  c.inputs = {given(kLogProb), labels(kLabels)};
  for (auto [reduction, value] :
       {std::pair<const char*, Tensor>{"none", doubles({2}, {kFirst, kSecond})},
        {"sum", doubles({}, {kFirst + kSecond})},
        {"mean", doubles({}, {(kFirst + kSecond) / 2})}}) {
    c.attributes = {{"reduction", std::string(reduction)}};
    check_op(expecting(c, {value}));
  }
  c.inputs = {random({2, 3, 4}), labels(random_tensor(DType::kInt64, {2, 4}, 0, 2, 5)),
              parameter(random({3}, 0.5, 2))};
  c.attributes = {{"ignore_index", int64_t{2}}};
  check_op(c);
}

// Rank, reduction, class weights, labels that don't count, float and double: forward against the
// plain kernel, gradients of the loss and of the log-probabilities against differences.
TEST(CrossEntropy, every_form_of_the_standard_operators_has_its_gradient) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{3, 4}, {2, 4, 3}, {2, 4, 2, 3}, {2, 4, 1, 2, 2}, {1, 4, 2, 1, 1, 2}}) {
    std::vector<int64_t> positions = shape;
    positions.erase(positions.begin() + 1);
    for (const char* reduction : {"none", "sum", "mean"}) {
      for (const bool weighted : {false, true}) {
        for (const bool ignores : {false, true}) {
          std::vector<OpInput> in{random(shape),
                                  labels(random_tensor(DType::kInt64, positions, 0, 3, 7))};
          if (weighted) in.push_back(parameter(random({4}, 0.5, 2)));
          Attributes attributes;
          if (ignores) attributes["ignore_index"] = int64_t{2};
          OpCase c = standard(reduction, in, attributes);
          check_op(c);
          c.op = "NegativeLogLikelihoodLoss";
          c.num_outputs = 1;
          c.must_run = {};
          check_op(c);
        }
      }
    }
  }
}

TEST(CrossEntropy, own_nll_returns_sum_and_weight) {
  OpCase c{.claim = "own nll",
           .domain = ops::kDomain,
           .op = "NllLoss",
           .inputs = {given(kLogProb), labels(kLabels), parameter(given(kWeights))},
           .num_outputs = 2,
           .batch = true};
  check_op(expecting(c, {doubles({}, {1.5083591094487057}), doubles({}, {2.5})}));
  c.attributes = {{"label_smoothing", 0.1}};
  EXPECT_NE(infer_error(c).find("C6: label_smoothing belongs to cross_entropy"), std::string::npos);
}

TEST(CrossEntropy, a_weight_of_zero_takes_no_part_even_where_the_probability_is_zero) {
  const double inf = std::numeric_limits<double>::infinity();
  OpCase c{.claim = "zero weight", .op = "NegativeLogLikelihoodLoss"};
  c.inputs = {given(doubles({2, 2}, {-inf, 0, -inf, -1})), labels(ints({2}, {0, 1})),
              parameter(given(doubles({2}, {0, 3})))};
  c.differentiate = std::vector<int>{};
  check_op(expecting(c, {doubles({}, {1})}));
}

TEST(CrossEntropy, gradients_run_by_rows) {
  OpCase c{.claim = "grad", .domain = ops::kDomain, .op = "CrossEntropyGrad"};
  c.inputs = {parameter(given(doubles({}, {0.5}))), random({3, 4}, -3, -1),
              labels(ints({3}, {1, 3, 0}))};
  c.batch = true;
  c.must_run = kKernels;
  check_op(c);
  c.attributes = {{"label_smoothing", 0.2}, {"ignore_index", int64_t{3}}};
  check_op(c);
  c.attributes = {{"reduction", std::string("mean")}};
  check_op(c);
  c.attributes = {{"reduction", std::string("none")}};
  c.inputs[0] = random({3});
  check_op(c);
  c = {.claim = "nll grad", .domain = ops::kDomain, .op = "NllGrad"};
  c.inputs = {parameter(given(doubles({}, {0.5}))), labels(ints({3}, {1, 3, 0}))};
  c.attributes = {{"classes", int64_t{4}}};
  c.batch = true;
  c.expected = {doubles({3, 4}, {0, -0.5, 0, 0, 0, 0, 0, -0.5, -0.5, 0, 0, 0})};
  check_op(c);
}

TEST(CrossEntropy, roles_follow_the_reduction) {
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {graph::Dim(4, "N"), 3}));
  auto* t = g.add_input("t", ops::TensorType(DType::kInt64, {graph::Dim(4, "N")}));
  ops::OpBuilder b(g);
  const auto role = [&](const char* reduction, int slot) {
    auto* node = b.node("", "SoftmaxCrossEntropyLoss", {x, t}, {"l", "p"},
                        {{"reduction", std::string(reduction)}});
    return ops::OpRegistry::get().at(*node).batch(*node, slot);
  };
  EXPECT_EQ(role("none", 0), BatchRole::kRows);
  EXPECT_EQ(role("sum", 0), BatchRole::kSum);
  EXPECT_EQ(role("mean", 0), BatchRole::kCouples);
  EXPECT_EQ(role("mean", 1), BatchRole::kRows);
}

TEST(CrossEntropy, a_mean_loss_splits_into_sum_and_weight) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {4, 3}));
  auto* t = g.add_input("t", ops::TensorType(DType::kInt64, {4}));
  ops::OpBuilder b(g);
  for (const auto& [op, own_op] : {std::pair{"SoftmaxCrossEntropyLoss", "CrossEntropyLoss"},
                                   std::pair{"NegativeLogLikelihoodLoss", "NllLoss"}}) {
    auto* loss = b.op(op, {x, t}, {{"ignore_index", int64_t{-1}}})->producer;
    const auto [sum, weight] = ops::OpRegistry::get().at(*loss).split_loss(*loss, b);
    EXPECT_TRUE(sum->producer->is(ops::kDomain, own_op));
    EXPECT_EQ(sum->producer->get_int("ignore_index", 7), -1);
    EXPECT_EQ(weight, sum->producer->output(1));
    auto* whole = b.op(op, {x, t}, {{"reduction", std::string("sum")}})->producer;
    EXPECT_EQ(ops::OpRegistry::get().at(*whole).split_loss(*whole, b).first, nullptr);
  }
}

std::string run_error(OpCase c) {
  try {
    reference(c);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CrossEntropy, a_label_out_of_range_is_named) {
  EXPECT_EQ(run_error(own({given(kScores), labels(ints({2}, {1, 3}))})),
            "label 3 of sample 1 is out of range: there are 3 classes (0..2)");
  EXPECT_EQ(run_error(own({given(kScores), labels(ints({2}, {-1, 0}))})),
            "label -1 of sample 0 is out of range: there are 3 classes (0..2)");
  EXPECT_EQ(run_error(own({random({2, 3, 4}), labels(ints({2, 4}, {0, 1, 2, 0, 0, 1, 255, 0}))})),
            "label 255 of sample 1, position 2 is out of range: there are 3 classes (0..2)");
}

TEST(CrossEntropy, c1_to_c8_reject_what_does_not_fit) {
  const auto error = [](std::vector<OpInput> inputs, Attributes attributes = {}) {
    return infer_error(own(std::move(inputs), std::move(attributes)));
  };
  const OpInput t = labels(kLabels);
  EXPECT_NE(error({given(ints({2, 3}, {1, 2, 3, 4, 5, 6})), t}).find("C1: scores are int64"),
            std::string::npos);
  EXPECT_NE(error({random({2}), t}).find("C1: scores have type float[N:2]"), std::string::npos);
  EXPECT_NE(error({random({6, 3}), labels(random_tensor(DType::kInt64, {6, 3}, 0, 1))})
                .find("C2: labels int64[N:6,3] don't fit scores float[N:6,3]: expected one class "
                      "number for [N:6]"),
            std::string::npos)
      << error({random({6, 3}), labels(random_tensor(DType::kInt64, {6, 3}, 0, 1))});
  EXPECT_NE(error({given(kScores), random({2})}).find("C3: labels are float"), std::string::npos);
  EXPECT_NE(error({given(kScores), t, parameter(random({4}))}).find("C4: class weights float[4]"),
            std::string::npos);
  EXPECT_NE(infer_error(standard("average", {given(kScores), t}))
                .find("C5: reduction is 'average', expected none, sum or mean"),
            std::string::npos);
  EXPECT_NE(
      error({given(kScores), t}, {{"label_smoothing", 1.5}}).find("C6: label_smoothing is 1.5"),
      std::string::npos);
  OpCase count{.claim = "k", .domain = ops::kDomain, .op = "CountCorrect"};
  count.inputs = {given(kScores), t};
  count.attributes = {{"k", int64_t{0}}};
  EXPECT_NE(infer_error(count).find("C7: k is 0"), std::string::npos);
  OpCase grad{.claim = "dy", .domain = ops::kDomain, .op = "CrossEntropyGrad"};
  grad.inputs = {random({2}), given(kScores), t};
  EXPECT_NE(infer_error(grad).find("C8"), std::string::npos);
}

OpCase count_correct(OpInput scores, Tensor truth, int64_t k, double want) {
  OpCase c{.claim = "count", .domain = ops::kDomain, .op = "CountCorrect"};
  c.inputs = {std::move(scores), labels(std::move(truth))};
  c.attributes = {{"k", k}};
  c.expected = {doubles({}, {want})};
  c.batch = true;
  return c;
}

TEST(CountCorrect, counts_labels_among_the_k_best) {
  const Tensor x = doubles({4, 3}, {1, 2, 3, 3, 2, 1, 0, 5, 0, 1, 0, 2});
  const Tensor y = ints({4}, {2, 2, 0, 0});
  check_op(count_correct(given(x), y, 1, 1));
  check_op(count_correct(given(x), y, 2, 3));
  check_op(count_correct(given(x), y, 3, 4));
  check_op(count_correct(given(x), y, 9, 4));
}

TEST(CountCorrect, the_lower_class_wins_a_tie) {
  const OpInput x = given(doubles({3, 3}, {4, 4, 4, 4, 4, 4, 4, 4, 4}));
  check_op(count_correct(x, ints({3}, {0, 1, 2}), 1, 1));
  check_op(count_correct(x, ints({3}, {0, 1, 2}), 2, 2));
}

TEST(CountCorrect, nan_is_never_the_right_answer) {
  const double nan = std::nan("");
  check_op(count_correct(given(doubles({3, 2}, {nan, 0, 0, nan, nan, nan})), ints({3}, {0, 0, 1}),
                         1, 0));
}

TEST(CountCorrect, passes_over_ignored_labels_and_reads_positions) {
  OpCase c =
      count_correct(given(doubles({1, 2, 3}, {1, 1, 1, 0, 2, 2})), ints({1, 3}, {0, 1, -1}), 1, 2);
  c.attributes["ignore_index"] = int64_t{-1};
  check_op(c);
}

}  // namespace
}  // namespace sardonyx::test
