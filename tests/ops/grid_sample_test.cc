// GridSample and AffineGrid against torch.nn.functional.grid_sample and affine_grid.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/ops/wave.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using Numbers = std::vector<double>;

OpCase sample(OpInput x, OpInput grid, const std::string& mode = "linear",
              const std::string& padding = "zeros", int64_t align_corners = 0) {
  return {
      .claim = mode + " " + padding + " " + std::to_string(align_corners),
      .op = "GridSample",
      .inputs = {std::move(x), std::move(grid)},
      .attributes = {{"mode", mode}, {"padding_mode", padding}, {"align_corners", align_corners}},
      .must_run = {"grid_sample.ref"}};
}

// Inside, and beyond each edge.
const Tensor kGrid =
    doubles({1, 2, 3, 2}, {-0.9, -0.3, 0.35, 0.8, -1.4, 0.2, 1.3, -1.9, 0.05, 2.6, -3.1, -0.45});

TEST(GridSample, is_torchs_in_every_mode_with_its_gradients) {
  struct Line {
    std::string mode, padding;
    int64_t align_corners;
    Numbers y, dx, dgrid;
  };
  const Line lines[] = {
      {"linear",
       "zeros",
       0,
       {0.021875, -0.04, 0, 0, 0, 0},
       {0.315, 0, 0, 0, 0.385, 0, 0, 0, 0, 0, -0.48, -0.12},
       {0.0625, -0.65625, -0.45, -0.05625, 0, 0, 0, 0, 0, 0, 0, 0}},
      {"linear",
       "zeros",
       1,
       {-0.00625, 0.009375, -0.15, -0.034375, 0, 0},
       {0.255, 0.045, 0, 0, 0.475, 0.105, -0.14625, -0.00375, -0.03, 0, -0.585, -0.015},
       {0.5625, -0.625, -0.421875, 0.46875, 0.2109375, 0.09375, 0, 0, 0, 0, 0, 0}},
      {"linear",
       "border",
       0,
       {0.03125, -0.05, -0.4375, -0.625, -0.275, 0.171875},
       {0.95625, 0, 0, 0, 0.53125, 0, 0, 0, -0.1125, 0.15, -0.375, -0.15},
       {0, -0.9375, -0.5625, -0, -0, 0.3515625, 0, 0, 0.28125, 0, 0, -0.703125}},
      {"linear",
       "border",
       1,
       {-0.00625, 0.009375, -0.375, -0.625, -0.284375, 0.03125},
       {0.5925, 0.045, 0, 0, 0.7075, 0.105, -0.14625, -0.00375, -0.075, 0.159375, -0.369375,
        -0.015},
       {0.5625, -0.625, -0.421875, 0.46875, -0, 0.234375, 0, 0, 0.2109375, 0, 0, -0.46875}},
      {"linear",
       "reflection",
       0,
       {0.03125, -0.05, -0.325, 0.6125, -0.235, -0.1375},
       {0.45, 0.135, 0.2025, 0.50625, 0.36625, -0.06375, 0.0225, 0.24375, -0.07875, -0.03375, -0.6,
        -0.15},
       {0, -0.9375, -0.5625, -0, 0.28125, 0.3515625, -0, -0, -1.153125, -0.365625, 0, 1.6875}},
      {"linear",
       "reflection",
       1,
       {-0.00625, 0.009375, -0.15, 0.55625, -0.0175, 0.14375},
       {0.255, 0.140625, 0.18, 0.286875, 0.475, -0.01125, 0.001875, 0.346875, -0.03, -0.045, -0.585,
        -0.015},
       {0.5625, -0.625, -0.421875, 0.46875, 0.2109375, 0.234375, -0, -0, -0.50625, -0.2238281,
        0.421875, 1.125}},
      {"nearest",
       "zeros",
       0,
       {-0.25, -0.125, 0, 0, 0, 0},
       {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, -0.75, 0},
       {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {"nearest",
       "zeros",
       1,
       {-0.25, -0.125, 0, 0, 0, 0},
       {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, -0.75, 0},
       {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {"nearest",
       "border",
       0,
       {-0.25, -0.125, -0.25, -0.625, -0.125, 0.375},
       {0.75, 0, 0, 0, 0.625, 0, 0, 0, 0, 0, -0.375, 0},
       {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {"nearest",
       "border",
       1,
       {-0.25, -0.125, -0.25, -0.625, -0.125, -0.25},
       {0, 0, 0, 0, 1.375, 0, 0, 0, 0, 0, -0.375, 0},
       {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {"nearest",
       "reflection",
       0,
       {-0.25, -0.125, -0.25, 0.875, -1, -0.625},
       {0, 0, 0.375, 0.75, 0.625, 0, 0, 0, 0, 0, -0.75, 0},
       {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {"nearest",
       "reflection",
       1,
       {-0.25, -0.125, 0.125, 0.875, -1, 0.875},
       {0, 0, 0.375, 0, 1, -0.375, 0, 0.75, 0, 0, -0.75, 0},
       {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {"cubic",
       "zeros",
       0,
       {0.04353652, -0.075448, 0.05894241, -0.0005446143, 0, 0},
       {0.4337963, -0.05813965, 0, 0, 0.5815633, -0.07948751, 0.06624, 0.0144, -0.07137703,
        0.07749584, -0.6348, -0.138},
       {0.3036223, -0.735672, -0.616095, 0.1538662, 0.02105086, -0.0567443, 0, 0, 0, 0, 0, 0}},
      {"cubic",
       "zeros",
       1,
       {0.06635056, 0.02532244, -0.198756, -0.03099662, 0.02096986, 0},
       {0.32767, 0.04342486, 0.01329539, 0.0003540234, 0.6339748, 0.1455771, -0.1617152,
        -0.002950195, -0.1375306, -0.01129096, -0.7060796, -0.01072546},
       {0.638871, -0.9060891, -0.7323033, 0.6866185, 0.3271894, 0.140715, 0, 0, -0.01164691,
        -0.02621232, 0, 0}},
      {"cubic",
       "border",
       0,
       {0.04984766, -0.083, -0.4932812, -0.625, -0.284, 0.2172925},
       {1.054733, -0.04893033, 0, 0, 0.688596, -0.07948751, 0.06624, 0.012672, -0.2850791,
        0.2626678, -0.48624, -0.185172},
       {0.039375, -0.9158203, -0.691875, 0.16875, 2.454022e-16, 0.3928711, 0, 0, 0.219375,
        -1.454395e-16, -1.580035e-16, -0.5830444}},
      {"cubic",
       "border",
       1,
       {0.04428921, 0.03579722, -0.447, -0.5968398, -0.291248, 0.09119141},
       {0.6148266, 0.03671388, 0.01397313, 0.0003457969, 0.8489807, 0.1455771, -0.1617152,
        -0.002881641, -0.2727052, 0.1852573, -0.3569801, -0.05139238},
       {0.5864411, -0.7308992, -0.6559987, 0.706278, 0.050625, 0.2882812, 0, 0, 0.1617627,
        -1.223465e-16, -1.073117e-16, -0.4579102}},
      {"cubic",
       "reflection",
       0,
       {0.03212891, -0.098, -0.4174448, 0.7042193, -0.2748903, -0.07381006},
       {0.5187358, 0.1019429, 0.1639047, 0.5654693, 0.5348151, -0.1987082, 0.07905157, 0.3241433,
        -0.1934259, 0.06142148, -0.7633625, -0.1939876},
       {0.225, -0.9158203, -0.691875, 0.3164062, 0.1864334, 0.3958362, 0, 0, -1.404624, -0.3810966,
        0.16875, 1.996589}},
      {"cubic",
       "reflection",
       1,
       {0.04478019, -0.02403139, -0.295032, 0.66727, -0.06501906, 0.1196958},
       {0.3066384, 0.170461, 0.219605, 0.3490534, 0.5827754, -0.1097203, 0.06439406, 0.3956134,
        -0.1375306, -0.05523139, -0.7023159, -0.08374243},
       {0.415477, -0.8931306, -0.6712258, 0.593778, 0.2554538, 0.358155, 0, 0, -0.7991789,
        -0.3336069, 0.3954367, 1.606526}},
  };
  for (const Line& line : lines) {
    OpCase c = sample(given(wave({1, 1, 3, 4}, 1)), given(kGrid), line.mode, line.padding,
                      line.align_corners);
    c.expected = {doubles({1, 1, 2, 3}, line.y)};
    c.dy = {wave({1, 1, 2, 3}, 3)};
    c.expected_gradients = {doubles({1, 1, 3, 4}, line.dx), doubles({1, 2, 3, 2}, line.dgrid)};
    if (line.mode == "nearest") c.zero_gradients = {1};
    check_op(c);
  }
}

TEST(GridSample, samples_volumes_and_several_channels) {
  Tensor grid = wave({2, 1, 2, 2, 3}, 2);
  for (double& number : grid.mutable_data<double>()) number *= 0.95;
  OpCase c = sample(given(wave({2, 2, 2, 3, 2}, 1)), given(grid), "linear", "reflection");
  c.expected = {
      doubles({2, 2, 1, 2, 2},
              {-0.8390625, 0.75, -0.6460938, 0.753125, -0.5890625, 1.0, -0.3960938, 0.95, 0.0351563,
               -0.8570312, 0.2132812, 0.7574219, 0.2851563, -0.6070313, 0.4632812, -0.8851562})};
  c.numeric = Numeric::kSkip;  // some places are edges
  check_op(c);
  c = sample(c.inputs[0], given(grid), "nearest", "reflection");
  c.expected = {
      doubles({2, 2, 1, 2, 2}, {-0.875, 0.75, -0.875, 0.75, -0.625, 1.0, -0.625, 1.0, -0.375,
                                -0.875, 0.375, 0.875, -0.125, -0.625, 0.625, -1.0})};
  c.zero_gradients = {1};
  c.numeric = Numeric::kSkip;
  check_op(c);
  for (const char* mode : {"linear", "cubic"}) {
    check_op(sample(random({2, 3, 2, 3, 3}), random({2, 2, 1, 2, 3}, -0.7, 0.7), mode));
  }
  check_op(sample(random({1, 2, 5}), random({1, 4, 1}, -0.7, 0.7), "cubic", "border"));
}

TEST(GridSample, runs_by_rows_and_cuts_channels) {
  OpCase c = sample(random({3, 2, 3, 3}), random({3, 2, 2, 2}, -0.7, 0.7), "linear", "border");
  c.batch = true;
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[N:3,2,2,2]");
  c = {.claim = "dx",
       .domain = "sardonyx",
       .op = "GridSampleGradData",
       .inputs = {random({2, 40, 8, 8}), random({2, 8, 8, 2}, -1.2, 1.2)},
       .attributes = {{"input_shape", std::vector<int64_t>{4, 4}}},
       .batch = true,
       .must_run = {"grid_sample_grad_data.ref"}};
  check_op(c);
  c = {.claim = "dgrid",
       .domain = "sardonyx",
       .op = "GridSampleGradGrid",
       .inputs = {random({2, 40, 8, 8}), random({2, 40, 4, 4}), random({2, 8, 8, 2}, -1.2, 1.2)},
       .batch = true,
       .must_run = {"grid_sample_grad_grid.ref"}};
  check_op(c);
}

TEST(GridSample, takes_places_that_are_no_numbers_or_far_away) {
  const Tensor grid = doubles({1, 1, 4, 2}, {NAN, 0, 1e30, -1e30, INFINITY, 0, -INFINITY, 0});
  const auto expect = [&](const std::string& mode, const std::string& padding, Numbers y) {
    OpCase c = sample(given(doubles({1, 1, 1, 2}, {3, 5})), given(grid), mode, padding);
    c.expected = {doubles({1, 1, 1, 4}, y)};
    c.differentiate = {std::vector<int>{0}};
    c.numeric = Numeric::kSkip;
    if (padding == "zeros") c.zero_gradients = {0};
    check_op(c);
  };
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    expect(mode, "border", {3, 5, 5, 3});
    if (std::string(mode) != "linear") continue;
    expect(mode, "zeros", {0, 0, 0, 0});
  }
}

TEST(GridSample, g1_to_g4_reject_types_shapes_names_and_empty_axes) {
  EXPECT_EQ(infer_error(sample(random({1, 1, 2, 2}), given(ints({1, 1, 1, 2}, {0, 0}))))
                .find("G1: float[1,1,2,2] and int64[1,1,1,2] are of two types"),
            0u);
  EXPECT_EQ(infer_error(sample(random({1, 1, 2, 2}), random({1, 1, 1, 3})))
                .find("G2: grid float[1,1,1,3] doesn't fit 1 samples with 2 spatial axes"),
            0u);
  EXPECT_EQ(infer_error(sample(random({1, 1, 2, 2}), random({1, 1, 1, 2}), "bilinear"))
                .find("G3: mode 'bilinear' is none of linear, nearest, cubic"),
            0u);
  EXPECT_EQ(infer_error(sample(random({1, 1, 2, 2}), random({1, 1, 1, 2}), "linear", "wrap"))
                .find("G3: padding_mode 'wrap' is none of zeros, border, reflection"),
            0u);
  EXPECT_EQ(infer_error(sample(random({1, 1, 0, 2}), random({1, 1, 1, 2})))
                .find("G4: x is float[1,1,0,2], which has no cells to read"),
            0u);
}

OpCase affine(OpInput theta, std::vector<int64_t> size, int64_t align_corners) {
  return {.claim = "affine",
          .op = "AffineGrid",
          .inputs = {std::move(theta), constant_ints(std::move(size))},
          .attributes = {{"align_corners", align_corners}},
          .must_run = {"affine_grid.ref"}};
}

TEST(AffineGrid, is_torchs) {
  OpCase c = affine(given(wave({2, 2, 3}, 1)), {2, 1, 2, 3}, 0);
  c.expected = {
      doubles({2, 2, 3, 2}, {-1.625,     0.6666667, -1.375,  0.25,   -1.125,     -0.1666667,
                             -0.875,     0.4166667, -0.625,  0.0,    -0.375,     -0.4166667,
                             -1.6458333, 0.6458333, -1.3125, 0.3125, -0.9791667, -0.0208333,
                             -0.7708333, 0.5208333, -0.4375, 0.1875, -0.1041667, -0.1458333})};
  check_op(c);
  c = affine(given(wave({2, 2, 3}, 1)), {2, 1, 2, 3}, 1);
  c.expected = {doubles(
      {2, 2, 3, 2},
      {-2.125, 1.0,   -1.75, 0.375, -1.375, -0.25,  -0.625, 0.5,   -0.25, -0.125, 0.125, -0.75,
       -2.25,  0.875, -1.75, 0.375, -1.25,  -0.125, -0.5,   0.625, 0.0,   0.125,  0.5,   -0.375})};
  check_op(c);
  c = affine(given(wave({1, 3, 4}, 1)), {1, 1, 2, 1, 2}, 0);
  c.expected = {doubles({1, 2, 1, 2, 3}, {-0.3125, 0.75, 0.75, 0.0625, 0.5, -0.125, -1.3125, 1.25,
                                          0.625, -0.9375, 1.0, -0.25})};
  check_op(c);
  c = affine(given(wave({1, 2, 3}, 1)), {1, 1, 1, 2}, 1);
  c.expected = {doubles({1, 1, 2, 2}, {-1.375, 0.75, -0.625, -0.5})};
  check_op(c);
}

TEST(AffineGrid, keeps_the_batch) {
  OpCase c = affine(random({3, 2, 3}), {3, 1, 2, 2}, 0);
  c.batch = true;
  c.fixed_rows = true;
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[N:3,2,2,2]");
}

TEST(AffineGrid, a1_a2_reject_what_doesnt_fit) {
  EXPECT_EQ(infer_error(affine(random({1, 2, 4}), {1, 1, 2, 2}, 0))
                .find("A1: theta is float[1,2,4], expected [N,2,3]"),
            0u);
  EXPECT_EQ(infer_error(affine(random({1, 2, 3}), {1, 2, 2}, 0))
                .find("A2: size is [1,2,2], expected 4 or 5 numbers"),
            0u);
  EXPECT_EQ(infer_error(affine(random({2, 2, 3}), {1, 1, 2, 2}, 0))
                .find("A2: size [1,1,2,2] is for 1 samples, but theta has 2"),
            0u);
}

}  // namespace
}  // namespace sardonyx::test
