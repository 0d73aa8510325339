// Shapes that the lanes, pieces and groups of axes could get wrong; the formulas are tried by the
// cases of tests/ops/reduce_test.cc.
#include <gtest/gtest.h>

#include <limits>

#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

using Ints = std::vector<int64_t>;

OpCase reduction(const char* op, OpInput x, Ints axes) {
  OpCase c{.claim = fmt::format("{} of {} over {}", op, graph::shape_str(x.shape),
                                graph::shape_str(axes)),
           .op = op,
           .inputs = {std::move(x)},
           .float_tolerance = {1e-5, 1e-5}};
  c.inputs.push_back(constant_ints(std::move(axes)));
  return c;
}

TEST(CudaReduce, all_of_it) {
  for (const int64_t n : {1, 2, 31, 255, 256, 257, 5000}) {
    check_cuda(reduction("ReduceSum", random({n}), {0}));
    check_cuda(reduction("ReduceMax", random({n}), {0}));
  }
}

TEST(CudaReduce, rows_and_columns) {
  for (const int64_t rows : {1, 3, 257}) {
    for (const int64_t columns : {1, 33, 256, 300}) {
      check_cuda(reduction("ReduceMean", random({rows, columns}), {0}));
      check_cuda(reduction("ReduceMean", random({rows, columns}), {1}));
    }
  }
  check_cuda(reduction("ReduceSum", random({40000, 2}), {0}));
  check_cuda(reduction("ReduceSum", random({2, 40000}), {1}));
}

TEST(CudaReduce, several_groups_of_axes) {
  const Ints shape{3, 4, 5, 6, 7};
  for (const Ints& axes :
       {Ints{0, 2, 4}, Ints{1, 3}, Ints{0, 1}, Ints{3, 4}, Ints{1, 2, 3}, Ints{0, 1, 2, 3, 4}}) {
    for (const char* op : {"ReduceSum", "ReduceMin", "ReduceLogSumExp"}) {
      check_cuda(reduction(op, random(shape), axes));
    }
  }
  check_cuda(reduction("ReduceL2", random({3, 1, 4, 1, 5}), {1, 2}));
}

TEST(CudaReduce, nothing_to_reduce) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
                         "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"}) {
    OpCase c = reduction(op, random({3, 0}), {1});
    c.differentiate = std::vector<int>{};
    check_cuda(c);
    c = reduction(op, random({0, 3}), {1});
    c.differentiate = std::vector<int>{};
    check_cuda(c);
  }
}

TEST(CudaReduce, nan_and_infinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = floats(
      {6, 3}, {1, nan, 2, nan, inf, 1, inf, inf, 3, -inf, -inf, -inf, inf, -inf, 0, 5, 4, 5});
  for (const char* op :
       {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare", "ReduceLogSumExp"}) {
    OpCase c = reduction(op, given(x), {1});
    c.differentiate = std::vector<int>{};
    check_cuda(c);
  }
}

TEST(CudaReduce, ties_of_an_extremum_share) {
  OpCase c = reduction("ReduceMax", given(floats({3, 3}, {1, 2, 2, 3, 3, 3, 0, -1, -2})), {1});
  c.numeric = Numeric::kSkip;
  check_cuda(c);
  check_cuda(reduction("ReduceMin", random({5, 300, 3}), {1}));
  check_cuda(reduction("ReduceProd", random({5, 7, 3}, 0.5, 1.5), {1}));
}

TEST(CudaReduce, channels_last) {
  for (const int64_t channels : {1, 3, 17, 40}) {
    for (const Ints& axes : {Ints{2, 3}, Ints{1}, Ints{0, 2, 3}, Ints{3}}) {
      for (const int64_t keep : {1, 0}) {
        // Rows are whole, or gone.
        OpCase c = reduction("ReduceMean", random({2, channels, 3, 5}), axes);
        c.attributes["keepdims"] = keep;
        c.batch = true;
        if (keep == 1) c.must_run = {"reduce.cuda", "reduce.cuda_nhwc"};
        check_cuda(c);
      }
    }
    OpCase extremum = reduction("ReduceMax", random({2, channels, 3, 5}), {2, 3});
    extremum.batch = true;
    extremum.must_run = {"reduce.cuda_nhwc"};
    check_cuda(extremum);
  }
}

TEST(CudaReduce, integers_are_declined) {
  const OpCase c = reduction("ReduceSum", exactly(given(ints({2}, {1, 2}))), {0});
  EXPECT_EQ(cuda_refusal(c, "reduce.cuda"), "takes float, double and bfloat16 only");
}

}  // namespace

}  // namespace sardonyx::test
