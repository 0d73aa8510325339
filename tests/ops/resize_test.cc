// Resize: where cells lie (every coordinate and rounding mode by numbers), sizes and scales, old
// opsets, gradients, kernels and layouts, constraints.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/names.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using ops::BatchRole;
using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

OpInput scales(const std::vector<float>& values) {
  return exactly(constant(floats({static_cast<int64_t>(values.size())}, values)));
}

OpCase on(OpInput x, OpInput by, Attributes attributes = {}) {
  OpCase c;
  c.claim = "Resize";
  c.op = "Resize";
  c.inputs = {std::move(x), left_out(), std::move(by)};
  c.attributes = std::move(attributes);
  c.must_run = {"resize.ref", "resize.rows"};
  return c;
}

OpCase to_sizes(OpInput x, Ints sizes, Attributes attributes = {}) {
  OpCase c = on(std::move(x), left_out(), std::move(attributes));
  c.inputs.push_back(constant_ints(std::move(sizes)));
  return c;
}

Attributes named(const char* mode, const char* coordinates, const char* nearest = nullptr) {
  Attributes attributes{{"mode", std::string(mode)},
                        {"coordinate_transformation_mode", std::string(coordinates)}};
  if (nearest != nullptr) attributes["nearest_mode"] = std::string(nearest);
  return attributes;
}

// One axis whose cells hold 0, 10, 20, ...: y says where its cells lie.
Numbers places(int64_t cells, float scale, const Attributes& attributes) {
  Numbers x;
  for (int64_t i = 0; i < cells; ++i) x.push_back(10 * static_cast<double>(i));
  return reference(on(given(doubles({cells}, x)), scales({scale}), attributes)).at(0).to_doubles();
}

void expect_near(const Numbers& got, const Numbers& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << "cell " << i;
}

TEST(Resize, linear_half_pixel_returns_its_gradient_with_the_same_weights) {
  OpCase c =
      on(given(doubles({1, 1, 1, 2}, {0, 4})), scales({1, 1, 1, 2}), named("linear", "half_pixel"));
  c.expected = {doubles({1, 1, 1, 4}, {0, 1, 3, 4})};
  c.dy = {doubles({1, 1, 1, 4}, {1, 10, 100, 1000})};
  c.expected_gradients = {doubles({1, 1, 1, 2}, {1 + 7.5 + 25, 2.5 + 75 + 1000})};
  check_op(c);
}

TEST(Resize, nearest_sends_the_gradient_of_all_copies_back) {
  OpCase c = on(given(doubles({1, 1, 2, 2}, {1, 2, 3, 4})), scales({1, 1, 2, 2}),
                named("nearest", "asymmetric", "floor"));
  c.expected = {doubles({1, 1, 4, 4}, {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4})};
  c.dy = {doubles({1, 1, 4, 4}, {1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0})};
  c.expected_gradients = {doubles({1, 1, 2, 2}, {4, 0, 0, 5})};
  check_op(c);
}

TEST(Resize, coordinates_of_linear) {
  expect_near(places(3, 2, named("linear", "half_pixel")), {0, 2.5, 7.5, 12.5, 17.5, 20});
  expect_near(places(3, 2, named("linear", "pytorch_half_pixel")), {0, 2.5, 7.5, 12.5, 17.5, 20});
  expect_near(places(3, 2, named("linear", "asymmetric")), {0, 5, 10, 15, 20, 20});
  expect_near(places(3, 2, named("linear", "align_corners")), {0, 4, 8, 12, 16, 20});
  expect_near(places(3, 2, named("linear", "tf_half_pixel_for_nn")),
              {2.5, 7.5, 12.5, 17.5, 20, 20});
  expect_near(places(4, 0.5, named("linear", "half_pixel")), {5, 25});
}

TEST(Resize, one_output_cell_has_a_place_of_its_own) {
  expect_near(places(4, 0.25, named("linear", "half_pixel")), {15});
  expect_near(places(4, 0.25, named("linear", "pytorch_half_pixel")), {0});
  expect_near(places(4, 0.25, named("linear", "align_corners")), {0});
}

TEST(Resize, symmetric_keeps_the_middle_where_sizes_are_rounded_down) {
  // 5 * 0.5 = 2.5 becomes 2 cells: 0.25 cells of x are cut off on either side.
  expect_near(places(5, 0.5F, named("linear", "half_pixel")), {5, 25});
  expect_near(places(5, 0.5F, named("linear", "half_pixel_symmetric")), {10, 30});
}

TEST(Resize, rounding_of_nearest) {
  const auto at = [](const char* nearest) {
    return places(4, 0.5, named("nearest", "half_pixel", nearest));  // 0.5, 2.5
  };
  EXPECT_EQ(at("round_prefer_floor"), (Numbers{0, 20}));
  EXPECT_EQ(at("round_prefer_ceil"), (Numbers{10, 30}));
  EXPECT_EQ(at("floor"), (Numbers{0, 20}));
  EXPECT_EQ(at("ceil"), (Numbers{10, 30}));
}

TEST(Resize, a_third_that_is_no_exact_number_does_not_shift_a_cell) {
  const float third = 1.0F / 3;
  EXPECT_EQ(places(6, third, named("nearest", "half_pixel", "floor")), (Numbers{10, 40}));
  EXPECT_EQ(places(6, third, named("nearest", "asymmetric", "ceil")), (Numbers{0, 30}));
  EXPECT_EQ(places(10, 0.7F, named("nearest", "asymmetric", "floor")).size(), 7u);
}

TEST(Resize, cubic_uses_four_cells) {
  // Weights at 1/4 and 3/4 between cells, a = -0.75.
  const Numbers w = {-0.10546875, 0.87890625, 0.26171875, -0.03515625};
  const Numbers x = {1, 2, 4, 8};
  OpCase c = on(given(doubles({4}, x)), scales({2}), named("cubic", "half_pixel"));
  const double y3 = w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3];
  const double y4 = w[3] * x[0] + w[2] * x[1] + w[1] * x[2] + w[0] * x[3];
  const Numbers y = reference(c).at(0).to_doubles();
  EXPECT_NEAR(y[3], y3, 1e-12);
  EXPECT_NEAR(y[4], y4, 1e-12);
  EXPECT_NEAR(y[1], (w[0] + w[1]) * x[0] + w[2] * x[1] + w[3] * x[2], 1e-12);
  c.attributes["exclude_outside"] = int64_t{1};
  EXPECT_NEAR(reference(c).at(0).to_doubles()[1],
              (w[1] * x[0] + w[2] * x[1] + w[3] * x[2]) / (1 - w[0]), 1e-12);
  c.attributes["cubic_coeff_a"] = -0.5;
  check_op(c);
}

TEST(Resize, crop_takes_a_part_and_fills_what_lies_outside) {
  OpCase c =
      to_sizes(given(doubles({4}, {0, 10, 20, 30})), {4}, named("linear", "tf_crop_and_resize"));
  c.inputs[1] = exactly(constant(floats({2}, {0.5F, 1.5F})));
  c.attributes["extrapolation_value"] = -1.0;
  c.expected = {doubles({4}, {15, 25, -1, -1})};
  check_op(c);
}

TEST(Resize, every_mode_agrees_on_all_kernels_and_layouts) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* coordinates : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                    "align_corners", "asymmetric"}) {
      OpCase c = on(random({2, 3, 4, 5}), scales({1, 1, 1.5, 0.6F}), named(mode, coordinates));
      c.batch = true;
      c.must_run.push_back("resize.lanes");
      check_op(c);
    }
  }
}

TEST(Resize, any_axes_may_be_resized) {
  check_op(on(random({2, 3, 4}), scales({1.5, 1, 2})));
  check_op(on(random({2, 4, 5, 18}), scales({1, 2, 0.5, 1}), named("linear", "half_pixel")));
  check_op(on(random({3, 4}), scales({1, 1})));
  OpCase c = on(random({2, 3, 4, 5}), scales({2, 0.6F}), {{"axes", Ints{-1, 1}}});
  c.batch = true;
  EXPECT_EQ(inferred_type(c), "float[N:2,1,4,10]");
  check_op(c);
}

TEST(Resize, sizes_give_the_scales) {
  OpCase c = to_sizes(random({2, 3, 4, 5}), {2, 3, 7, 10}, named("linear", "align_corners"));
  c.batch = true;
  c.fixed_rows = true;
  EXPECT_EQ(inferred_type(c), "float[N:2,3,7,10]");
  check_op(c);
}

TEST(Resize, an_empty_tensor_of_scales_counts_as_left_out) {
  OpCase c = to_sizes(random({1, 4}), {1, 6});
  c.inputs[1] = c.inputs[2] = scales({});
  EXPECT_EQ(inferred_type(c), "float[1,6]");
}

TEST(Resize, policies_keep_the_aspect_ratio) {
  OpCase c = to_sizes(random({1, 1, 2, 4}), {7, 8}, {{"axes", Ints{2, 3}}});
  c.attributes["keep_aspect_ratio_policy"] = std::string("not_larger");
  EXPECT_EQ(inferred_type(c), "float[1,1,4,8]");
  check_op(c);
  c.attributes["keep_aspect_ratio_policy"] = std::string("not_smaller");
  EXPECT_EQ(inferred_type(c), "float[1,1,7,14]");
  check_op(c);
}

TEST(Resize, gradient_operator_runs_by_rows_in_lanes) {
  OpCase c;
  c.claim = "ResizeGrad";
  c.domain = ops::kDomain;
  c.op = "ResizeGrad";
  c.inputs = {random({2, 3, 6, 3})};
  c.attributes = {{"mode", std::string("linear")},
                  {"axes", Ints{2, 3}},
                  {"input_shape", Ints{4, 5}},
                  {"scales", Numbers{1.5, 0.6}}};
  c.batch = true;
  c.must_run = {"resize.ref", "resize.rows", "resize.lanes"};
  check_op(c);
  c.attributes["axes"] = Ints{0, 2};
  c.fixed_rows = true;
  c.must_run = {"resize.ref", "resize.rows"};
  check_op(c);
}

TEST(Resize, resizing_the_batch_couples_rows) {
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {graph::Dim(4, "N"), 3}));
  ops::OpBuilder b(g);
  const auto role = [&](const std::vector<float>& by) {
    auto* y = b.op("Resize", {x, nullptr, b.constant(floats({2}, by))});
    return ops::OpRegistry::get().at(*y->producer).batch(*y->producer, 0);
  };
  EXPECT_EQ(role({1, 2}), BatchRole::kRows);
  EXPECT_EQ(role({2, 1}), BatchRole::kCouples);
}

TEST(Resize, a_nan_in_an_unread_cell_stays_there) {
  OpCase c =
      on(given(doubles({3}, {1, std::nan(""), 3})), scales({3}), named("linear", "half_pixel"));
  const Numbers y = reference(c).at(0).to_doubles();
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[8], 3);
}

// --- Old opsets

ops::Node* normalized(graph::Graph& g, const char* op, std::vector<ops::Value*> inputs,
                      Attributes attributes, int64_t opset) {
  auto* node = g.add_node("", op, std::move(inputs), {"y"});
  node->attributes = std::move(attributes);
  ops::normalize_node(*node, opset);
  ops::infer_node(*node);
  return node;
}

TEST(Resize, upsample_becomes_resize) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {1, 1, 2, 3}));
  const auto* seven = normalized(
      g, "Upsample", {x}, {{"mode", std::string("nearest")}, {"scales", Numbers{1, 1, 2, 2}}}, 7);
  EXPECT_EQ(seven->op, "Resize");
  EXPECT_EQ(seven->output(0)->type.str(), "float[1,1,4,6]");
  graph::Graph h;
  x = h.add_input("x", ops::TensorType(DType::kFloat32, {1, 1, 2, 3}));
  auto* by = h.add_constant("s", floats({4}, {1, 1, 1.5, 3}));
  const auto* nine = normalized(h, "Upsample", {x, by}, {{"mode", std::string("linear")}}, 9);
  EXPECT_EQ(nine->op, "Resize");
  EXPECT_EQ(nine->input(1), nullptr);
  EXPECT_EQ(nine->get_string("coordinate_transformation_mode", ""), "asymmetric");
  EXPECT_EQ(nine->output(0)->type.str(), "float[1,1,3,9]");
}

TEST(Resize, opset_10_rounds_down_where_it_grows_and_up_where_it_shrinks) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {4}));
  auto* by = g.add_constant("s", floats({1}, {0.6F}));
  const auto* node = normalized(g, "Resize", {x, by}, {}, 10);
  EXPECT_EQ(node->input(2), by);
  EXPECT_EQ(places(4, 0.6F, node->attributes), (Numbers{0, 20}));
  EXPECT_EQ(places(3, 1.5F, node->attributes), (Numbers{0, 0, 10, 20}));
}

TEST(Resize, later_opsets_stay_as_they_are) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {4}));
  auto* by = g.add_constant("s", floats({1}, {2}));
  for (const int64_t opset : {11, 13, 18, 19}) {
    auto* node = g.add_node("", "Resize", {x, nullptr, by}, {graph::fresh_name(g, "y")});
    ops::normalize_node(*node, opset);
    EXPECT_TRUE(node->attributes.empty());
    EXPECT_EQ(node->input(2), by);
  }
}

TEST(Resize, upsample_below_opset_7_is_refused) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {1, 1, 2, 2}));
  EXPECT_THROW(normalized(g, "Upsample", {x}, {}, 1), Error);
}

// --- Constraints

bool has(const std::string& message, const char* part) {
  return message.find(part) != std::string::npos;
}

TEST(Resize, unknown_sizes_propagate) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {graph::Dim::named("N"), 3, {}}));
  auto* u = g.add_input("u", ops::TensorType::unranked(DType::kFloat32));
  auto* later = g.add_input("later", ops::TensorType(DType::kInt64, {3}));
  ops::OpBuilder b(g);
  auto* by = b.constant(floats({3}, {1, 2, 2}));
  EXPECT_EQ(b.op("Resize", {x, nullptr, by})->type.str(), "float[N,6,?]");
  EXPECT_FALSE(b.op("Resize", {u, nullptr, by})->type.ranked);
  EXPECT_EQ(b.op("Resize", {x, nullptr, nullptr, later})->type.str(), "float[?,?,?]");
}

TEST(Resize, r1_rejects_integers) {
  EXPECT_TRUE(has(infer_error(on(given(ints({2}, {1, 2})), scales({2}))), "R1: input 0 is int64"));
}

Attributes antialiased(const char* mode, int64_t exclude_outside = 0) {
  return {
      {"mode", std::string(mode)}, {"antialias", int64_t{1}}, {"exclude_outside", exclude_outside}};
}

TEST(Resize, antialias_reads_every_cell_of_an_axis_that_shrinks) {
  // To a third: weights 1, 2, 3, 2, 1 around cells 1 and 4; cell -1 is cell 0, cell 6 is cell 5.
  OpCase c =
      on(given(doubles({6}, {9, 0, 0, 0, 0, 18})), scales({1.0f / 3}), antialiased("linear"));
  c.expected = {doubles({2}, {(1 + 2) * 9 / 9.0, (2 + 1) * 18 / 9.0})};
  c.dy = {doubles({2}, {9, 18})};
  c.expected_gradients = {doubles({6}, {3, 3, 2 + 2, 1 + 4, 6, 6})};
  check_op(c);
  c.attributes = antialiased("linear", 1);
  c.expected = {doubles({2}, {2 * 9 / 8.0, 2 * 18 / 8.0})};
  c.dy = {doubles({2}, {8, 16})};
  c.expected_gradients = {doubles({6}, {2, 3, 2 + 2, 1 + 4, 6, 4})};
  check_op(c);
}

// The values of the ONNX node tests resize_downsample_*_antialias: 1 to 16 in a square.
TEST(Resize, antialias_gives_the_values_of_onnx) {
  Numbers square(16);
  for (size_t i = 0; i < square.size(); ++i) square[i] = static_cast<double>(i + 1);
  const OpInput x = given(doubles({1, 1, 4, 4}, square));
  OpCase c = on(x, scales({1, 1, 0.6f, 0.6f}), antialiased("linear"));
  c.expected = {doubles({1, 1, 2, 2}, {2.875, 4.5, 9.375, 11})};
  check_op(c);
  c.attributes = antialiased("cubic");
  c.expected = {doubles({1, 1, 2, 2}, {2.5180721, 4.2858863, 9.589329, 11.357142})};
  check_op(c);
  c = to_sizes(x, {1, 1, 3, 3}, antialiased("linear"));
  c.expected = {doubles({1, 1, 3, 3}, {2.3636363, 3.590909, 4.818182, 7.2727275, 8.5, 9.727273,
                                       12.181818, 13.409091, 14.636364})};
  check_op(c);
  c.attributes = antialiased("cubic");
  c.expected = {doubles({1, 1, 3, 3}, {1.7750092, 3.1200073, 4.4650054, 7.1550016, 8.5, 9.844998,
                                       12.534994, 13.8799925, 15.224991})};
  check_op(c);
}

TEST(Resize, antialias_changes_nothing_on_axes_that_grow_and_for_nearest) {
  for (const char* mode : {"linear", "cubic", "nearest"}) {
    for (const float scale : {2.0f, 0.5f}) {
      if (scale < 1 && std::string(mode) != "nearest") continue;
      const OpInput x = random({7});
      Attributes plain = antialiased(mode);
      plain.erase("antialias");
      expect_near(reference(on(x, scales({scale}), antialiased(mode))).at(0).to_doubles(),
                  reference(on(x, scales({scale}), plain)).at(0).to_doubles());
    }
  }
}

TEST(Resize, antialias_runs_on_all_layouts_with_its_gradient) {
  for (const char* mode : {"linear", "cubic"}) {
    for (const int64_t exclude_outside : {0, 1}) {
      OpCase c =
          on(random({2, 3, 7, 9}), scales({1, 1, 0.45f, 0.3f}), antialiased(mode, exclude_outside));
      c.batch = true;
      check_op(c);
    }
  }
}

TEST(Resize, r2_rejects_unknown_modes_and_antialias_of_a_crop) {
  EXPECT_TRUE(has(infer_error(on(random({2}), scales({2}), named("bilinear", "half_pixel"))),
                  "R2: mode 'bilinear' is none of nearest, linear, cubic"));
  EXPECT_TRUE(has(infer_error(on(random({2}), scales({2}), named("linear", "middle"))),
                  "R2: coordinate_transformation_mode 'middle'"));
  Attributes crop = named("linear", "tf_crop_and_resize");
  crop["antialias"] = int64_t{1};
  EXPECT_TRUE(has(infer_error(on(random({2}), scales({2}), crop)),
                  "R2: antialias 1 doesn't go with tf_crop_and_resize"));
}

TEST(Resize, r3_rejects_missing_or_too_many_numbers) {
  EXPECT_TRUE(has(infer_error(on(random({2}), left_out())), "R3: found 0 scales and 0 sizes"));
  EXPECT_TRUE(has(infer_error(on(random({2}), scales({1, 2}))), "R3: found 2 scales for 1 axes"));
  OpCase c = to_sizes(random({2}), {4});
  c.inputs[2] = scales({2});
  EXPECT_TRUE(has(infer_error(c), "R3: found 1 scales and 1 sizes"));
}

TEST(Resize, r4_rejects_scales_and_sizes_that_make_no_cells) {
  EXPECT_TRUE(has(infer_error(on(random({2}), scales({0}))), "R4: the scale of axis 0 is 0"));
  EXPECT_TRUE(has(infer_error(on(random({2}), scales({0.25}))),
                  "R4: axis 0 can't be resized from 2 cells to 0"));
  EXPECT_TRUE(
      has(infer_error(on(random({2}), scales({1e30F}))), "R4: axis 0 of size 2 is too long"));
  EXPECT_TRUE(has(infer_error(to_sizes(random({2}), {-3})), "R4: the size of axis 0 is -3"));
}

TEST(Resize, r5_rejects_a_crop_without_a_roi) {
  EXPECT_TRUE(has(infer_error(on(random({2}), scales({2}), named("linear", "tf_crop_and_resize"))),
                  "R5: tf_crop_and_resize needs a roi of 2 numbers, found 0"));
}

TEST(Resize, r5_rejects_a_roi_that_is_no_place) {
  const auto crop = [](OpCase c, const std::vector<float>& roi) {
    c.inputs[1] = scales(roi);
    c.attributes = named("nearest", "tf_crop_and_resize");
    return infer_error(c);
  };
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(has(crop(on(random({3}), scales({2})), {nan, 1}),
                  "R5: the roi of axis 0 is nan to 1, expected finite numbers"));
  EXPECT_TRUE(has(crop(to_sizes(random({3}), {2}), {0, infinity}),
                  "R5: the roi of axis 0 is 0 to inf, expected finite numbers"));
  EXPECT_TRUE(has(crop(on(random({3}), scales({2})), {1, 0.5F}),
                  "R5: the roi of axis 0 runs backwards from 1 to 0.5, which takes sizes"));
}

TEST(Resize, a_roi_far_outside_holds_the_extrapolation_value) {
  OpCase c = to_sizes(random({3}), {2}, named("nearest", "tf_crop_and_resize"));
  c.inputs[1] = exactly(constant(doubles({2}, {-1e308, 1e308})));
  c.attributes["extrapolation_value"] = 7.0;
  c.expected = {floats({2}, {7, 7})};
  c.zero_gradients = {0};
  check_op(c);
}

TEST(Resize, r4_rejects_a_common_scale_that_makes_an_axis_too_long) {
  EXPECT_TRUE(has(infer_error(to_sizes(random({1, 8}), {1 << 30, 8},
                                       {{"keep_aspect_ratio_policy", std::string("not_smaller")}})),
                  "R4: axis 1 of size 8 is too long at the scale 1073741824"));
}

TEST(Resize, r6_rejects_a_baked_batch) {
  OpCase c = to_sizes(random({2, 3, 4}), {1, 3, 8});
  c.batch = true;
  EXPECT_TRUE(has(infer_error(c), "R6: the batch size 1 is baked into sizes"));
}

TEST(Resize, sizes_computed_from_data_are_refused_by_name) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {2, 3}));
  auto* sizes = g.add_input("sizes", ops::TensorType(DType::kInt64, {2}));
  ops::OpBuilder b(g);
  try {
    b.op("Resize", {x, nullptr, nullptr, sizes});
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(has(error.what(), "input 3 (sizes) 'sizes' must be known before training"));
  }
}

}  // namespace
}  // namespace sardonyx::test
