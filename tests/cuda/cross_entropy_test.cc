// Sizes around warps and blocks, every way a label may count, and numbers that aren't; the formulas
// are tried by the cases of tests/ops/cross_entropy_test.cc.
#include <gtest/gtest.h>

#include <limits>

#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

using Ints = std::vector<int64_t>;

OpInput labels(Ints shape, int64_t classes) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  Ints values;
  for (int64_t i = 0; i < count; ++i) values.push_back(i * 7 % classes);
  return exactly(given(ints(std::move(shape), values)));
}

OpCase loss(Ints scores, const graph::Attributes& attributes = {}) {
  Ints positions = scores;
  positions.erase(positions.begin() + 1);
  const int64_t classes = scores[1];
  return {.claim = "CrossEntropyLoss of " + graph::shape_str(scores),
          .domain = ops::kDomain,
          .op = "CrossEntropyLoss",
          .inputs = {random(std::move(scores), -3, 3), labels(positions, classes)},
          .attributes = attributes,
          .num_outputs = 3,
          .float_tolerance = {1e-5, 1e-5},
          .seeds = std::vector<int>{0}};
}

TEST(CudaCrossEntropy, sizes_around_warps_and_blocks) {
  for (const int64_t classes : {1, 2, 31, 32, 33, 257}) {
    for (const int64_t rows : {0, 1, 7, 8, 9, 300}) check_cuda(loss({rows, classes}));
  }
  for (const int64_t inner : {2, 255, 257}) check_cuda(loss({3, 5, inner}));
  check_cuda(loss({2, 3, 4, 5}));
}

TEST(CudaCrossEntropy, weights_smoothing_and_ignored_labels) {
  for (const Ints& shape : {Ints{20, 10}, Ints{4, 10, 6}}) {
    for (const double smoothing : {0.0, 0.1, 1.0}) {
      OpCase c = loss(shape, {{"label_smoothing", smoothing}, {"ignore_index", int64_t{7}}});
      check_cuda(c);
      c.inputs.push_back(given(floats({10}, {1, 0, 2, 0.5, 1, 1, 3, 1, 0.25, 1})));
      check_cuda(c);
    }
  }
}

TEST(CudaCrossEntropy, where_all_labels_are_ignored_nothing_counts) {
  OpCase c = loss({3, 2}, {{"ignore_index", int64_t{1}}});
  c.inputs[1] = exactly(given(ints({3}, {1, 1, 1})));
  check_cuda(c);
}

TEST(CudaCrossEntropy, labels_of_every_type) {
  for (const DType dtype : {DType::kInt32, DType::kUint8, DType::kInt64}) {
    OpCase c = loss({9, 5});
    c.inputs[1] = exactly(given(c.inputs[1].value.cast(dtype)));
    check_cuda(c);
  }
}

TEST(CudaCrossEntropy, the_operators_of_the_file_in_all_reductions) {
  for (const char* op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    for (const char* reduction : {"none", "sum", "mean"}) {
      for (const Ints& shape : {Ints{9, 4}, Ints{3, 4, 5}}) {
        OpCase c =
            loss(shape, {{"reduction", std::string(reduction)}, {"ignore_index", int64_t{2}}});
        c.claim = fmt::format("{} {}", op, reduction);
        c.domain = "";
        c.op = op;
        c.num_outputs = 1;
        check_cuda(c);
        c.inputs.push_back(given(floats({4}, {1, 2, 0.5, 0})));
        check_cuda(c);
      }
    }
  }
  OpCase nll = loss({9, 4});
  nll.op = "NllLoss";
  nll.num_outputs = 2;
  check_cuda(nll);
}

TEST(CudaCrossEntropy, scores_that_are_not_finite_show_in_the_loss) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& row : {std::vector<float>{nan, 1, 2},
                                        {1, -inf, 2},
                                        {-inf, -inf, -inf},
                                        {inf, 1, 2},
                                        {1e30F, -1e30F, 0}}) {
    OpCase c = loss({1, 3});
    c.inputs[0] = given(floats({1, 3}, row));
    c.inputs[1] = exactly(given(ints({1}, {0})));
    c.differentiate = std::vector<int>{};
    check_cuda(c);
  }
}

TEST(CudaCrossEntropy, counts_the_k_best_with_ties_and_nan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t k : {1, 2, 5}) {
    OpCase c{.claim = "ties",
             .domain = ops::kDomain,
             .op = "CountCorrect",
             .inputs = {given(floats({4, 3}, {1, 1, 0, 2, 2, 2, nan, 1, 0, 0, nan, 5})),
                        exactly(given(ints({4}, {1, 2, 1, 2})))},
             .attributes = {{"k", k}},
             .differentiate = std::vector<int>{}};
    check_cuda(c);
    for (const int64_t classes : {2, 33, 257}) {
      c.inputs = {random({70, classes}), labels({70}, classes)};
      check_cuda(c);
    }
    c.inputs = {random({5, 4, 70}), labels({5, 70}, 4)};
    c.attributes["ignore_index"] = int64_t{2};
    check_cuda(c);
  }
}

}  // namespace

}  // namespace sardonyx::test
