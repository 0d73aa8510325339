// ConvTranspose: numbers by hand, sizes by pads, output_shape and auto_pad, every geometry on every
// kernel and layout, gradients, constraints.
#include <gtest/gtest.h>

#include "ops/core/infer.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using Ints = std::vector<int64_t>;

struct Geometry {
  std::string name;
  Ints x, w;
  Attributes attributes = {};
  bool bias = false;
};

const std::vector<Geometry> kGeometries = {
    {"k2_s2", {2, 3, 3, 2}, {3, 2, 2, 2}, {{"strides", Ints{2, 2}}}},
    {"k3_s2_p1_op1",
     {2, 2, 3, 3},
     {2, 3, 3, 3},
     {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"output_padding", Ints{1, 1}}},
     true},
    {"plain_with_bias", {2, 3, 2, 3}, {3, 4, 1, 1}, {}, true},
    {"two_groups", {2, 4, 3, 3}, {4, 3, 2, 2}, {{"group", int64_t{2}}}, true},
    {"depthwise", {1, 3, 3, 3}, {3, 1, 3, 3}, {{"group", int64_t{3}}, {"strides", Ints{2, 2}}}},
    {"dilation2", {1, 2, 3, 3}, {2, 1, 2, 2}, {{"dilations", Ints{2, 2}}}},
    {"uneven_pads", {1, 2, 4, 4}, {2, 2, 3, 3}, {{"pads", Ints{0, 1, 2, 0}}}, true},
    {"stride_and_dilation_differ",
     {1, 2, 3, 2},
     {2, 2, 2, 3},
     {{"strides", Ints{1, 3}}, {"dilations", Ints{3, 1}}}},
    {"output_shape",
     {1, 1, 3, 3},
     {1, 2, 3, 3},
     {{"strides", Ints{2, 2}}, {"output_shape", Ints{6, 5}}}},
    {"same_upper",
     {1, 2, 3, 2},
     {2, 1, 3, 3},
     {{"strides", Ints{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}}},
    {"kernel_smaller_than_stride",
     {1, 1, 2, 2},
     {1, 2, 1, 1},
     {{"strides", Ints{2, 3}}, {"output_padding", Ints{1, 2}}},
     true},
    {"one_axis", {2, 3, 4}, {3, 2, 3}, {{"strides", Ints{2}}, {"pads", Ints{1, 0}}}, true},
    {"three_axes",
     {1, 2, 2, 2, 3},
     {2, 2, 2, 1, 2},
     {{"strides", Ints{2, 1, 1}}, {"output_padding", Ints{1, 0, 0}}},
     true},
    {"four_axes", {1, 1, 2, 1, 2, 2}, {1, 2, 1, 2, 2, 1}},
};

OpCase case_of(const Geometry& g) {
  OpCase c;
  c.claim = g.name;
  c.op = "ConvTranspose";
  c.inputs = {random(g.x), parameter(random(g.w))};
  const auto group = g.attributes.find("group");
  const int64_t groups = group == g.attributes.end() ? 1 : std::get<int64_t>(group->second);
  if (g.bias) c.inputs.push_back(parameter(random({g.w[1] * groups})));
  c.attributes = g.attributes;
  c.batch = true;
  c.must_run = {"conv.ref"};
  const size_t axes = g.x.size() - 2;
  if (axes <= 3) c.must_run.push_back("conv.onednn");
  if (axes <= 2) c.must_run.push_back("conv.lanes");
  return c;
}

OpCase on(Ints x, Ints w, Attributes attributes = {}) {
  return case_of({"", std::move(x), std::move(w), std::move(attributes)});
}

TEST(ConvTranspose, lays_the_kernel_around_every_cell) {
  OpCase c = on({1, 1, 2, 2}, {1, 1, 2, 2}, {{"strides", Ints{1, 2}}});
  c.inputs = {given(doubles({1, 1, 2, 2}, {1, 2, 3, 4})),
              parameter(given(doubles({1, 1, 2, 2}, {1, 10, 100, 1000}))),
              parameter(given(doubles({1}, {0.5})))};
  c.expected = {doubles({1, 1, 3, 4}, {1.5, 10.5, 2.5, 20.5, 103.5, 1030.5, 204.5, 2040.5, 300.5,
                                       3000.5, 400.5, 4000.5})};
  c.gradient_tolerance = {1e-6, 1e-4};
  c.dy = {doubles({1, 1, 3, 4}, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2})};
  c.expected_gradients = {doubles({1, 1, 2, 2}, {1, 0, 0, 2000}),
                          doubles({1, 1, 2, 2}, {1, 0, 0, 8}), doubles({1}, {3})};
  check_op(c);
}

TEST(ConvTranspose, groups_make_their_own_channels_only) {
  OpCase c = on({1, 2, 2}, {2, 1, 1}, {{"group", int64_t{2}}});
  c.inputs = {given(doubles({1, 2, 2}, {1, 2, 30, 40})),
              parameter(given(doubles({2, 1, 1}, {2, 3})))};
  c.expected = {doubles({1, 2, 2}, {2, 4, 90, 120})};
  check_op(c);
}

TEST(ConvTranspose, every_geometry_agrees_on_all_kernels_and_layouts) {
  for (const Geometry& g : kGeometries) check_op(case_of(g));
}

// --- Sizes and pads: 1 at every cell, so that y counts the windows that reach a cell.

std::vector<double> counts(int64_t x, int64_t kernel, Attributes attributes) {
  OpCase c = on({1, 1, x}, {1, 1, kernel}, std::move(attributes));
  c.inputs = {random({1, 1, x}, 1, 1), random({1, 1, kernel}, 1, 1)};
  return reference(c).at(0).to_doubles();
}

using Counts = std::vector<double>;

TEST(ConvTranspose, pads_are_cut_off_and_output_padding_is_added_behind) {
  EXPECT_EQ(counts(2, 3, {{"strides", Ints{2}}}), (Counts{1, 1, 2, 1, 1}));
  EXPECT_EQ(counts(2, 3, {{"strides", Ints{2}}, {"pads", Ints{2, 1}}}), (Counts{2, 1}));
  EXPECT_EQ(counts(2, 3, {{"strides", Ints{2}}, {"output_padding", Ints{1}}}),
            (Counts{1, 1, 2, 1, 1, 0}));
}

TEST(ConvTranspose, output_shape_puts_the_larger_pad_in_front) {
  EXPECT_EQ(counts(2, 3, {{"strides", Ints{2}}, {"output_shape", Ints{4}}}), (Counts{1, 2, 1, 1}));
  EXPECT_EQ(counts(2, 3, {{"strides", Ints{2}}, {"output_shape", Ints{4}}, {"pads", Ints{7, 7}}}),
            (Counts{1, 2, 1, 1}));
}

TEST(ConvTranspose, same_multiplies_the_size_by_the_stride) {
  const std::string upper = "SAME_UPPER", lower = "SAME_LOWER";
  EXPECT_EQ(counts(2, 3, {{"strides", Ints{2}}, {"auto_pad", upper}}), (Counts{1, 1, 2, 1}));
  EXPECT_EQ(counts(2, 3, {{"strides", Ints{2}}, {"auto_pad", lower}}), (Counts{1, 2, 1, 1}));
  EXPECT_EQ(counts(2, 1, {{"strides", Ints{2}}, {"auto_pad", upper}}), (Counts{1, 0, 1, 0}));
}

TEST(ConvTranspose, valid_cuts_nothing) {
  EXPECT_EQ(counts(2, 2, {{"auto_pad", std::string("VALID")}, {"pads", Ints{1, 1}}}),
            (Counts{1, 2, 1}));
}

TEST(ConvTranspose, unknown_sizes_propagate_and_the_batch_keeps_its_name) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {graph::Dim::named("N"), 2, {}, 4}));
  auto* w = g.add_input("w", ops::TensorType(DType::kFloat32, {2, 3, 2, 2}));
  auto* u = g.add_input("u", ops::TensorType::unranked(DType::kFloat32));
  ops::OpBuilder b(g);
  EXPECT_EQ(b.op("ConvTranspose", {x, w})->type.str(), "float[N,3,?,5]");
  EXPECT_FALSE(b.op("ConvTranspose", {u, w})->type.ranked);
}

// --- Constraints

TEST(ConvTranspose, c1_rejects_other_ranks) {
  EXPECT_NE(infer_error(on({1, 2, 3}, {2, 1, 2, 2})).find("C1: x has rank 3 "), std::string::npos);
}

TEST(ConvTranspose, c2_rejects_channel_mismatch) {
  EXPECT_NE(infer_error(on({1, 2, 3}, {3, 1, 2})).find("has 2 channels, but w [3,1,2] takes 3"),
            std::string::npos);
}

TEST(ConvTranspose, c3_rejects_groups_that_do_not_divide) {
  EXPECT_NE(infer_error(on({1, 3, 3}, {3, 1, 2}, {{"group", int64_t{2}}})).find("C3: group 2"),
            std::string::npos);
}

TEST(ConvTranspose, c4_rejects_another_kernel_shape) {
  EXPECT_NE(infer_error(on({1, 1, 3}, {1, 1, 2}, {{"kernel_shape", Ints{3}}})).find("C4"),
            std::string::npos);
}

TEST(ConvTranspose, c5_rejects_a_bias_of_another_size) {
  OpCase c = on({1, 2, 3}, {2, 3, 2});
  c.inputs.push_back(parameter(random({2})));
  EXPECT_NE(infer_error(c).find("C5: b is [2], expected [3]: one number for each output channel"),
            std::string::npos);
}

TEST(ConvTranspose, c5_says_an_unknown_size_in_words) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {1, 2, 3}));
  auto* w = g.add_input("w", ops::TensorType(DType::kFloat32, {2, graph::Dim::named("M"), 2}));
  auto* b = g.add_input("b", ops::TensorType(DType::kFloat32, {3, 1}));
  auto* node = g.add_node("", "ConvTranspose", {x, w, b}, {"y"});
  try {
    ops::infer_node(*node);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("b is [3,1], expected [?]: one number"),
              std::string::npos)
        << error.what();
  }
}

TEST(ConvTranspose, c6_rejects_integers) {
  OpCase c = on({1, 2, 3}, {2, 3, 2});
  c.inputs[1] = given(ints({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_NE(infer_error(c).find("C6"), std::string::npos);
}

TEST(ConvTranspose, t1_rejects_sizes_that_do_not_match_the_axes) {
  EXPECT_NE(infer_error(on({1, 1, 3}, {1, 1, 2}, {{"output_padding", Ints{1, 1}}}))
                .find("T1: output_padding is [1,1], expected one size for each of 1"),
            std::string::npos);
  EXPECT_NE(infer_error(on({1, 1, 3}, {1, 1, 2}, {{"output_shape", Ints{-4}}})).find("T1"),
            std::string::npos);
}

TEST(ConvTranspose, t2_rejects_an_empty_output) {
  EXPECT_NE(infer_error(on({1, 1, 2}, {1, 1, 2}, {{"pads", Ints{2, 1}}}))
                .find("T2: the output would be empty"),
            std::string::npos);
}

TEST(ConvTranspose, t3_rejects_cells_that_no_window_reaches) {
  EXPECT_NE(infer_error(on({1, 1, 2}, {1, 1, 2}, {{"output_shape", Ints{9}}}))
                .find("T3: spatial axis 0: 9 cells are asked for"),
            std::string::npos);
  EXPECT_NE(infer_error(on({1, 1, 2}, {1, 1, 2}, {{"output_padding", Ints{1}}})).find("T3"),
            std::string::npos);
}

TEST(ConvTranspose, w7_rejects_axes_beyond_32_bits) {
  EXPECT_NE(infer_error(on({1, 1, 1000}, {1, 1, 2}, {{"strides", Ints{2147483647}}})).find("W7"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
