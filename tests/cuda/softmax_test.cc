// Rows that belong to a warp or to a thread. The meanings are tried by the cases of
// tests/ops/softmax_test.cc, LRN's by those of lrn_test.cc.
#include <gtest/gtest.h>

#include <limits>

#include "tests/cuda/kernel_tester.h"

namespace sardonyx::test {

namespace {

TEST(CudaSoftmax, rows_of_any_length) {
  for (const int64_t length : {1, 2, 10, 31, 32, 33, 100, 1000}) {
    for (const char* op : {"Softmax", "LogSoftmax"}) {
      check_cuda({.claim = fmt::format("{} of {}", op, length),
                  .op = op,
                  .inputs = {random({9, length}, -5, 5)},
                  .batch = true});
      check_cuda({.claim = fmt::format("{} of {} apart", op, length),
                  .op = op,
                  .inputs = {random({2, length, 3}, -5, 5)},
                  .attributes = {{"axis", int64_t{1}}}});
    }
  }
}

TEST(CudaSoftmax, large_numbers_and_nan) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor x =
      floats({5, 3}, {1e4F, 0, -1e4F, -inf, -inf, -inf, nan, 1, 2, inf, 0, 1, -inf, 3, 4});
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    check_cuda({.claim = op, .op = op, .inputs = {given(x)}, .differentiate = std::vector<int>{}});
  }
}

TEST(CudaSoftmax, of_nothing) {
  check_cuda({.claim = "no rows", .op = "Softmax", .inputs = {random({0, 3})}});
  check_cuda({.claim = "no columns", .op = "Softmax", .inputs = {random({3, 0})}});
}

}  // namespace

}  // namespace sardonyx::test
