// Slice, Pad and their gradients: clamping, negative steps and pads, modes, batch roles, refusals.
#include <gtest/gtest.h>

#include <limits>

#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using graph::Dim;
using ops::BatchRole;
using ops::TensorType;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

OpCase slice(std::string claim, OpInput x, std::vector<int64_t> starts, std::vector<int64_t> ends,
             std::vector<int64_t> axes = {}, std::vector<int64_t> steps = {}) {
  OpCase c;
  c.claim = std::move(claim);
  c.op = "Slice";
  c.inputs = {std::move(x), constant_ints(std::move(starts)), constant_ints(std::move(ends)),
              axes.empty() ? left_out() : constant_ints(axes)};
  if (!steps.empty()) c.inputs.push_back(constant_ints(steps));
  if (axes.empty() && steps.empty()) c.inputs.pop_back();
  return c;
}

void check_slice(OpCase c, Tensor expected) {
  if (expected.numel() == 0) c.zero_gradients = {0};
  c.expected = {std::move(expected)};
  check_op(c);
}

const Tensor kRow = doubles({5}, {0, 1, 2, 3, 4});

TEST(Slice, clamps_starts_and_ends_and_counts_from_the_back) {
  check_slice(slice("[1:3]", given(kRow), {1}, {3}), doubles({2}, {1, 2}));
  check_slice(slice("[-3:1000]", given(kRow), {-3}, {1000}), doubles({3}, {2, 3, 4}));
  check_slice(slice("[2:max]", given(kRow), {2}, {kMax}), doubles({3}, {2, 3, 4}));
  check_slice(slice("[min:-1]", given(kRow), {kMin}, {-1}), doubles({4}, {0, 1, 2, 3}));
  check_slice(slice("[7:9]", given(kRow), {7}, {9}), doubles({0}, {}));
  check_slice(slice("[3:1]", given(kRow), {3}, {1}), doubles({0}, {}));
}

TEST(Slice, a_step_longer_than_the_axis_takes_one_element) {
  check_slice(slice("[1::max]", given(kRow), {1}, {kMax}, {0}, {kMax}), doubles({1}, {1}));
  check_slice(slice("[::min]", given(kRow), {-1}, {kMin}, {0}, {kMin}), doubles({1}, {4}));
}

TEST(Slice, steps_forward_and_back) {
  check_slice(slice("[::2]", given(kRow), {0}, {kMax}, {0}, {2}), doubles({3}, {0, 2, 4}));
  check_slice(slice("[1::3]", given(kRow), {1}, {kMax}, {}, {3}), doubles({2}, {1, 4}));
  check_slice(slice("[::-1]", given(kRow), {-1}, {kMin}, {0}, {-1}), doubles({5}, {4, 3, 2, 1, 0}));
  check_slice(slice("[::-2]", given(kRow), {kMax}, {kMin}, {0}, {-2}), doubles({3}, {4, 2, 0}));
  check_slice(slice("[3:0:-2]", given(kRow), {3}, {0}, {0}, {-2}), doubles({2}, {3, 1}));
  check_slice(slice("[0:3:-1]", given(kRow), {0}, {3}, {0}, {-1}), doubles({0}, {}));
}

TEST(Slice, cuts_the_listed_axes_in_any_order) {
  OpCase c =
      slice("axes [-1,0]", given(doubles({2, 3}, {1, 2, 3, 4, 5, 6})), {1, 1}, {3, 2}, {-1, 0});
  c.must_run = {"slice.ref", "slice.strided"};
  check_slice(c, doubles({1, 2}, {5, 6}));
  check_op(slice("middle axis back", random({2, 4, 3}), {3}, {0}, {1}, {-2}));
  OpCase empty = slice("of an empty axis", random({2, 0}), {-1}, {kMin}, {1}, {-1});
  empty.zero_gradients = {0};
  check_op(empty);
}

TEST(Slice, works_on_integers) {
  OpCase c = slice("int64", given(ints({3}, {8, 3, 32})), {0}, {1});
  c.expected = {ints({1}, {8})};
  check_op(c);
  EXPECT_EQ(inferred_type(c), "int64[1]");
}

TEST(Slice, runs_per_block_and_in_lanes_beside_axis_0) {
  OpCase c = slice("channels", random({3, 5, 2}), {4}, {0}, {1}, {-2});
  c.batch = true;
  c.must_run = {"slice.lanes"};
  check_op(c);
  c = slice("all rows, some columns", random({3, 4}), {0, 1}, {kMax, 3});
  c.batch = true;
  check_op(c);
  c = slice("one row", random({3, 4}), {0}, {1});
  c.batch = true;
  c.empty_batch = false;
  check_op(c);
}

std::string slice_type(std::vector<Dim> dims, std::vector<int64_t> starts,
                       std::vector<int64_t> ends, BatchRole* role = nullptr) {
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", TensorType(DType::kFloat32, std::move(dims)));
  const int64_t count = std::ssize(starts);
  auto* node = g.add_node(
      "", "Slice",
      {x, g.add_constant("s", ints({count}, starts)), g.add_constant("e", ints({count}, ends))},
      {"y"});
  ops::infer_node(*node);
  if (role != nullptr) *role = ops::OpRegistry::get().at(*node).batch(*node, 0);
  return node->output(0)->type.str();
}

TEST(Slice, keeps_an_axis_that_comes_through_whole) {
  BatchRole role;
  EXPECT_EQ(slice_type({Dim(8, "N"), 4}, {0, 1}, {kMax, 3}, &role), "float[N:8,2]");
  EXPECT_EQ(role, BatchRole::kRows);
  EXPECT_EQ(slice_type({Dim(8, "N"), 4}, {0}, {8}, &role), "float[N:8,4]");
  EXPECT_EQ(role, BatchRole::kRows);
  EXPECT_EQ(slice_type({Dim(8, "N"), 4}, {0}, {7}, &role), "float[7,4]");
  EXPECT_EQ(role, BatchRole::kCouples);
  EXPECT_EQ(slice_type({Dim::named("N"), 4}, {0}, {2147483647}), "float[N,4]");
  EXPECT_EQ(slice_type({Dim::named("N"), 4}, {1}, {kMax}), "float[?,4]");
}

TEST(Slice, c1_c2_c3_reject_bad_axes_lengths_and_steps) {
  EXPECT_NE(infer_error(slice("sl", random({2}), {0}, {1}, {1})).find("axis 1 is out of range"),
            std::string::npos);
  EXPECT_NE(infer_error(slice("sl", random({2, 2}), {0, 0}, {1, 1}, {0, -2}))
                .find("axis -2 is listed twice"),
            std::string::npos);
  EXPECT_NE(infer_error(slice("sl", random({2}), {0, 0}, {1})).find("C2: starts [0,0], ends [1]"),
            std::string::npos);
  EXPECT_EQ(infer_error(slice("sl0", random({1, 4}), {0}, {2}, {1}, {0})),
            "C3: step of axis 1 is 0\n  while inferring shapes of node sl0 (Slice)");
}

OpCase slice_grad(std::string claim, OpInput dy, std::vector<int64_t> shape,
                  std::vector<int64_t> starts, std::vector<int64_t> steps) {
  return {.claim = std::move(claim),
          .domain = "sardonyx",
          .op = "SliceGrad",
          .inputs = {std::move(dy)},
          .attributes = {{"shape", shape}, {"starts", starts}, {"steps", steps}}};
}

TEST(SliceGrad, puts_dy_into_zeros) {
  OpCase c = slice_grad("back by 2", given(doubles({2}, {7, 8})), {5}, {3}, {-2});
  c.expected = {doubles({5}, {0, 8, 0, 7, 0})};
  check_op(c);
  c = slice_grad("batch", random({3, 2, 2}), {3, 5, 2}, {0, 1, 0}, {1, 2, 1});
  c.batch = c.fixed_rows = true;
  c.must_run = {"slice_grad.ref", "slice_grad.strided", "slice_grad.lanes"};
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[N:3,5,2]");
}

OpCase pad(std::string claim, OpInput x, std::vector<int64_t> pads, std::string mode = "constant") {
  return {.claim = std::move(claim),
          .op = "Pad",
          .inputs = {std::move(x), constant_ints(std::move(pads))},
          .attributes = {{"mode", std::move(mode)}}};
}

void check_pad(OpCase c, Tensor expected) {
  c.expected = {std::move(expected)};
  c.must_run = {"pad.ref", "pad.strided"};
  check_op(c);
}

const Tensor kThree = doubles({3}, {1, 2, 3});

TEST(Pad, puts_a_border_of_each_mode) {
  check_pad(pad("constant", given(kThree), {1, 2}), doubles({6}, {0, 1, 2, 3, 0, 0}));
  check_pad(pad("reflect", given(kThree), {2, 2}, "reflect"), doubles({7}, {3, 2, 1, 2, 3, 2, 1}));
  check_pad(pad("edge", given(kThree), {2, 1}, "edge"), doubles({6}, {1, 1, 1, 2, 3, 3}));
  check_pad(pad("wrap", given(kThree), {2, 4}, "wrap"), doubles({9}, {2, 3, 1, 2, 3, 1, 2, 3, 1}));
  check_pad(pad("reflect further than the axis", given(kThree), {0, 5}, "reflect"),
            doubles({8}, {1, 2, 3, 2, 1, 2, 3, 2}));
  check_pad(pad("reflect of one element", given(doubles({1}, {4})), {1, 2}, "reflect"),
            doubles({4}, {4, 4, 4, 4}));
}

TEST(Pad, crops_with_negative_pads_before_it_adds) {
  check_pad(pad("constant", given(kThree), {-1, 2}), doubles({4}, {2, 3, 0, 0}));
  check_pad(pad("both", given(kThree), {-1, -1}), doubles({1}, {2}));
  check_pad(pad("edge", given(kThree), {2, -1}, "edge"), doubles({4}, {1, 1, 1, 2}));
  check_pad(pad("wrap", given(kThree), {-1, 2}, "wrap"), doubles({4}, {2, 3, 2, 3}));
}

TEST(Pad, fills_with_the_constant_value) {
  OpCase c = pad("7", given(kThree), {1, 0});
  c.inputs.push_back(constant(doubles({}, {7})));
  check_pad(c, doubles({4}, {7, 1, 2, 3}));
  c.inputs[2] = constant(floats({1}, {7}));
  c.inputs[2].keep_dtype = true;  // a float attribute of an old node over doubles
  check_pad(c, doubles({4}, {7, 1, 2, 3}));
  c.inputs[2] = parameter(given(doubles({}, {7})));
  check_pad(c, doubles({4}, {7, 1, 2, 3}));
  OpCase integers = pad("int64", given(ints({2}, {1, 2})), {0, 1});
  integers.inputs.push_back(constant(ints({}, {-1})));
  check_pad(integers, ints({3}, {1, 2, -1}));
}

TEST(Pad, pads_the_listed_axes_only) {
  OpCase c = pad("axes [-1]", given(doubles({2, 1}, {1, 2})), {1, 1});
  c.inputs.push_back(left_out());
  c.inputs.push_back(constant_ints({-1}));
  check_pad(c, doubles({2, 3}, {0, 1, 0, 0, 2, 0}));
}

TEST(Pad, gradient_adds_every_copy_to_its_source) {
  OpCase c = pad("edge", given(kThree), {2, 1}, "edge");
  c.dy = {doubles({6}, {1, 2, 3, 4, 5, 6})};
  c.expected_gradients = {doubles({3}, {6, 4, 11})};
  check_op(c);
  for (const std::string mode : {"constant", "reflect", "edge", "wrap"}) {
    check_op(pad(mode + " in three axes", random({2, 3, 4}), {1, 2, 1, 1, 0, 2}, mode));
    check_op(pad(mode + " cropping", random({3, 4, 3}), {-1, 1, 0, 1, -2, 0}, mode));
  }
}

TEST(Pad, runs_per_block_and_in_lanes_beside_axis_0) {
  for (const std::string mode : {"constant", "reflect", "edge", "wrap"}) {
    OpCase c = pad(mode, random({3, 2, 3}), {0, 1, 2, 0, 0, 1}, mode);
    c.batch = true;
    c.must_run = {"pad.lanes"};
    check_op(c);
  }
  OpCase rows = pad("rows too", random({3, 2}), {1, 0, 0, 1});
  rows.batch = true;
  check_op(rows);
}

TEST(Pad, keeps_an_axis_without_pads) {
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", TensorType(DType::kFloat32, {Dim(8, "N"), Dim::named("W")}));
  auto* node = g.add_node("", "Pad", {x, g.add_constant("p", ints({4}, {0, 1, 0, 1}))}, {"y"});
  ops::infer_node(*node);
  EXPECT_EQ(node->output(0)->type.str(), "float[N:8,?]");
  EXPECT_EQ(ops::OpRegistry::get().at(*node).batch(*node, 0), BatchRole::kRows);
}

TEST(Pad, c2_c4_c5_c6_reject_bad_pads_modes_and_values) {
  EXPECT_NE(infer_error(pad("p", random({2}), {1})).find("C2: 1 pads for 1 axes of float[2]"),
            std::string::npos);
  EXPECT_NE(infer_error(pad("p", random({2}), {-2, -1}))
                .find("C4: axis 0 of float[2] with pads -2 and -1 has size -1"),
            std::string::npos);
  EXPECT_NE(infer_error(pad("p", random({0}), {1, 1}, "edge"))
                .find("C4: axis 0 of float[0] has no element to repeat"),
            std::string::npos);
  EXPECT_NE(infer_error(pad("p", random({2}), {1, 1}, "mirror"))
                .find("C5: mode 'mirror' is none of constant, reflect, edge, wrap"),
            std::string::npos);
  OpCase c = pad("p", random({2}), {1, 1});
  c.inputs.push_back(constant(floats({2}, {0, 1})));
  EXPECT_NE(infer_error(c).find("C6: constant_value has type float[2]"), std::string::npos);
  c.inputs[2] = given(ints({}, {0}));
  EXPECT_NE(
      infer_error(c).find(
          "C6: input 2 (constant_value) 'x2' is int64[], but input 0 (data) 'x0' is float[2]: "),
      std::string::npos);
}

TEST(PadGrad, adds_a_border_to_its_source) {
  OpCase c{.claim = "reflect",
           .domain = "sardonyx",
           .op = "PadGrad",
           .inputs = {given(doubles({5}, {1, 2, 3, 4, 5}))},
           .attributes = {{"shape", std::vector<int64_t>{3}},
                          {"pads", std::vector<int64_t>{1, 1}},
                          {"mode", std::string("reflect")}},
           .expected = {doubles({3}, {2, 9, 4})}};
  check_op(c);
  c = {.claim = "batch",
       .domain = "sardonyx",
       .op = "PadGrad",
       .inputs = {random({3, 4})},
       .attributes = {{"shape", std::vector<int64_t>{3, 3}},
                      {"pads", std::vector<int64_t>{0, 2, 0, -1}},
                      {"mode", std::string("wrap")}},
       .batch = true,
       .fixed_rows = true,
       .must_run = {"pad_grad.ref", "pad_grad.strided", "pad_grad.lanes"}};
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[N:3,3]");
}

TEST(SlicePad, old_forms_have_their_attributes_as_inputs) {
  graph::Graph g;
  auto* x = g.add_input("x", TensorType(DType::kFloat32, {3, 4}));
  auto* cut = g.add_node("", "Slice", {x}, {"a"});
  cut->attributes = {{"axes", std::vector<int64_t>{1}},
                     {"ends", std::vector<int64_t>{3}},
                     {"starts", std::vector<int64_t>{1}}};
  ops::normalize_node(*cut, 9);
  ops::infer_node(*cut);
  EXPECT_EQ(cut->output(0)->type.str(), "float[3,2]");
  for (const char* name : {"pads", "paddings"}) {
    auto* border = g.add_node("", "Pad", {x}, {std::string("b_") + name});
    border->attributes = {{name, std::vector<int64_t>{0, 1, 0, 2}}, {"value", 3.0}};
    ops::normalize_node(*border, 2);
    ops::infer_node(*border);
    EXPECT_EQ(border->output(0)->type.str(), "float[3,7]");
    EXPECT_EQ(border->input(2)->data.as_double(0), 3.0);
  }
}

OpCase centered(OpInput x, std::vector<int64_t> sizes, graph::Attributes attributes = {}) {
  return {.claim = "center",
          .op = "CenterCropPad",
          .inputs = {std::move(x), constant_ints(std::move(sizes))},
          .attributes = std::move(attributes),
          .must_run = {"center_crop_pad.ref"}};
}

TEST(CenterCropPad, cuts_and_pads_on_both_sides_and_more_behind) {
  const Tensor x = doubles({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  OpCase c = centered(given(x), {2, 7});
  c.expected = {doubles({2, 7}, {0, 1, 2, 3, 4, 0, 0, 0, 5, 6, 7, 8, 0, 0})};
  c.dy = {doubles({2, 7}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14})};
  c.expected_gradients = {doubles({3, 4}, {2, 3, 4, 5, 9, 10, 11, 12, 0, 0, 0, 0})};
  check_op(c);
  c = centered(given(x), {1}, {{"axes", std::vector<int64_t>{-1}}});
  c.expected = {doubles({3, 1}, {2, 6, 10})};
  check_op(c);
  c = centered(given(x), {3, 4});
  c.expected = {x};
  check_op(c);
  c = centered(given(ints({3}, {1, 2, 3})), {4});
  c.expected = {ints({4}, {1, 2, 3, 0})};
  check_op(c);
}

TEST(CenterCropPad, keeps_the_batch) {
  OpCase c = centered(random({3, 4, 5}), {2, 8}, {{"axes", std::vector<int64_t>{1, 2}}});
  c.batch = true;
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[N:3,2,8]");
  c = centered(random({3, 4}), {2, 4});
  c.batch = true;
  c.fixed_rows = true;
  EXPECT_EQ(inferred_type(c), "float[2,4]");
}

TEST(CenterCropPad, m1_m2_reject_axes_and_sizes_that_dont_fit) {
  EXPECT_EQ(infer_error(centered(random({2, 2}), {1, 2, 3})).find("M2: 3 sizes for 2 axes"), 0u);
  EXPECT_EQ(infer_error(centered(random({2, 2}), {1, -2})).find("M2: the size of axis 1 is -2"),
            0u);
  EXPECT_NE(infer_error(centered(random({2, 2}), {1}, {{"axes", std::vector<int64_t>{2}}}))
                .find("2 is out of range [-2, 1] for rank 2"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
