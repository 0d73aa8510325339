// RoiAlign and MaxRoiPool: numbers of ONNX Runtime 1.19, gradients by hand and by differences,
// errors that name the region.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/names.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

// One channel of two images: all that differs between channels is where they start.
OpInput maps() {
  Numbers values;
  for (int64_t image = 0; image < 2; ++image) {
    for (int64_t i = 0; i < 30; ++i) {
      values.push_back(static_cast<double>(((image * 60 + i) * 37 + 11) % 23 - 11) / 4);
    }
  }
  return given(doubles({2, 1, 5, 6}, values));
}

OpCase align(const std::string& mode, const std::string& corners, int64_t samples) {
  OpCase c;
  c.claim = mode + " " + corners;
  c.op = "RoiAlign";
  c.inputs = {maps(), given(doubles({3, 4}, {1, 1, 8.5, 6.5, -2, 3, 5, 12, 0, 0, 3, 2})),
              given(ints({3}, {1, 0, 1}))};
  c.attributes = {{"mode", mode},
                  {"coordinate_transformation_mode", corners},
                  {"sampling_ratio", samples},
                  {"output_height", int64_t{2}},
                  {"output_width", int64_t{2}},
                  {"spatial_scale", 0.5}};
  c.expected_tolerance = {1e-6, 1e-6};
  c.must_run = {"roi.ref"};
  return c;
}

void expect(OpCase c, const Numbers& numbers) {
  c.expected = {doubles({3, 1, 2, 2}, numbers)};
  check_op(c);
}

TEST(RoiAlign, mean_of_samples) {
  expect(align("avg", "output_half_pixel", 0),
         {0.596923828, -0.516601562, 0.351318359, 0.136230469, 0.05859375, -0.91015625, -1.13541663,
          0.015625, -1.0390625, 0.1484375, -0.2421875, -0.4921875});
  expect(align("avg", "output_half_pixel", 2),
         {0.596923828, -0.516601562, 0.351318359, 0.136230469, 0.232666016, -1.02246094, -0.8515625,
          0.01171875, -1.0390625, 0.05859375, -0.2421875, -0.40234375});
  expect(align("avg", "half_pixel", 0),
         {-0.153076172, 0.440429688, 0.86895752, -0.387756348, 0.151041672, -0.679361999, -0.625,
          -0.107421875, -2.75, -0.5625, -1.8125, -0.5234375});
  expect(align("avg", "half_pixel", 2),
         {-0.153076172, 0.440429688, 0.86895752, -0.387756348, 0.12109375, -0.671875, -1.03125,
          -0.0454101562, -2.640625, -0.5625, -1.74804688, -0.5234375});
}

TEST(RoiAlign, largest_weighted_cell_of_samples) {
  expect(align("max", "output_half_pixel", 0),
         {1.72045898, 0.622558594, 1.89208984, 1.33813477, 1.53125, 0.5859375, 0.390625, 1.015625,
          0.2109375, 0.4921875, 0.46875, 0.2109375});
  expect(align("max", "half_pixel", 2),
         {0.885498047, 1.43041992, 1.06689453, 0.510986328, 0.984375, 0.451171875, 0.0, 0.859375,
          0.046875, 0.609375, 0.375, 0.533203125});
}

TEST(RoiAlign, several_channels_and_regions_share_a_map) {
  OpCase c = align("avg", "half_pixel", 0);
  c.inputs[0] = random({2, 3, 5, 6});
  c.inputs[1] = given(doubles({4, 4}, {0, 0, 9, 9, 1, 2, 7, 8, 1, 2, 7, 8, 3, 3, 4, 4}));
  c.inputs[2] = given(ints({4}, {1, 1, 1, 0}));
  check_op(c);
  c.attributes["mode"] = std::string("max");
  check_op(c);
}

TEST(RoiAlign, sends_the_gradient_to_the_four_cells_around_a_sample) {
  OpCase c = align("avg", "half_pixel", 1);
  c.attributes["output_height"] = c.attributes["output_width"] = int64_t{1};
  c.attributes["spatial_scale"] = 1.0;
  c.inputs = {given(doubles({1, 1, 2, 2}, {1, 2, 3, 4})),
              given(doubles({1, 4}, {0.5, 0, 1.5, 1.5})),  // its middle: x 0.5, y 0.25
              given(ints({1}, {0}))};
  c.expected = {doubles({1, 1, 1, 1}, {0.75 * 1.5 + 0.25 * 3.5})};
  c.dy = {doubles({1, 1, 1, 1}, {8})};
  c.expected_gradients = {doubles({1, 1, 2, 2}, {3, 3, 1, 1})};
  check_op(c);
}

TEST(RoiAlign, of_opset_10_has_no_half_pixel) {
  graph::Graph g;
  const auto input = [&](const char* name, DType dtype, const Ints& shape) {
    return g.add_input(name, graph::TensorType(dtype, {shape.begin(), shape.end()}));
  };
  graph::Node* node =
      g.add_node("", "RoiAlign",
                 {input("x", DType::kFloat32, {1, 1, 2, 2}), input("rois", DType::kFloat32, {1, 4}),
                  input("images", DType::kInt64, {1})},
                 {"y"});
  ops::normalize_node(*node, 10);
  EXPECT_EQ(node->get_string("coordinate_transformation_mode", ""), "output_half_pixel");
}

OpCase max_pool(OpInput x, Tensor rois, Ints bins, double scale) {
  OpCase c;
  c.claim = c.op = "MaxRoiPool";
  c.inputs = {std::move(x), given(std::move(rois))};
  c.attributes = {{"pooled_shape", std::move(bins)}, {"spatial_scale", scale}};
  c.must_run = {"roi.ref"};
  return c;
}

TEST(MaxRoiPool, largest_cell_of_each_bin) {
  OpCase c = max_pool(
      maps(), doubles({4, 5}, {1, 2, 2, 9, 7, 0, -4, 3, 3, 20, 1, 30, 30, 34, 31, 0, 4, 4, 4, 4}),
      {2, 3}, 0.5);
  c.expected = {
      doubles({4, 1, 2, 3}, {2.5, 2.25, 1.5, 2, 2, 1, 0,     1.75,  1.25,  0,     0,     0,
                             0,   0,    0,   0, 0, 0, -2.75, -2.75, -2.75, -2.75, -2.75, -2.75})};
  check_op(c);
}

TEST(MaxRoiPool, the_first_maximum_takes_the_gradient_of_all_bins) {
  OpCase c = max_pool(given(doubles({1, 1, 2, 2}, {7, 7, 1, 7})),
                      doubles({2, 5}, {0, 0, 0, 1, 1, 0, 1, 0, 1, 1}), {1, 1}, 1);
  c.expected = {doubles({2, 1, 1, 1}, {7, 7})};
  c.dy = {doubles({2, 1, 1, 1}, {1, 2})};
  c.expected_gradients = {doubles({1, 1, 2, 2}, {1, 2, 0, 0})};
  c.numeric = Numeric::kSkip;
  check_op(c);
}

std::string message(const OpCase& c) {
  try {
    reference(c);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(RoiAlign, names_a_region_that_can_not_be) {
  OpCase c = align("avg", "half_pixel", 0);
  c.inputs[2] = given(ints({3}, {1, 2, 0}));
  EXPECT_NE(message(c).find("region 1 is of image 2, but x has 2"), std::string::npos)
      << message(c);
  c = align("avg", "half_pixel", 0);
  c.inputs[1] = given(doubles({3, 4}, Numbers(12, std::nan(""))));
  EXPECT_NE(message(c).find("region 0 is (nan, nan)"), std::string::npos) << message(c);
  c.inputs[1] = given(doubles({3, 4}, {0, 0, 1e12, 1, 0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_NE(message(c).find("too long for 2 bins"), std::string::npos) << message(c);
}

TEST(RoiAlign, constraints) {
  const auto error = [](const Attributes& attributes, Ints x, Ints rois, Ints images) {
    OpCase c = align("avg", "half_pixel", 0);
    for (const auto& [name, value] : attributes) c.attributes[name] = value;
    c.inputs = {random(std::move(x)), random(std::move(rois)),
                given(ints(images, Ints(graph::checked_numel(images))))};
    return infer_error(c).substr(0, 3);
  };
  EXPECT_EQ(error({}, {1, 1, 4, 4}, {2, 4}, {2}), "");
  EXPECT_EQ(error({}, {1, 1, 4}, {2, 4}, {2}), "R1:");
  EXPECT_EQ(error({}, {1, 1, 4, 4}, {2, 5}, {2}), "R2:");
  EXPECT_EQ(error({}, {1, 1, 4, 4}, {2, 4}, {3}), "R4:");
  EXPECT_EQ(error({{"output_width", int64_t{0}}}, {1, 1, 4, 4}, {2, 4}, {2}), "R5:");
  EXPECT_EQ(error({{"sampling_ratio", int64_t{-1}}}, {1, 1, 4, 4}, {2, 4}, {2}), "R5:");
  EXPECT_EQ(error({{"mode", std::string("sum")}}, {1, 1, 4, 4}, {2, 4}, {2}), "R6:");
  EXPECT_EQ(
      infer_error(max_pool(random({1, 1, 4, 4}), doubles({1, 5}, Numbers(5)), {2}, 1)).substr(0, 3),
      "R5:");
}

TEST(MaxRoiPool, gradient_operators_add_up_regions_per_image) {
  OpCase c;
  c.claim = c.op = "MaxRoiPoolGrad";
  c.domain = "sardonyx";
  c.inputs = {given(doubles({2, 1, 1, 2}, {1, 2, 4, 3})),
              given(doubles({3, 5}, {0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0})),
              given(doubles({3, 1, 1, 1}, {1, 2, 4}))};
  c.attributes = {{"pooled_shape", Ints{1, 1}}};
  c.expected = {doubles({2, 1, 1, 2}, {0, 5, 2, 0})};
  check_op(c);
  c.claim = c.op = "RoiAlignGrad";  // one sample a region, at x 0.5
  c.inputs[1] = given(doubles({3, 4}, {0.5, 0, 1.5, 1, 0.5, 0, 1.5, 1, 0.5, 0, 1.5, 1}));
  c.inputs.insert(c.inputs.begin() + 2, given(ints({3}, {0, 1, 0})));
  c.attributes = {};
  c.expected = {doubles({2, 1, 1, 2}, {2.5, 2.5, 1, 1})};
  check_op(c);
}

}  // namespace
}  // namespace sardonyx::test
