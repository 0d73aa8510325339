#include "graph/print.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "graph/graph.h"
#include "graph/parse.h"

namespace sardonyx::graph {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(PrintAttribute, floats_are_shortest_float32_decimals) {
  EXPECT_EQ(print(Attribute(static_cast<double>(0.1F))), "0.1");
  EXPECT_EQ(print(Attribute(1.0)), "1.0");
  EXPECT_EQ(print(Attribute(-0.0)), "-0.0");
  EXPECT_EQ(print(Attribute(static_cast<double>(1e-5F))), "1e-05");
  EXPECT_EQ(print(Attribute(static_cast<double>(1e20F))), "1e+20");
  EXPECT_EQ(print(Attribute(kInf)), "inf");
  EXPECT_EQ(print(Attribute(-kInf)), "-inf");
  EXPECT_EQ(print(Attribute(std::numeric_limits<double>::quiet_NaN())), "nan");
}

TEST(PrintAttribute, doubles_that_are_no_float32_carry_a_d) {
  EXPECT_EQ(print(Attribute(0.1)), "0.1d");
  EXPECT_EQ(print(Attribute(1e300)), "1e+300d");
  EXPECT_EQ(print(Attribute(1.0 + 0x1p-52)), "1.0000000000000002d");
  EXPECT_EQ(print(Attribute(16777217.0)), "16777217.0d");
}

TEST(PrintAttribute, nans_other_than_the_default_one_keep_their_bits) {
  EXPECT_EQ(print(Attribute(-std::numeric_limits<double>::quiet_NaN())), "nan(0xffc00000)");
  EXPECT_EQ(print(Attribute(std::bit_cast<double>(uint64_t{0x7ff8000000000001}))),
            "nan(0x7ff8000000000001)");
  EXPECT_EQ(print(Attribute(Tensor::scalar(std::bit_cast<float>(0x7fc00001U)))),
            "float[] {nan(0x7fc00001)}");
}

TEST(PrintAttribute, every_kind) {
  EXPECT_EQ(print(Attribute(int64_t{-7})), "-7");
  EXPECT_EQ(print(Attribute(std::string("a\"b\\\n\t\x01\xff"))), R"("a\"b\\\n\t\x01\xff")");
  EXPECT_EQ(print(Attribute(std::string("\u5c42"))), "\"\u5c42\"");  // UTF-8 stays readable
  EXPECT_EQ(print(Attribute(std::string("a\u202e\u009b\x7f\xe5"))),
            R"("a\xe2\x80\xae\xc2\x9b\x7f\xe5")");  // what would drive a terminal does not
  EXPECT_EQ(print(Attribute(std::vector<int64_t>{1, 2})), "[1, 2]");
  EXPECT_EQ(print(Attribute(std::vector<double>{1, 0.5})), "[1.0, 0.5]");
  EXPECT_EQ(print(Attribute(std::vector<std::string>{"a", ""})), "[\"a\", \"\"]");
  EXPECT_EQ(print(Attribute(std::vector<int64_t>{})), "ints[]");
  EXPECT_EQ(print(Attribute(std::vector<double>{})), "floats[]");
  EXPECT_EQ(print(Attribute(std::vector<std::string>{})), "strings[]");
  EXPECT_EQ(print(Attribute(GraphAttribute{std::string("\0\x08", 2), {"x"}})),
            R"(graph("\x00\x08", ["x"]))");
  EXPECT_EQ(print(Attribute(GraphAttribute{"", {}})), R"(graph("", strings[]))");
  EXPECT_EQ(print(Attribute(AttributeReference{"alpha"})), "@alpha");
}

TEST(PrintAttribute, tensors_of_every_type) {
  EXPECT_EQ(print(Attribute(Tensor::of<float>({2, 1}, {1, 2.5F}))), "float[2,1] {1, 2.5}");
  EXPECT_EQ(print(Attribute(Tensor::scalar(0.1))), "double[] {0.1}");
  EXPECT_EQ(print(Attribute(Tensor::of<int8_t>({2}, {-128, 127}))), "int8[2] {-128, 127}");
  EXPECT_EQ(print(Attribute(Tensor::scalar(std::numeric_limits<uint64_t>::max()))),
            "uint64[] {18446744073709551615}");
  EXPECT_EQ(print(Attribute(Tensor::of<bool>({2}, {true, false}))), "bool[2] {1, 0}");
  EXPECT_EQ(print(Attribute(Tensor::of<float>({3}, {1, 65504, NAN}).cast(DType::kFloat16))),
            "float16[3] {1, 65504, nan}");
  EXPECT_EQ(print(Attribute(Tensor::of_strings({2}, {"a", "b c"}))), "string[2] {\"a\", \"b c\"}");
  EXPECT_EQ(print(Attribute(Tensor(DType::kComplex64, {1}))), "complex64[1] {0, 0}");
  EXPECT_EQ(print(Attribute(Tensor(DType::kFloat32, {0, 3}))), "float[0,3] {}");
}

TEST(PrintNode, names_operators_and_operands) {
  Graph graph;
  Value* x = graph.add_input("226", {});
  Node* node = graph.add_node("", "Conv", {x, nullptr, x}, {"a/b:0", "", "y"});
  EXPECT_EQ(print(*node), R"("a/b:0", "", y = Conv("226", "", "226"))");
  node->name = "/layer1/conv1/Conv";
  EXPECT_EQ(print(*node), R"([/layer1/conv1/Conv] "a/b:0", "", y = Conv("226", "", "226"))");
  node->forward_node = "node 7";
  node->name = "";
  node->domain = "com.microsoft";
  EXPECT_EQ(print(*node), R"([of node 7] "a/b:0", "", y = com.microsoft.Conv("226", "", "226"))");
  node->name = "of";  // the keyword, as a name
  node->op = "Conv.v2";
  node->attributes["k h"] = int64_t{1};
  EXPECT_EQ(
      print(*node),
      R"(["of" of node 7] "a/b:0", "", y = "com.microsoft"."Conv.v2"<"k h" = 1>("226", "", "226"))");
  EXPECT_EQ(print(*graph.add_node("", "Barrier", {}, {})), "Barrier()");
}

std::unique_ptr<Graph> example() {
  return parse(R"(<ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1], batch: N>
    g (float[N:4,3] x) => (float[N:4,2] y)
    <float[2] k = {1, 2.5}, state(parameter) float[3,2] w = {0, 1, 2, 3, 4, 5}> {
      y = MatMul(x, w)
      [dw of matmul] w.1 = sardonyx.Update(w, k)  # float[3,2]
      w := w.1
    })");
}

TEST(PrintGraph, the_whole_form) {
  EXPECT_EQ(print(*example()), R"(<ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1], batch: N>
g (float[N:4,3] x) => (float[N:4,2] y)
<float[2] k = {1, 2.5}, state(parameter) float[3,2] w = {0, 1, 2, 3, 4, 5}>
{
  y = MatMul(x, w)                            # float[N:4,2]
  [dw of matmul] w.1 = sardonyx.Update(w, k)  # float[3,2]
  w := w.1
}
)");
}

TEST(PrintGraph, options_leave_out_types_and_long_data) {
  PrintOptions options;
  options.types = false;
  options.max_elements = 5;
  EXPECT_EQ(print(*example(), options),
            R"(<ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1], batch: N>
g (float[N:4,3] x) => (float[N:4,2] y)
<float[2] k = {1, 2.5}, state(parameter) float[3,2] w = {...}>
{
  y = MatMul(x, w)
  [dw of matmul] w.1 = sardonyx.Update(w, k)
  w := w.1
}
)");
}

TEST(PrintGraph, origins_are_comments) {
  const auto graph = example();
  graph->find("w")->origin = {
      Origin::Kind::kInitializer, "call1", -1, 0, "fc.weight", "fc.weight@n:1"};
  graph->find("y")->origin = {Origin::Kind::kNodeOutput, "", 0, 0, "y", ""};
  PrintOptions options;
  options.origins = true;
  const std::string text = print(*graph, options);
  EXPECT_EQ(text, R"(<ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1], batch: N>
g (float[N:4,3] x) => (float[N:4,2] y)
<
  float[2] k = {1, 2.5},
  state(parameter) float[3,2] w = {0, 1, 2, 3, 4, 5}  # from call1/fc.weight split fc.weight@n:1
>
{
  y = MatMul(x, w)                            # float[N:4,2] # from y
  [dw of matmul] w.1 = sardonyx.Update(w, k)  # float[3,2]
  w := w.1
}
)");
  EXPECT_EQ(print(*parse(text)), print(*graph));
}

TEST(PrintGraph, a_graph_without_initializers_opens_its_body_on_the_signature) {
  EXPECT_EQ(print(*parse("\"my net\" (x) => (y) { y = Relu(x) }")),
            "<ir_version: 8, opset_import: []>\n\"my net\" (x) => (y) {\n  y = Relu(x)\n}\n");
}

TEST(PrintGraph, long_lists_stand_one_per_line) {
  Graph graph;
  for (int i = 0; i < 9; ++i) {
    graph.add_input("input_number_" + std::to_string(i), TensorType(DType::kFloat32, {1}));
  }
  const std::string text = print(graph);
  EXPECT_NE(text.find("graph (\n  float[1] input_number_0,\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  float[1] input_number_8\n) => () {\n}\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace sardonyx::graph
