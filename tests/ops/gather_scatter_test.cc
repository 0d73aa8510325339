// Gather, GatherElements, GatherND, their gradients, ScatterElements, ScatterND: repeated and
// negative indices, indices out of range, batch roles, refusals.
#include <gtest/gtest.h>

#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using graph::Dim;
using ops::BatchRole;
using ops::TensorType;

const Tensor kTable = doubles({4, 2}, {0, 1, 10, 11, 20, 21, 30, 31});

Tensor int32s(std::vector<int64_t> shape, const std::vector<int32_t>& values) {
  return Tensor::of<int32_t>(std::move(shape), values);
}

OpCase indexed(std::string op, std::string claim, OpInput x, OpInput indices,
               Attributes attributes = {}) {
  OpCase c;
  c.claim = std::move(claim);
  c.op = std::move(op);
  c.inputs = {std::move(x), std::move(indices)};
  c.attributes = std::move(attributes);
  return c;
}

OpCase gather(std::string claim, OpInput x, OpInput indices, int64_t axis = 0) {
  return indexed("Gather", std::move(claim), std::move(x), std::move(indices), {{"axis", axis}});
}

std::string run_error(const OpCase& c) {
  try {
    reference(c);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Gather, reads_repeated_and_negative_indices_and_adds_them_in_the_gradient) {
  OpCase c = gather("rows of a table", given(kTable), given(ints({4}, {1, 1, 0, -1})));
  c.expected = {doubles({4, 2}, {10, 11, 10, 11, 0, 1, 30, 31})};
  c.dy = {doubles({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})};
  c.expected_gradients = {doubles({4, 2}, {5, 6, 4, 6, 0, 0, 7, 8})};
  c.must_run = {"gather.ref", "gather.rows"};
  check_op(c);
}

TEST(Gather, replaces_the_axis_by_the_axes_of_the_indices) {
  check_op(gather("axis 1, rank 2", random({2, 3, 2}), given(ints({2, 2}, {0, 2, 2, -3})), 1));
  check_op(gather("axis -1, int32", random({2, 3}), given(int32s({2}, {2, 0})), -1));
  OpCase scalar = gather("rank 0", given(kTable), given(ints({}, {2})));
  scalar.expected = {doubles({2}, {20, 21})};
  check_op(scalar);
  EXPECT_EQ(inferred_type(scalar), "float[2]");
  OpCase none = gather("no indices", random({2, 3}), given(ints({0}, {})), 1);
  none.zero_gradients = {0};
  check_op(none);
}

TEST(Gather, works_on_integers) {
  OpCase c = gather("int64", given(ints({3}, {60, 3, 32})), constant(ints({}, {0})));
  c.expected = {ints({}, {60})};
  check_op(c);
  EXPECT_EQ(inferred_type(c), "int64[]");
}

TEST(Gather, an_embedding_runs_per_block_and_its_table_gets_a_sum) {
  OpCase c =
      gather("embedding", parameter(random({4, 3})), given(ints({3, 2}, {0, 3, 1, 1, -1, 2})));
  c.batch = true;
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[N:3,2,3]");
  c = {.claim = "embedding gradient",
       .domain = "sardonyx",
       .op = "GatherGrad",
       .inputs = {random({3, 2, 20}), given(ints({3, 2}, {0, 3, 1, 1, -1, 2}))},
       .attributes = {{"axis", int64_t{0}}, {"shape", std::vector<int64_t>{4, 20}}},
       .batch = true,
       .must_run = {"gather_grad.ref", "gather_grad.rows"}};
  check_op(c);
}

TEST(Gather, picks_from_other_axes_per_block_and_in_lanes) {
  OpCase c = gather("a class token", random({3, 4, 2}), constant(ints({}, {0})), 1);
  c.batch = true;
  c.must_run = {"gather.lanes"};
  check_op(c);
  c = {.claim = "and back",
       .domain = "sardonyx",
       .op = "GatherGrad",
       .inputs = {random({3, 2, 2}), constant(ints({2}, {1, 1}))},
       .attributes = {{"axis", int64_t{1}}, {"shape", std::vector<int64_t>{3, 4, 2}}},
       .batch = true,
       .fixed_rows = true,
       .must_run = {"gather_grad.lanes"}};
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[N:3,4,2]");
  c = gather("rows couple", random({3, 4}), constant(ints({2}, {0, 1})), 0);
  c.batch = true;
  c.empty_batch = false;
  check_op(c);
}

TEST(Gather, batch_role_follows_where_the_batch_comes_from) {
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", TensorType(DType::kFloat32, {Dim(8, "N"), 5}));
  auto* table = g.add_input("t", TensorType(DType::kFloat32, {5, 3}));
  auto* picks = g.add_input("i", TensorType(DType::kInt64, {Dim(8, "N")}));
  auto* fixed = g.add_input("j", TensorType(DType::kInt64, {2}));
  const auto role = [&](graph::Value* data, graph::Value* indices, int64_t axis) {
    auto* node =
        g.add_node("", "Gather", {data, indices}, {"y" + std::to_string(g.nodes().size())});
    node->attributes["axis"] = axis;
    ops::infer_node(*node);
    return ops::OpRegistry::get().at(*node).batch(*node, 0);
  };
  EXPECT_EQ(role(table, picks, 0), BatchRole::kRows);
  EXPECT_EQ(role(table, picks, 1), BatchRole::kCouples);
  EXPECT_EQ(role(x, fixed, 1), BatchRole::kRows);
  EXPECT_EQ(role(x, fixed, 0), BatchRole::kCouples);
  EXPECT_EQ(role(x, picks, 0), BatchRole::kCouples);
  EXPECT_EQ(role(x, picks, 1), BatchRole::kCouples);
}

TEST(Gather, c4_names_an_index_out_of_range) {
  EXPECT_EQ(run_error(gather("emb", given(kTable), given(ints({1, 3}, {0, 4, 9})))),
            "node emb (Gather): index 4 at [0,1] of the indices is out of range for 4 entries (-4 "
            "to 3)");
  EXPECT_NE(
      run_error(gather("emb", given(kTable), given(int32s({1}, {-5})))).find("index -5 at [0]"),
      std::string::npos);
  EXPECT_EQ(infer_error(gather("emb", given(kTable), constant(ints({2}, {0, 4})))),
            "C4: index 4 (number 1 of 'x1') is out of range for an axis of 4 entries\n"
            "  while inferring shapes of node emb (Gather)");
}

TEST(Gather, c1_c2_reject_floating_indices_and_axes_out_of_range) {
  EXPECT_NE(infer_error(gather("g", given(kTable), random({2})))
                .find("C1: indices have type float[2], expected int32 or int64"),
            std::string::npos);
  EXPECT_NE(infer_error(gather("g", given(kTable), given(ints({1}, {0})), 2))
                .find("axis 2 is out of range [-2, 1] for rank 2"),
            std::string::npos);
}

TEST(GatherElements, reads_one_element_per_index) {
  OpCase c = indexed("GatherElements", "axis 1", given(doubles({2, 2}, {1, 2, 3, 4})),
                     given(ints({2, 3}, {0, 0, 1, -1, 0, 0})), {{"axis", int64_t{1}}});
  c.expected = {doubles({2, 3}, {1, 1, 2, 4, 3, 3})};
  check_op(c);
  check_op(indexed("GatherElements", "fewer rows than the data", random({3, 4}),
                   given(ints({2, 2}, {0, 2, 1, -1})), {{"axis", int64_t{0}}}));
}

TEST(GatherElements, runs_per_block_beside_axis_0) {
  OpCase c = indexed("GatherElements", "batch", random({3, 4}),
                     given(ints({3, 2}, {0, 3, 1, 1, -1, 2})), {{"axis", int64_t{1}}});
  c.batch = true;
  check_op(c);
  c = {.claim = "and back",
       .domain = "sardonyx",
       .op = "GatherElementsGrad",
       .inputs = {random({3, 2}), given(ints({3, 2}, {0, 3, 1, 1, -1, 2}))},
       .attributes = {{"axis", int64_t{1}}, {"shape", std::vector<int64_t>{3, 4}}},
       .batch = true,
       .fixed_rows = true};
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[N:3,4]");
}

TEST(GatherElements, c3_c4_reject_shapes_and_indices_that_do_not_fit) {
  const auto elements = [](OpInput x, OpInput i) {
    return indexed("GatherElements", "ge", std::move(x), std::move(i), {{"axis", int64_t{1}}});
  };
  EXPECT_NE(infer_error(elements(random({2, 2}), given(ints({2}, {0, 0})))).find("C3: indices"),
            std::string::npos);
  EXPECT_NE(infer_error(elements(random({2, 2}), given(ints({3, 1}, {0, 0, 0}))))
                .find("C3: axis 0 of the indices int64[3,1] is larger"),
            std::string::npos);
  EXPECT_NE(run_error(elements(random({2, 2}), given(ints({2, 1}, {0, 2}))))
                .find("node ge (GatherElements): index 2 at [1,0]"),
            std::string::npos);
}

TEST(GatherND, reads_slices_by_tuples) {
  OpCase c = indexed("GatherND", "slices", given(kTable), given(ints({3, 1}, {1, -1, 1})));
  c.expected = {doubles({3, 2}, {10, 11, 30, 31, 10, 11})};
  check_op(c);
  c = indexed("GatherND", "elements", given(kTable), given(ints({2, 2}, {0, 1, 3, 0})));
  c.expected = {doubles({2}, {1, 30})};
  check_op(c);
  c = indexed("GatherND", "a common axis", given(doubles({2, 3}, {1, 2, 3, 4, 5, 6})),
              given(ints({2, 1}, {2, 0})), {{"batch_dims", int64_t{1}}});
  c.expected = {doubles({2}, {3, 4})};
  check_op(c);
}

TEST(GatherND, runs_per_block_with_the_batch_in_common_or_in_the_indices) {
  OpCase c = indexed("GatherND", "common", random({3, 4, 2}), given(ints({3, 1}, {2, 0, -1})),
                     {{"batch_dims", int64_t{1}}});
  c.batch = true;
  check_op(c);
  c = indexed("GatherND", "table", parameter(random({4, 3})), given(ints({3, 1}, {2, 0, 2})));
  c.batch = true;
  check_op(c);
  c = {.claim = "table gradient",
       .domain = "sardonyx",
       .op = "GatherNDGrad",
       .inputs = {random({3, 3}), given(ints({3, 1}, {2, 0, 2}))},
       .attributes = {{"shape", std::vector<int64_t>{4, 3}}},
       .batch = true};
  check_op(c);
}

TEST(GatherND, c2_c4_reject_tuples_that_do_not_fit) {
  EXPECT_NE(infer_error(indexed("GatherND", "nd", random({2}), given(ints({}, {0}))))
                .find("C2: indices int64[] hold no tuples"),
            std::string::npos);
  EXPECT_NE(infer_error(indexed("GatherND", "nd", random({2}), given(ints({1, 2}, {0, 0}))))
                .find("C2: tuples of 2 behind 0 common axes"),
            std::string::npos);
  EXPECT_NE(infer_error(indexed("GatherND", "nd", random({2, 3}), given(ints({3, 1}, {0, 0, 0})),
                                {{"batch_dims", int64_t{1}}}))
                .find("C2: common axis 0"),
            std::string::npos);
  EXPECT_NE(run_error(indexed("GatherND", "nd", random({2, 2}), given(ints({1, 2}, {0, 2}))))
                .find("node nd (GatherND): index 2 at [0,1]"),
            std::string::npos);
}

OpCase scatter(std::string op, std::string claim, OpInput x, OpInput indices, OpInput updates,
               Attributes attributes = {}) {
  OpCase c = indexed(std::move(op), std::move(claim), std::move(x), std::move(indices),
                     std::move(attributes));
  c.inputs.push_back(std::move(updates));
  return c;
}

TEST(ScatterElements, overwrites_one_element_per_index) {
  OpCase c =
      scatter("ScatterElements", "axis 1", given(doubles({1, 4}, {1, 2, 3, 4})),
              given(ints({1, 2}, {-1, 0})), given(doubles({1, 2}, {7, 8})), {{"axis", int64_t{1}}});
  c.expected = {doubles({1, 4}, {8, 2, 3, 7})};
  c.dy = {doubles({1, 4}, {1, 2, 3, 4})};
  c.expected_gradients = {doubles({1, 4}, {0, 2, 3, 0}), Tensor(), doubles({1, 2}, {4, 1})};
  check_op(c);
}

TEST(ScatterElements, was_called_scatter) {
  OpCase c = scatter("Scatter", "old", given(doubles({3}, {1, 2, 3})), given(ints({1}, {1})),
                     given(doubles({1}, {9})));
  c.expected = {doubles({3}, {1, 9, 3})};
  check_op(c);
  graph::Graph g;
  auto* x = g.add_input("x", TensorType(DType::kFloat32, {3}));
  auto* node = g.add_node("", "Scatter", {x, g.add_constant("i", ints({3}, {0, 1, 2})), x}, {"y"});
  ops::normalize_node(*node, 9);
  EXPECT_EQ(node->op, "ScatterElements");
}

TEST(ScatterElements, reduces_with_what_is_there) {
  const auto check = [](const std::string& reduction, std::vector<double> expected,
                        std::vector<double> dx, std::vector<double> dupdates) {
    OpCase c = scatter("ScatterElements", reduction, given(doubles({3}, {1, 2, 3})),
                       given(ints({3}, {1, 1, 2})), given(doubles({3}, {4, -5, 6})),
                       {{"reduction", reduction}});
    c.expected = {doubles({3}, expected)};
    c.dy = {doubles({3}, {1, 10, 100})};
    c.expected_gradients = {doubles({3}, dx), Tensor(), doubles({3}, dupdates)};
    check_op(c);
  };
  check("add", {1, 1, 9}, {1, 10, 100}, {10, 10, 100});
  check("mul", {1, -40, 18}, {1, -200, 600}, {-100, 80, 300});
  check("max", {1, 4, 6}, {1, 0, 0}, {10, 0, 100});
  check("min", {1, -5, 3}, {1, 0, 100}, {0, 10, 0});
}

TEST(ScatterElements, differentiates_products_with_zeros_and_shares_among_equal_extrema) {
  const auto check = [](const std::string& reduction, std::vector<double> x,
                        std::vector<double> updates, std::vector<double> dx,
                        std::vector<double> dupdates) {
    OpCase c = scatter("ScatterElements", reduction + " at a kink", given(doubles({2}, x)),
                       given(ints({3}, {0, 0, 1})), given(doubles({3}, updates)),
                       {{"reduction", reduction}});
    c.dy = {doubles({2}, {6, 60})};
    c.expected_gradients = {doubles({2}, dx), Tensor(), doubles({3}, dupdates)};
    if (reduction != "mul") c.numeric = Numeric::kSkip;
    c.zero_gradients = {0, 2};
    check_op(c);
  };
  check("mul", {2, 3}, {0, 5, 0}, {0, 0}, {60, 0, 180});  // one zero, alone or not
  check("mul", {2, 0}, {0, 0, 7}, {0, 420}, {0, 0, 0});   // two, and one in the data
  check("max", {1, 4}, {1, 1, 4}, {2, 30}, {2, 2, 30});
  check("min", {1, 4}, {1, 3, 4}, {3, 30}, {3, 0, 30});
}

TEST(ScatterElements, works_on_integers) {
  OpCase c = scatter("ScatterElements", "int64", given(ints({2}, {1, 2})), given(ints({1}, {0})),
                     given(ints({1}, {9})), {{"reduction", std::string("add")}});
  c.expected = {ints({2}, {10, 2})};
  check_op(c);
}

TEST(ScatterElements, runs_per_block_when_all_operands_carry_the_batch) {
  OpCase c =
      scatter("ScatterElements", "batch", random({3, 4}), given(ints({3, 2}, {0, 3, 1, 2, -1, 2})),
              random({3, 2}), {{"axis", int64_t{1}}, {"reduction", std::string("add")}});
  c.batch = true;
  check_op(c);
}

TEST(ScatterElements, c2_c4_reject_what_does_not_fit) {
  const auto error = [](OpInput x, OpInput i, OpInput u) {
    return infer_error(scatter("ScatterElements", "se", x, i, u));
  };
  EXPECT_NE(error(random({2}), given(ints({1, 1}, {0})), random({1})).find("different ranks"),
            std::string::npos);
  EXPECT_NE(error(random({2}), given(ints({1}, {0})), random({2})).find("C2: axis 0 of data"),
            std::string::npos);
  EXPECT_NE(
      error(random({2}), given(ints({1}, {0})), given(ints({1}, {0})))
          .find("C2: input 2 (updates) 'x2' is int64[1], but input 0 (data) 'x0' is float[2]: "),
      std::string::npos);
  EXPECT_NE(
      run_error(scatter("ScatterElements", "se", random({2}), given(ints({1}, {2})), random({1})))
          .find("node se (ScatterElements): index 2 at [0]"),
      std::string::npos);
  EXPECT_NE(infer_error(scatter("ScatterElements", "se", random({2}), given(ints({1}, {0})),
                                random({1}), {{"reduction", std::string("xor")}}))
                .find("reduction 'xor' is none of"),
            std::string::npos);
}

TEST(ScatterND, overwrites_or_adds_slices) {
  OpCase c = scatter("ScatterND", "none", given(kTable), given(ints({2, 1}, {3, 0})),
                     given(doubles({2, 2}, {1, 2, 3, 4})));
  c.expected = {doubles({4, 2}, {3, 4, 10, 11, 20, 21, 1, 2})};
  check_op(c);
  c = scatter("ScatterND", "add, repeated", given(kTable), given(ints({2, 1}, {1, 1})),
              given(doubles({2, 2}, {1, 2, 3, 4})), {{"reduction", std::string("add")}});
  c.expected = {doubles({4, 2}, {0, 1, 14, 17, 20, 21, 30, 31})};
  check_op(c);
  for (const std::string reduction : {"mul", "max", "min"}) {
    check_op(scatter("ScatterND", reduction, random({4, 2}), given(ints({3, 1}, {1, 1, -1})),
                     random({3, 2}), {{"reduction", reduction}}));
  }
}

TEST(ScatterND, c3_rejects_updates_of_another_shape) {
  EXPECT_NE(
      infer_error(scatter("ScatterND", "nd", given(kTable), given(ints({}, {1})), random({4, 2})))
          .find("C3: indices int64[] hold no tuples"),
      std::string::npos);
  EXPECT_NE(infer_error(scatter("ScatterND", "nd", given(kTable), given(ints({2, 1}, {1, 1})),
                                random({2, 3})))
                .find("C3: updates float[2,3] don't fit data float[4,2] and indices int64[2,1]"),
            std::string::npos);
}

OpCase into_cache(OpInput cache, OpInput update, std::vector<int64_t> begins,
                  const std::string& mode = "linear", int64_t axis = -2) {
  OpCase c;
  c.claim = "cache";
  c.op = "TensorScatter";
  c.inputs = {std::move(cache), std::move(update)};
  const auto samples = static_cast<int64_t>(begins.size());
  if (samples > 0) c.inputs.push_back(given(ints({samples}, begins)));
  c.attributes = {{"mode", mode}, {"axis", axis}};
  c.must_run = {"tensor_scatter.ref"};
  return c;
}

TEST(TensorScatter, writes_new_steps_of_each_sample_where_they_begin) {
  const Tensor cache = doubles({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Tensor update = doubles({2, 2, 2}, {-1, -2, -3, -4, -5, -6, -7, -8});
  OpCase c = into_cache(given(cache), given(update), {1, 0});
  c.expected = {doubles({2, 3, 2}, {1, 2, -1, -2, -3, -4, -5, -6, -7, -8, 11, 12})};
  c.dy = {doubles({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})};
  c.expected_gradients = {doubles({2, 3, 2}, {1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 11, 12}),
                          doubles({2, 2, 2}, {3, 4, 5, 6, 7, 8, 9, 10})};
  check_op(c);
  c = into_cache(given(cache), given(update), {2, 1}, "circular");
  c.expected = {doubles({2, 3, 2}, {-3, -4, 3, 4, -1, -2, 7, 8, -5, -6, -7, -8})};
  check_op(c);
  c = into_cache(given(cache), given(update), {});
  c.expected = {doubles({2, 3, 2}, {-1, -2, -3, -4, 5, 6, -5, -6, -7, -8, 11, 12})};
  check_op(c);
}

TEST(TensorScatter, takes_any_axis_but_that_of_the_samples_and_runs_by_rows) {
  OpCase c = into_cache(random({3, 2, 4, 2}), random({3, 2, 2, 2}), {2, 0, 1});
  c.batch = true;
  check_op(c);
  check_op(into_cache(random({2, 4}), random({2, 3}), {0, 1}, "linear", 1));
}

TEST(TensorScatter, k1_to_k5_reject_what_doesnt_fit) {
  EXPECT_EQ(infer_error(into_cache(random({2, 3, 2}), given(ints({2, 1, 2}, {0, 0, 0, 0})), {}))
                .substr(0, 3),
            "K1:");
  EXPECT_EQ(infer_error(into_cache(random({2, 3, 2}), random({2, 1, 2}), {}, "linear", 0))
                .find("K2: axis 0 of float[2,3,2] is not one behind the first"),
            0u);
  EXPECT_EQ(infer_error(into_cache(random({2, 3, 2}), random({2, 4, 2}), {}))
                .find("K3: update float[2,4,2] doesn't fit the cache float[2,3,2]"),
            0u);
  EXPECT_EQ(infer_error(into_cache(random({2, 3, 2}), random({2, 1, 2}), {0, 1, 2}))
                .find("K3: write_indices are int64[3], expected one for each of 2 samples"),
            0u);
  EXPECT_EQ(infer_error(into_cache(random({2, 3, 2}), random({2, 1, 2}), {}, "round"))
                .find("K4: mode 'round' is none of linear, circular"),
            0u);
  EXPECT_NE(run_error(into_cache(random({2, 3, 2}), random({2, 2, 2}), {0, 2}))
                .find("index 3 at [1,1,0] of the indices is out of range for 3 entries"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
