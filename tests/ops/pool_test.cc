// Pooling: numbers by hand for every open question (ties, pads, ceil, divisors), then every
// geometry on every kernel and layout.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/core/infer.h"
#include "tests/support/kernel_run.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using Ints = std::vector<int64_t>;

OpCase pool_case(const std::string& op, OpInput x, Attributes attributes) {
  OpCase c;
  c.claim = op;
  c.op = op;
  c.inputs = {std::move(x)};
  c.attributes = std::move(attributes);
  c.batch = true;
  return c;
}

// Values that differ by more than the step of the central differences.
OpInput distinct(const Ints& shape) {
  std::vector<double> values(graph::checked_numel(shape));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.25 * static_cast<double>((i * 37 + 11) % 101) - 12.0;
  }
  return given(doubles(shape, values));
}

// --- MaxPool by hand
// -----------------------------------------------------------------------------

TEST(MaxPool, padding_never_wins) {
  OpCase c = pool_case(
      "MaxPool", given(doubles({1, 1, 2, 2}, {-1, -2, -3, -4})),
      {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}});
  c.expected = {doubles({1, 1, 1, 1}, {-1})};
  c.dy = {doubles({1, 1, 1, 1}, {0.5})};
  c.expected_gradients = {doubles({1, 1, 2, 2}, {0.5, 0, 0, 0})};
  check_op(c);
}

TEST(MaxPool, spike_takes_the_gradient_of_all_windows_that_see_it) {
  std::vector<double> x(24, 0.0), dx(24, 0.0);
  for (size_t i = 0; i < x.size(); ++i) x[i] = -0.01 * static_cast<double>(i);
  x[7] = 5;
  dx[7] = 4;
  dx[2] = dx[3] = dx[8] = dx[9] = 1;
  OpCase c = pool_case("MaxPool", given(doubles({1, 1, 4, 6}, x)), {{"kernel_shape", Ints{3, 3}}});
  c.expected = {doubles({1, 1, 2, 4}, {5, 5, -.02, -.03, 5, 5, -.08, -.09})};
  c.dy = {doubles({1, 1, 2, 4}, std::vector<double>(8, 1.0))};
  c.expected_gradients = {doubles({1, 1, 4, 6}, dx)};
  check_op(c);
}

TEST(MaxPool, first_of_equals_in_row_major_order_takes_the_gradient) {
  OpCase c = pool_case("MaxPool", given(doubles({1, 1, 3, 3}, {0, 0, 0, 0, 1, 0, 0, 0, 1})),
                       {{"kernel_shape", Ints{2, 2}}});
  c.expected = {doubles({1, 1, 2, 2}, {1, 1, 1, 1})};
  c.dy = {doubles({1, 1, 2, 2}, {1, 2, 4, 8})};
  c.expected_gradients = {doubles({1, 1, 3, 3}, {0, 0, 0, 0, 15, 0, 0, 0, 0})};
  c.numeric = Numeric::kSkip;
  check_op(c);
  c.inputs = {given(doubles({1, 1, 3, 3}, std::vector<double>(9, 7.0)))};
  c.expected = {doubles({1, 1, 2, 2}, {7, 7, 7, 7})};
  c.expected_gradients = {doubles({1, 1, 3, 3}, {1, 2, 0, 4, 8, 0, 0, 0, 0})};
  check_op(c);
}

TEST(MaxPool, nan_beats_numbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  OpCase c =
      pool_case("MaxPool", given(doubles({1, 1, 4}, {1, nan, 3, 2})), {{"kernel_shape", Ints{2}}});
  c.expected = {doubles({1, 1, 3}, {nan, nan, 3})};
  c.differentiate = std::vector<int>{};
  check_op(c);
}

TEST(MaxPool, minus_infinity_is_a_value) {
  const double inf = std::numeric_limits<double>::infinity();
  OpCase c = pool_case("MaxPool", given(doubles({1, 1, 4}, {-inf, -inf, -1, -inf})),
                       {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}});
  c.expected = {doubles({1, 1, 2}, {-inf, -1})};
  c.differentiate = std::vector<int>{};
  check_op(c);
}

TEST(MaxPool, ceil_keeps_a_partial_window) {
  OpCase c =
      pool_case("MaxPool", given(doubles({1, 1, 5}, {1, 2, 3, 4, 5})),
                {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}});
  c.expected = {doubles({1, 1, 3}, {2, 4, 5})};
  check_op(c);
}

TEST(MaxPool, ceil_drops_a_window_that_starts_in_the_end_padding) {
  OpCase c = pool_case("MaxPool", distinct({1, 1, 3, 6, 5}),
                       {{"kernel_shape", Ints{3, 3, 3}},
                        {"strides", Ints{3, 3, 3}},
                        {"pads", Ints{1, 1, 1, 1, 1, 1}},
                        {"ceil_mode", int64_t{1}}});
  EXPECT_EQ(inferred_type(c), "float[N:1,1,2,3,2]");
  check_op(c);
}

TEST(MaxPool, indices_count_the_whole_tensor) {
  const OpInput x = given(doubles({2, 1, 2, 4}, {1, 9, 2, 3, 4, 5, 8, 6, 7, 1, 1, 2, 3, 4, 9, 5}));
  OpCase c = pool_case("MaxPool", x, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  c.num_outputs = 2;
  c.expected = {doubles({2, 1, 1, 2}, {9, 8, 7, 9}), ints({2, 1, 1, 2}, {1, 6, 8, 14})};
  c.batch = false;
  check_op(c);
  c.attributes["storage_order"] = int64_t{1};
  c.expected[1] = ints({2, 1, 1, 2}, {2, 5, 8, 8 + 5});
  check_op(c);
}

TEST(MaxPool, indices_see_the_batch) {
  graph::Graph g;
  graph::Node* node = g.add_node(
      "", "MaxPool", {g.add_input("x", graph::TensorType(DType::kFloat32, {2, 1, 4}))}, {"y"});
  const ops::OpDef& op = *ops::OpRegistry::get().find("", "MaxPool");
  EXPECT_EQ(op.batch(*node, 0), ops::BatchRole::kRows);
  g.add_output_value(node, 1, "indices");
  EXPECT_EQ(op.batch(*node, 0), ops::BatchRole::kCouples);
}

TEST(MaxPool, takes_bytes) {
  Tensor x = ints({1, 1, 4}, {3, 200, 100, 7}).cast(DType::kUint8);
  OpCase c = pool_case("MaxPool", given(x), {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}});
  c.expected = {doubles({1, 1, 2}, {200, 100})};
  check_op(c);
}

// --- AveragePool by hand
// -------------------------------------------------------------------------

TEST(AveragePool, divides_by_the_cells_inside) {
  OpCase c = pool_case("AveragePool", given(doubles({1, 1, 4}, {1, 2, 4, 8})),
                       {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}});
  c.expected = {doubles({1, 1, 4}, {1.5, 7.0 / 3, 14.0 / 3, 6})};
  c.dy = {doubles({1, 1, 4}, {2, 3, 6, 4})};
  c.expected_gradients = {doubles({1, 1, 4}, {2, 4, 5, 4})};
  check_op(c);
}

TEST(AveragePool, counts_declared_pads_where_asked) {
  OpCase c = pool_case(
      "AveragePool", given(doubles({1, 1, 4}, {1, 2, 4, 8})),
      {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}, {"count_include_pad", int64_t{1}}});
  c.expected = {doubles({1, 1, 4}, {1, 7.0 / 3, 14.0 / 3, 4})};
  check_op(c);
}

TEST(AveragePool, ceil_of_1_to_16) {
  std::vector<double> x(16);
  for (size_t i = 0; i < 16; ++i) x[i] = static_cast<double>(i + 1);
  OpCase c =
      pool_case("AveragePool", given(doubles({1, 1, 4, 4}, x)),
                {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}});
  c.expected = {doubles({1, 1, 2, 2}, {6, 7.5, 12, 13.5})};
  check_op(c);
}

// The last window covers cells 6..8, 3 pads and one cell that only ceil adds: divided by 6.
TEST(AveragePool, cells_that_only_ceil_adds_never_count) {
  OpCase c = pool_case("AveragePool", given(doubles({1, 1, 9}, {1, 1, 1, 1, 1, 1, 1, 2, 3})),
                       {{"kernel_shape", Ints{7}},
                        {"strides", Ints{3}},
                        {"pads", Ints{3, 3}},
                        {"ceil_mode", int64_t{1}},
                        {"count_include_pad", int64_t{1}}});
  c.expected = {doubles({1, 1, 4}, {4.0 / 7, 1, 9.0 / 7, 1})};
  check_op(c);
}

TEST(AveragePool, same_lower_pads_in_front_and_does_not_count) {
  OpCase c = pool_case(
      "AveragePool", given(doubles({1, 1, 6}, {1, 2, 3, 4, 5, 9})),
      {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"auto_pad", std::string("SAME_LOWER")}});
  c.expected = {doubles({1, 1, 3}, {1.5, 3, 6})};
  check_op(c);
}

TEST(GlobalPool, joins_the_whole_map) {
  const OpInput x = given(doubles({1, 2, 2, 3}, {1, 2, 3, 4, 5, 9, -6, -5, -4, -3, -2, -4}));
  OpCase c = pool_case("GlobalAveragePool", x, {});
  c.expected = {doubles({1, 2, 1, 1}, {4, -4})};
  c.dy = {doubles({1, 2, 1, 1}, {6, 12})};
  c.expected_gradients = {doubles({1, 2, 2, 3}, {1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2})};
  check_op(c);
  c.op = "GlobalMaxPool";
  c.expected = {doubles({1, 2, 1, 1}, {9, -2})};
  c.expected_gradients = {doubles({1, 2, 2, 3}, {0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 12, 0})};
  check_op(c);
}

TEST(GlobalPool, of_one_cell_is_the_identity) {
  OpCase c = pool_case("GlobalAveragePool", given(doubles({2, 1, 1, 1}, {3, -4})), {});
  c.expected = {doubles({2, 1, 1, 1}, {3, -4})};
  check_op(c);
}

TEST(GlobalPool, first_of_equals_takes_the_gradient) {
  OpCase c = pool_case("GlobalMaxPool", given(doubles({1, 1, 2, 2}, {2, 2, 2, 2})), {});
  c.dy = {doubles({1, 1, 1, 1}, {3})};
  c.expected_gradients = {doubles({1, 1, 2, 2}, {3, 0, 0, 0})};
  c.numeric = Numeric::kSkip;
  check_op(c);
}

// --- Every geometry
// ------------------------------------------------------------------------------

struct Geometry {
  std::string name;
  Ints x;
  Attributes attributes;
};

const std::vector<Geometry> kGeometries = {
    {"2x2_stride2", {2, 3, 4, 6}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}},
    {"2x2_stride2_uneven", {2, 2, 5, 7}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}},
    {"3x3_overlapping", {1, 2, 5, 5}, {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}}},
    {"pads_all_round",
     {2, 2, 4, 4},
     {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}},
    {"pads_at_the_end", {1, 2, 4, 4}, {{"kernel_shape", Ints{3, 3}}, {"pads", Ints{0, 0, 1, 1}}}},
    {"pads_0_1_2_0",
     {1, 1, 5, 4},
     {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{1, 2}}, {"pads", Ints{0, 1, 2, 0}}}},
    {"same_upper",
     {1, 2, 5, 6},
     {{"kernel_shape", Ints{3, 3}},
      {"strides", Ints{2, 2}},
      {"auto_pad", std::string("SAME_UPPER")}}},
    {"dilation2", {1, 2, 6, 6}, {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 2}}}},
    {"dilation2_stride2_pads",
     {1, 2, 6, 7},
     {{"kernel_shape", Ints{2, 3}},
      {"dilations", Ints{2, 1}},
      {"strides", Ints{2, 3}},
      {"pads", Ints{1, 1, 0, 1}}}},
    {"ceil",
     {1, 2, 5, 6},
     {{"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 3}}, {"ceil_mode", int64_t{1}}}},
    {"ceil_with_pads_9_k4_s4_p2",
     {1, 1, 9, 9},
     {{"kernel_shape", Ints{4, 4}},
      {"strides", Ints{4, 4}},
      {"pads", Ints{2, 2, 2, 2}},
      {"ceil_mode", int64_t{1}}}},
    {"one_axis", {2, 2, 7}, {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}}},
    {"three_axes", {1, 1, 4, 3, 4}, {{"kernel_shape", Ints{2, 2, 2}}, {"strides", Ints{2, 1, 2}}}},
    {"three_axes_ceil",
     {1, 1, 3, 6, 5},
     {{"kernel_shape", Ints{3, 3, 3}},
      {"strides", Ints{3, 3, 3}},
      {"pads", Ints{1, 1, 1, 1, 1, 1}},
      {"ceil_mode", int64_t{1}}}},
    {"four_axes", {1, 1, 2, 3, 2, 3}, {{"kernel_shape", Ints{2, 2, 1, 2}}}},
};

std::vector<std::string> kernels_for(const Geometry& g) {
  const size_t axes = g.x.size() - 2;
  std::vector<std::string> names{"pool.ref"};
  if (axes <= 3) names.push_back("pool.plain");
  if (axes <= 2) names.insert(names.end(), {"pool.lanes", "pool.turned"});
  return names;
}

// pool.turned shares out as many sets of maps as it was made for threads.
class ForThreads : public testing::TestWithParam<int> {
 protected:
  const ops::ScopedLibraryThreads threads_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Pool, ForThreads, testing::Values(1, 3));

TEST_P(ForThreads, many_maps_agree_on_all_kernels) {
  for (const char* op : {"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"}) {
    OpCase c = pool_case(op, distinct({5, 11, 4, 3}), {});
    if (!std::string(op).starts_with("Global")) c.attributes["kernel_shape"] = Ints{2, 2};
    c.must_run = {"pool.turned"};
    check_op(c);
  }
}

TEST(MaxPool, every_geometry_agrees_on_all_kernels_and_layouts) {
  for (const Geometry& g : kGeometries) {
    OpCase c = pool_case("MaxPool", distinct(g.x), g.attributes);
    c.claim = g.name;
    c.must_run = kernels_for(g);
    check_op(c);
  }
}

TEST(AveragePool, every_geometry_agrees_on_all_kernels_and_layouts) {
  for (const Geometry& g : kGeometries) {
    for (const int64_t count_pads : {0, 1}) {
      OpCase c = pool_case("AveragePool", random(g.x), g.attributes);
      c.claim = fmt::format("{} count_include_pad {}", g.name, count_pads);
      c.attributes["count_include_pad"] = count_pads;
      c.must_run = kernels_for(g);
      check_op(c);
    }
  }
}

// The shape of y as inferred.
Ints output_shape(const OpCase& c) { return reference(c).at(0).shape(); }

TEST(PoolGrad, every_geometry_agrees_on_all_kernels_and_layouts) {
  for (const Geometry& g : kGeometries) {
    if (g.attributes.contains("auto_pad")) continue;  // gradient operators have resolved pads
    OpCase max = pool_case("MaxPool", distinct(g.x), g.attributes);
    const Ints y = output_shape(max);
    max.claim = "MaxPoolGrad " + g.name;
    max.domain = ops::kDomain;
    max.op = "MaxPoolGrad";
    max.inputs.push_back(random(y));
    max.must_run = kernels_for(g);
    check_op(max);

    OpCase average = pool_case("AveragePoolGrad", random(y), g.attributes);
    average.claim = "AveragePoolGrad " + g.name;
    average.domain = ops::kDomain;
    average.attributes["input_shape"] = Ints(g.x.begin() + 2, g.x.end());
    average.must_run = kernels_for(g);
    check_op(average);
    average.attributes["count_include_pad"] = int64_t{1};
    check_op(average);
  }
}

TEST(GlobalPool, agrees_on_all_kernels_and_layouts) {
  for (const Ints& x : {Ints{2, 3, 3, 4}, Ints{2, 2, 5}, Ints{1, 2, 2, 3, 2}}) {
    const Geometry g{"global", x, {}};
    OpCase c = pool_case("GlobalAveragePool", random(x), {});
    c.must_run = kernels_for(g);
    check_op(c);
    c = pool_case("GlobalMaxPool", distinct(x), {});
    c.must_run = kernels_for(g);
    check_op(c);
  }
}

TEST(Pool, batch_of_61_in_lanes_ignores_the_padding_lanes) {
  for (const char* op : {"MaxPool", "AveragePool"}) {
    OpCase c = pool_case(
        op, random({61, 3, 6, 5}, -1, 1),
        {{"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 1, 1}}});
    c.numeric = Numeric::kSkip;
    c.must_run = {"pool.lanes"};
    check_op(c);
  }
}

// --- Constraints
// ---------------------------------------------------------------------------------

void expect_error(const OpCase& c, const std::string& part) {
  const std::string message = infer_error(c);
  EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
}

TEST(Pool, pool_p1_rejects_low_ranks) {
  expect_error(pool_case("MaxPool", random({2, 3}), {{"kernel_shape", Ints{}}}),
               "P1: input 0 has rank 2");
  expect_error(pool_case("GlobalAveragePool", random({2, 3}), {}), "P1: input 0 has rank 2");
}

TEST(Pool, pool_p2_rejects_a_missing_kernel_shape) {
  expect_error(pool_case("AveragePool", random({1, 1, 4, 4}), {}),
               "P2: kernel_shape [] needs one entry for each of 2 spatial axes");
}

TEST(Pool, pool_p3_rejects_integers) {
  expect_error(
      pool_case("AveragePool", given(ints({1, 1, 2}, {1, 2})), {{"kernel_shape", Ints{2}}}),
      "P3: input 0 has type int64");
  expect_error(pool_case("MaxPool", given(ints({1, 1, 2}, {1, 2})), {{"kernel_shape", Ints{2}}}),
               "P3: x has type int64");
}

TEST(Pool, pool_p4_rejects_another_storage_order) {
  expect_error(pool_case("MaxPool", random({1, 1, 4}),
                         {{"kernel_shape", Ints{2}}, {"storage_order", int64_t{2}}}),
               "P4: storage_order is 2");
}

TEST(Pool, pool_p6_rejects_a_pad_as_long_as_the_window) {
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
    expect_error(
        pool_case(op, random({1, 1, 4}), {{"kernel_shape", Ints{2}}, {"pads", Ints{2, 0}}}),
        "P6: spatial axis 0 has a pad of 2, but a window of 2: it would see pads only");
  }
  EXPECT_EQ(infer_error(pool_case(
                "MaxPool", random({1, 1, 4}),
                {{"kernel_shape", Ints{2}}, {"dilations", Ints{2}}, {"pads", Ints{2, 2}}})),
            "");
}

TEST(Pool, window_rules_apply) {
  expect_error(pool_case("MaxPool", random({1, 1, 4}), {{"kernel_shape", Ints{0}}}), "W5");
  expect_error(pool_case("MaxPool", random({1, 1, 4}), {{"kernel_shape", Ints{5}}}),
               "W6: the output would be empty");
  expect_error(
      pool_case("MaxPool", random({1, 1, 4}), {{"kernel_shape", Ints{2}}, {"strides", Ints{0}}}),
      "W2: strides [0]");
}

TEST(Pool, unknown_sizes_pass_through) {
  graph::Graph g;
  ops::OpBuilder b(g);
  graph::TensorType x(DType::kFloat32, {graph::Dim::named("N"), 3, graph::Dim(), 8});
  ops::Value* in = g.add_input("x", x);
  EXPECT_EQ(b.op("MaxPool", {in}, {{"kernel_shape", Ints{2, 2}}})->type.str(), "float[N,3,?,7]");
  EXPECT_EQ(b.op("GlobalAveragePool", {in})->type.str(), "float[N,3,1,1]");
}

// --- LpPool

TEST(LpPool, norms_of_windows) {
  OpCase c = pool_case("LpPool", given(doubles({1, 1, 4}, {3, -4, 0, 0})),
                       {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}});
  c.expected = {doubles({1, 1, 2}, {5, 0})};
  c.dy = {doubles({1, 1, 2}, {10, 7})};
  c.expected_gradients = {doubles({1, 1, 4}, {6, -8, 0, 0})};
  c.numeric = Numeric::kSkip;
  c.must_run = {"pool.ref", "pool.plain"};
  check_op(c);
  c.attributes["p"] = int64_t{1};
  c.expected = {doubles({1, 1, 2}, {7, 0})};
  c.expected_gradients = {doubles({1, 1, 4}, {10, -10, 0, 0})};
  check_op(c);
}

// Numbers of ONNX Runtime.
TEST(LpPool, window_attributes_and_orders) {
  const OpInput x =
      given(doubles({1, 1, 5, 6}, {0,   -2.25, 1.25, -1,   2.5,   0.25, -2,   1.5, -0.75, 2.75,
                                   0.5, -1.75, 1.75, -0.5, -2.75, 0.75, -1.5, 2,   -0.25, -2.5,
                                   1,   -1.25, 2.25, 0,    -2.25, 1.25, -1,   2.5, 0.25,  -2}));
  OpCase c = pool_case("LpPool", x,
                       {{"kernel_shape", Ints{2, 3}},
                        {"strides", Ints{2, 2}},
                        {"pads", Ints{0, 1, 1, 0}},
                        {"p", int64_t{3}}});
  c.must_run = {"pool.ref", "pool.plain"};
  c.expected = {doubles({1, 1, 3, 3}, {2.83417416, 3.38939905, 3.50127506, 2.76438761, 3.41772413,
                                       2.92949009, 2.37187958, 2.64850402, 2.87002921})};
  check_op(c);
  c.attributes = {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 3}}};
  c.expected = {doubles({1, 1, 3, 3}, {2.15058136, 3.71651721, 3.63145971, 3.63145971, 3.71651721,
                                       2.15058136, 3.86490631, 2.03100967, 4.06970501})};
  check_op(c);
  c.attributes = {{"kernel_shape", Ints{2, 2}},
                  {"strides", Ints{2, 4}},
                  {"p", int64_t{1}},
                  {"ceil_mode", int64_t{1}}};
  c.expected = {doubles({1, 1, 3, 2}, {5.75, 5, 5, 5.75, 3.5, 2.25})};
  c.numeric = Numeric::kSkip;  // |0|
  check_op(c);
  c = pool_case("GlobalLpPool", x, {{"p", 3.0}});
  c.expected = {doubles({1, 1, 1, 1}, {5.58394003})};
  check_op(c);
}

TEST(LpPool, every_rank_agrees_on_all_kernels) {
  for (const Ints& shape : {Ints{2, 3, 7}, Ints{2, 3, 5, 6}, Ints{1, 2, 4, 3, 5}}) {
    const size_t axes = shape.size() - 2;
    OpCase c = pool_case("LpPool", distinct(shape),
                         {{"kernel_shape", Ints(axes, 3)},
                          {"auto_pad", std::string("SAME_UPPER")},
                          {"strides", Ints(axes, 2)}});
    check_op(c);
    c = pool_case("GlobalLpPool", distinct(shape), {});
    check_op(c);
  }
}

TEST(LpPool, p5_rejects_an_order_below_one) {
  OpCase c = pool_case("LpPool", random({1, 1, 4}), {{"kernel_shape", Ints{2}}, {"p", int64_t{0}}});
  EXPECT_EQ(infer_error(c).substr(0, 3), "P5:");
  c.attributes["p"] = 0.5;
  EXPECT_EQ(infer_error(c).substr(0, 3), "P5:");
}

TEST(LpPool, its_gradient_operator_works_per_row_on_all_kernels) {
  OpCase c = pool_case("LpPoolGrad", random({2, 1, 4}), {{"kernel_shape", Ints{2}}, {"p", 3.0}});
  c.domain = "sardonyx";
  c.inputs = {given(doubles({1, 1, 3}, {1, -2, 0})), given(doubles({1, 1, 2}, {2, 4})),
              given(doubles({1, 1, 2}, {4, 16}))};
  c.expected = {doubles({1, 1, 3}, {1, -4 * (1 + 1.0), 0})};
  c.must_run = {"pool.ref", "pool.plain"};
  check_op(c);
}

}  // namespace
}  // namespace sardonyx::test
