// DepthToSpace and SpaceToDepth on numbers that say where they came from.
#include <gtest/gtest.h>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

const std::vector<std::string> kBoth = {"depth_to_space.ref", "depth_to_space.strided"};

OpCase blocks(std::string op, OpInput x, int64_t side, std::string mode = "DCR") {
  return {.claim = fmt::format("{} {} {}", op, side, mode),
          .op = op,
          .inputs = {std::move(x)},
          .attributes = {{"blocksize", side}, {"mode", mode}},
          .must_run = kBoth};
}

std::vector<float> counted(int n) {
  std::vector<float> x;
  for (int i = 0; i < n; ++i) x.push_back(static_cast<float>(i));
  return x;
}

const Tensor kDeep = floats({1, 8, 1, 2}, counted(16));
const std::vector<float> kDcr = {0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15};
const std::vector<float> kCrd = {0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15};

TEST(DepthToSpace, spreads_channels_in_both_orders) {
  OpCase c = blocks("DepthToSpace", given(kDeep), 2);
  c.expected = {floats({1, 2, 2, 4}, kDcr)};
  check_op(c);
  c = blocks("DepthToSpace", given(kDeep), 2, "CRD");
  c.expected = {floats({1, 2, 2, 4}, kCrd)};
  check_op(c);
}

TEST(DepthToSpace, space_to_depth_is_the_inverse) {
  OpCase c = blocks("SpaceToDepth", given(floats({1, 2, 2, 4}, kDcr)), 2);
  c.expected = {kDeep};
  check_op(c);
  c = blocks("SpaceToDepth", given(floats({1, 2, 2, 4}, kCrd)), 2, "CRD");
  c.expected = {kDeep};
  check_op(c);
}

TEST(DepthToSpace, runs_by_rows_in_lanes_and_with_any_side) {
  for (const char* mode : {"DCR", "CRD"}) {
    for (int64_t side : {1, 2, 3}) {
      OpCase c = blocks("DepthToSpace", random({3, 2 * side * side, 2, 3}), side, mode);
      c.batch = true;
      c.must_run = {"depth_to_space.ref", "depth_to_space.strided", "depth_to_space.lanes"};
      check_op(c);
      c = blocks("SpaceToDepth", random({3, 2, 2 * side, side}), side, mode);
      c.batch = true;
      check_op(c);
    }
  }
}

TEST(DepthToSpace, the_shape_rule_keeps_the_batch) {
  OpCase c = blocks("DepthToSpace", random({3, 8, 2, 5}), 2);
  c.batch = true;
  EXPECT_EQ(inferred_type(c), "float[N:3,2,4,10]");
  c = blocks("SpaceToDepth", random({3, 2, 4, 6}), 2);
  c.batch = true;
  EXPECT_EQ(inferred_type(c), "float[N:3,8,2,3]");
}

TEST(DepthToSpace, constraints_are_named) {
  const auto fault = [](const OpCase& c) {
    return infer_error(c).substr(0, infer_error(c).find('\n'));
  };
  EXPECT_EQ(fault(blocks("DepthToSpace", random({2, 4, 3}), 2)),
            "C1: input 0 has type float[2,4,3], expected 4 axes");
  EXPECT_EQ(fault(blocks("DepthToSpace", random({1, 6, 1, 1}), 2)),
            "C2: axis 1 of float[1,6,1,1] has 6 entries, expected a multiple of 4");
  EXPECT_EQ(fault(blocks("SpaceToDepth", random({1, 1, 2, 3}), 2)),
            "C3: axis 3 of float[1,1,2,3] has 3 entries, expected a multiple of 2");
  EXPECT_EQ(fault(blocks("SpaceToDepth", random({1, 1, 2, 3}), 0)),
            "C4: blocksize is 0, expected 1 or more");
  EXPECT_EQ(fault(blocks("DepthToSpace", random({1, 4, 1, 1}), 2, "RCD")),
            "C5: mode is 'RCD', expected DCR or CRD");
}

}  // namespace
}  // namespace sardonyx::test
