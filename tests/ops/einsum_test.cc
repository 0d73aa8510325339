// Einsum against numpy.einsum.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/core/mode.h"
#include "tests/ops/wave.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using Ints = std::vector<int64_t>;

OpCase einsum(const std::string& equation, const std::vector<Ints>& shapes) {
  OpCase c;
  c.claim = equation;
  c.op = "Einsum";
  c.attributes = {{"equation", equation}};
  for (const Ints& shape : shapes) {
    c.inputs.push_back(given(wave(shape, static_cast<int64_t>(c.inputs.size()) + 1)));
  }
  c.must_run = {"einsum.ref"};
  return c;
}

TEST(Einsum, computes_what_numpy_does) {
  struct Line {
    std::string equation;
    std::vector<Ints> shapes;
    Ints shape;
    std::vector<double> numbers;
  };
  const Line lines[] = {
      {"ij,jk->ik", {{2, 3}, {3, 2}}, {2, 2}, {1.140625, 1.1875, 0.015625, -0.265625}},
      {"ji,jk", {{3, 2}, {3, 2}}, {2, 2}, {-0.265625, -0.59375, -0.640625, -0.546875}},
      {"bij,bjk->bik",
       {{2, 2, 3}, {2, 3, 2}},
       {2, 2, 2},
       {1.140625, 1.1875, 0.015625, -0.265625, 1.078125, 1.265625, -0.15625, -0.296875}},
      {"b i j , b k j -> b i k",
       {{2, 2, 3}, {2, 2, 3}},
       {2, 2, 2},
       {-0.515625, 0.15625, 0.28125, -0.296875, -0.453125, 0.109375, 0.234375, -0.453125}},
      {"ij->ji", {{2, 3}}, {3, 2}, {0.375, -0.625, 0.75, -0.25, -1, 0.125}},
      {"ij->", {{2, 3}}, {}, {-0.625}},
      {"ii->i", {{2, 2}}, {2}, {0.375, -0.625}},
      {"bii->bi", {{2, 2, 2}}, {2, 2}, {0.375, -0.625, -0.25, 0.875}},
      {"iji->j", {{2, 3, 2}}, {3}, {1.25, -1.5, 0}},
      {"ij,ij->ij", {{2, 3}, {2, 3}}, {2, 3}, {-0.140625, 0, -0.375, -0.46875, 0.25, -0.078125}},
      {"i,j->ij", {{2}, {3}}, {2, 3}, {-0.140625, 0, 0.140625, -0.28125, 0, 0.28125}},
      {"i,i", {{2}, {2}}, {}, {-0.140625}},
      {"...ij,...jk->...ik",
       {{2, 2, 3}, {2, 3, 2}},
       {2, 2, 2},
       {1.140625, 1.1875, 0.015625, -0.265625, 1.078125, 1.265625, -0.15625, -0.296875}},
      {"...ij,jk",
       {{2, 2, 3}, {3, 2}},
       {2, 2, 2},
       {1.140625, 1.1875, 0.015625, -0.265625, 1.015625, 1.203125, -0.109375, -0.25}},
      {"ij,jk,kl->il",
       {{2, 3}, {3, 2}, {2, 3}},
       {2, 3},
       {1.140625, -0.41015625, 0.462890625, 0.015625, -0.111328125, -0.205078125}},
      {"Ab,bA->A", {{3, 2}, {2, 3}}, {3}, {0.421875, 0.625, -0.171875}},
      {"bhid,bhjd->bhij",
       {{2, 2, 2, 2}, {2, 2, 3, 2}},
       {2, 2, 2, 3},
       {-0.140625, 0.703125,  -0.84375, 0.375,    -0.84375,  1.390625,  0.078125, -0.015625,
        0.15625,   -0.015625, 1.015625, -0.875,   -0.015625, -1.046875, 0.84375,  0.078125,
        0.171875,  0,         0.375,    -0.53125, -0.640625, -0.140625, -0.1875,  0.5625}},
      {"ijk,jil->kl",
       {{2, 3, 2}, {3, 2, 3}},
       {2, 3},
       {-0.375, 0.171875, -0.34375, 0.328125, -0.671875, -0.34375}},
      {"...i->...", {{2, 2}}, {2}, {1.125, -1.625}},
      {"ii", {{2, 2}}, {}, {-0.25}},
      {"b...i,b...i->b...",
       {{2, 2, 2}, {2, 2, 2}},
       {2, 2},
       {-0.140625, -0.84375, 0.171875, -0.015625}},
      {",i->i", {{}, {2}}, {2}, {-0.140625, 0}},
      {"ij,i->j", {{2, 3}, {2}}, {3}, {-0.140625, -0.28125, 0.375}},
      {"i->", {{2}}, {}, {1.125}},
      {"jk,bsj->bsk",
       {{3, 2}, {2, 3, 3}},
       {2, 3, 2},
       {-0.234375, -0.234375, 1.4375, 1.109375, -0.34375, -0.203125, 1.328125, 1.140625, -0.453125,
        -0.171875, 1.21875, 1.171875}},
      {"...ii->...i", {{2, 2, 2}}, {2, 2}, {0.375, -0.625, -0.25, 0.875}},
      {"iA,Ai", {{2, 3}, {3, 2}}, {}, {0.875}},
  };
  for (const Line& line : lines) {
    OpCase c = einsum(line.equation, line.shapes);
    c.expected = {doubles(line.shape, line.numbers)};
    check_op(c);
  }
}

TEST(Einsum, broadcasts_axes_of_size_one) {
  OpCase c = einsum("ij,jk->ik", {{2, 1}, {3, 2}});
  // The one column of a times the sums over the rows of b, which are 0.75 and 0.375 + ...
  const std::vector<double> a = c.inputs[0].value.to_doubles(), b = c.inputs[1].value.to_doubles();
  const double first = b[0] + b[2] + b[4], second = b[1] + b[3] + b[5];
  c.expected = {doubles({2, 2}, {a[0] * first, a[0] * second, a[1] * first, a[1] * second})};
  check_op(c);
  c = einsum("bi,bi->bi", {{1, 2}, {3, 2}});
  check_op(c);
  c = einsum("...i,...i->...i", {{2, 1, 2}, {3, 2}});
  EXPECT_EQ(inferred_type(c), "float[2,3,2]");
  check_op(c);
}

TEST(Einsum, of_integers_is_exact) {
  OpCase c = einsum("ij,jk->ik", {});
  c.inputs = {given(ints({2, 2}, {1, 2, 3, 4})), given(ints({2, 1}, {int64_t{1} << 40, 5}))};
  const int64_t n = int64_t{1} << 40;
  c.expected = {ints({2, 1}, {n + 10, 3 * n + 20})};
  check_op(c);
}

TEST(Einsum, keeps_the_batch_in_front) {
  for (const auto& [equation, weight] : std::vector<std::pair<std::string, Ints>>{
           {"bsd,dk->bsk", {3, 2}}, {"dk,bsd->bsk", {3, 2}}, {"bsd,dhk->bhsk", {3, 2, 2}}}) {
    OpCase c = einsum(equation, {});
    const bool first = equation[0] == 'd';
    c.inputs = {random({2, 2, 3}), parameter(random(weight))};
    if (first) std::swap(c.inputs[0], c.inputs[1]);
    c.batch = true;
    check_op(c);
    EXPECT_TRUE(inferred_type(c).starts_with("float[N:2,")) << equation;
  }
}

TEST(Einsum, is_a_matrix_product_where_it_can_be) {
  const auto operators = [](const std::string& equation, const std::vector<Ints>& shapes) {
    graph::Graph g;
    std::vector<ops::Value*> x;
    for (const Ints& shape : shapes) {
      x.push_back(g.add_input("x" + std::to_string(x.size()),
                              ops::TensorType(DType::kFloat32, graph::to_dims(shape))));
    }
    ops::OpBuilder b(g);
    ops::Node* node = b.op("Einsum", x, {{"equation", equation}})->producer;
    g.add_output(node->output(0));
    ops::ModeContext mode(*node, true, ops::ModeContext::Dropout::kOff, false);
    ops::OpRegistry::get().at(*node).apply_mode(mode);
    std::string names;
    for (const ops::Node& part : g.nodes()) {
      if (&part != node) names += part.op + " ";
    }
    return names;
  };
  EXPECT_EQ(operators("ij,jk->ik", {{2, 3}, {3, 4}}), "MatMul ");
  EXPECT_EQ(operators("ji,kj->ik", {{3, 2}, {4, 3}}), "MatMul ");
  EXPECT_EQ(operators("bhid,bhjd->bhij", {{2, 2, 3, 4}, {2, 2, 5, 4}}), "MatMul ");
  EXPECT_EQ(operators("bsd,dhk->bshk", {{2, 3, 4}, {4, 2, 5}}), "Reshape MatMul Reshape ");
  EXPECT_EQ(operators("ij->ji", {{2, 3}}), "Transpose ");
  EXPECT_EQ(operators("ij->i", {{2, 3}}), "ReduceSum ");
  EXPECT_EQ(operators("ij->ij", {{2, 3}}), "Identity ");
}

void refuses(const std::string& equation, const std::vector<Ints>& shapes,
             const std::string& reason) {
  EXPECT_EQ(infer_error(einsum(equation, shapes)).find(reason), 0u)
      << infer_error(einsum(equation, shapes));
}

TEST(Einsum, e1_to_e4_reject_what_is_no_equation_of_the_operands) {
  refuses("i1->i", {{2, 2}}, "E1: the equation \"i1->i\" has \"1\" in a term");
  refuses("...i...->i", {{2, 2}}, "E1: ");
  refuses("i..->i", {{2, 2}}, "E1: ");
  refuses("ij", {{2, 2}, {2, 2}}, "E2: the equation \"ij\" has 1 terms, but the node has 2");
  refuses("ijk", {{2, 2}}, "E2: the equation \"ijk\" gives operand 0 3 axes, but it has 2");
  refuses("ijk...", {{2, 2}}, "E2: the equation \"ijk...\" gives operand 0 3 or more axes");
  refuses("ij->ii", {{2, 2}}, "E3: the output of the equation \"ij->ii\" has i twice");
  refuses("ij->k", {{2, 2}}, "E3: the output of the equation \"ij->k\" has k, which no operand");
  refuses("ij,jk", {{2, 3}, {2, 2}}, "E4: j is an index of axes of size 3 and 2");
  refuses("ii", {{1, 2}}, "E4: i is an index of axes of size 1 and 2");
}

TEST(Einsum, e5_rejects_truth_values) {
  OpCase c = einsum("i->i", {});
  c.inputs = {given(bools({2}, {true, false}))};
  EXPECT_EQ(infer_error(c).find("E5: "), 0u);
}

}  // namespace
}  // namespace sardonyx::test
