#include "graph/parse.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "graph/print.h"
#include "graph/support/error.h"
#include "graph/verify.h"

namespace sardonyx::graph {
namespace {

std::string error_of(std::string_view text) {
  try {
    parse(text);
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

// The attribute that `text` stands for.
Attribute attribute(const std::string& text) {
  return parse("g () => () { Op<a = " + text + ">() }")->nodes().front().attributes.at("a");
}

TEST(Parse, a_golden_in_onnx_style) {
  const auto graph = parse(R"(# why: the gradient of Relu reads y
<ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1]>
g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }
)");
  EXPECT_EQ(graph->name, "g");
  EXPECT_EQ(graph->ir_version, 8);
  EXPECT_EQ(graph->opsets, (std::map<std::string, int64_t>{{"", 13}, {"sardonyx", 1}}));
  EXPECT_EQ(graph->inputs()[0]->type.str(), "float[N,4]");
  EXPECT_EQ(graph->find("y")->type.str(), "float[N,4]");
  EXPECT_EQ(graph->nodes().front().op, "Relu");
  verify(*graph);
}

TEST(Parse, everything_optional_may_be_missing) {
  const auto graph = parse("g(x)=>(){}");
  EXPECT_EQ(graph->ir_version, 8);
  EXPECT_TRUE(graph->opsets.empty());
  EXPECT_EQ(graph->find("x")->type, TensorType());
  EXPECT_EQ(parse("<> \"\" () => () <> {}")->name, "");
}

TEST(Parse, states_bindings_roles_and_forward_nodes) {
  const auto graph = parse(R"(<batch: N> g (float[N:4] x) => ()
    <state(parameter) float[2] w = {1, 2}, state(optimizer) float[2] m, state(none) s,
     state(counter) int64[] t = {3}> {
      [update of /fc/Gemm 1] w.1, "", m.1 = my.domain.Op<lr = 0.5>(w, "", m, x, "")
      w := w.1
      m := m.1
    })");
  EXPECT_EQ(graph->batch_symbol, "N");
  EXPECT_EQ(graph->find("w")->role, StateRole::kParameter);
  EXPECT_EQ(graph->find("w")->data.to_doubles(), (std::vector<double>{1, 2}));
  EXPECT_FALSE(graph->find("m")->data.defined());
  EXPECT_EQ(graph->find("s")->role, StateRole::kNone);
  EXPECT_EQ(graph->find("t")->data.as_int(0), 3);
  const Node& node = graph->nodes().front();
  EXPECT_EQ(node.name, "update");
  EXPECT_EQ(node.forward_node, "/fc/Gemm 1");
  EXPECT_EQ(node.domain, "my.domain");
  EXPECT_EQ(node.op, "Op");
  EXPECT_EQ(node.num_inputs(), 5);
  EXPECT_EQ(node.input(1), nullptr);
  EXPECT_EQ(node.input(4), nullptr);
  EXPECT_EQ(node.output(1), nullptr);
  EXPECT_EQ(graph->bound(graph->find("m")), graph->find("m.1"));
}

TEST(Parse, bracket_names) {
  const auto name_of = [](const std::string& bracket) {
    const auto graph = parse("g () => () { " + bracket + " Op() }");
    return graph->nodes().front().name + "|" + graph->nodes().front().forward_node;
  };
  EXPECT_EQ(name_of("[conv1]"), "conv1|");
  EXPECT_EQ(name_of("[node 7]"), "node 7|");
  EXPECT_EQ(name_of("[7]"), "7|");
  EXPECT_EQ(name_of("[of conv1]"), "|conv1");
  EXPECT_EQ(name_of("[d/x:0-1 of a.b c]"), "d/x:0-1|a.b c");
  EXPECT_EQ(name_of("[\"of\" of \"] \"]"), "of|] ");
  EXPECT_EQ(name_of("[a of of]"), "a|of");
  EXPECT_EQ(name_of("[\"a  b\"]"), "a  b|");
}

TEST(Parse, the_comment_after_a_node_gives_its_types) {
  const auto graph = parse(R"(g (x) => (float[3] b) {
    a, "", c = Split(x)  # float[N:4,2]@n16z, undefined
    b = Relu(a)          # float[1], as a first guess
    d = Relu(b)          # int64
    e = Relu(b)          # why: float[3] is right
    f = Relu(b)
    # float[9]
  })");
  EXPECT_EQ(graph->find("a")->type.str(), "float[N:4,2]@n16z");
  EXPECT_EQ(graph->find("c")->type, TensorType());
  EXPECT_EQ(graph->find("b")->type.str(), "float[3]");
  EXPECT_EQ(graph->find("d")->type, TensorType::unranked(DType::kInt64));
  EXPECT_EQ(graph->find("e")->type, TensorType());
  EXPECT_EQ(graph->find("f")->type, TensorType());
}

TEST(Parse, the_signature_overrules_the_comment) {
  const auto graph = parse("g () => (float[2] y) {\n y = Op() # double[3]\n}");
  EXPECT_EQ(graph->find("y")->type.str(), "float[2]");
}

TEST(Parse, nodes_may_stand_in_any_order) {
  const auto graph = parse("g (x) => (b) { b = B(a) a = A(x) }");
  EXPECT_EQ(graph->nodes().front().op, "B");
  graph->sort();
  verify(*graph);
  EXPECT_EQ(graph->nodes().front().op, "A");
}

TEST(Parse, attribute_values) {
  EXPECT_EQ(std::get<int64_t>(attribute("-9223372036854775808")), INT64_MIN);
  EXPECT_EQ(std::get<double>(attribute("0.1")), static_cast<double>(0.1F));
  EXPECT_EQ(std::get<double>(attribute("0.1d")), 0.1);
  EXPECT_EQ(std::get<double>(attribute("1e-05")), static_cast<double>(1e-5F));
  EXPECT_EQ(std::get<double>(attribute("3d")), 3.0);
  EXPECT_EQ(std::get<double>(attribute("-inf")), -INFINITY);
  EXPECT_TRUE(std::isnan(std::get<double>(attribute("nan"))));
  EXPECT_EQ(std::bit_cast<uint64_t>(std::get<double>(attribute("nan(0x7ff8000000000003)"))),
            0x7ff8000000000003U);
  EXPECT_EQ(std::get<std::string>(attribute(R"("a\"\\\n\t\x00\xfF")")),
            std::string("a\"\\\n\t\0\xff", 7));
  EXPECT_EQ(std::get<std::vector<int64_t>>(attribute("[1, -2]")), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(std::get<std::vector<double>>(attribute("[1.0, 2, inf]")),
            (std::vector<double>{1, 2, INFINITY}));
  EXPECT_EQ(std::get<std::vector<std::string>>(attribute("[\"a\"]")),
            std::vector<std::string>{"a"});
  EXPECT_TRUE(std::get<std::vector<double>>(attribute("floats[]")).empty());
  EXPECT_EQ(std::get<AttributeReference>(attribute("@\"my alpha\"")).name, "my alpha");
  const auto body = std::get<GraphAttribute>(attribute(R"(graph("\x08\x01", ["x", "a/b"]))"));
  EXPECT_EQ(body, (GraphAttribute{"\x08\x01", {"x", "a/b"}}));
  EXPECT_FALSE(std::get<Tensor>(attribute("undefined")).defined());
}

TEST(Parse, tensor_values) {
  const auto tensor = [](const std::string& text) { return std::get<Tensor>(attribute(text)); };
  EXPECT_TRUE(tensor("float[2] {1, -0.5}").identical(Tensor::of<float>({2}, {1, -0.5F})));
  EXPECT_TRUE(tensor("float16[] {0.1}").identical(Tensor::scalar(0.1F).cast(DType::kFloat16)));
  EXPECT_TRUE(tensor("uint8[1] {255}").identical(Tensor::of<uint8_t>({1}, {255})));
  EXPECT_TRUE(tensor("string[1] {\"a\"}").identical(Tensor::of_strings({1}, {"a"})));
  EXPECT_TRUE(tensor("float[0] {}").identical(Tensor(DType::kFloat32, {0})));
  EXPECT_TRUE(tensor("double[2,2] {...}").identical(Tensor(DType::kFloat64, {2, 2})));
  EXPECT_EQ(tensor("int8[268435456] {...}").numel(), 268435456);
  EXPECT_EQ(tensor("bfloat16[2] {nan, nan(0xffc1)}").bytes()[2], std::byte{0xc1});
}

TEST(ParseErrors, say_line_column_found_and_expected) {
  EXPECT_EQ(
      error_of("g (x) => (y)\n{\n  y = Relu(x;\n}"),
      "line 3, column 13 of the graph text: found ';', expected a name, a number, a string or "
      "one of < > ( ) [ ] { } , = : @ ?");
  EXPECT_EQ(error_of("g (x) -> (y) {}"),
            "line 1, column 7 of the graph text: found '-', expected a name, a number, a string or "
            "one of < > ( ) [ ] { } , = : @ ?");
  EXPECT_EQ(error_of("g (x) => (x) {"),
            "line 1, column 15 of the graph text: found the end of the text, expected a node, a "
            "binding or '}'");
  EXPECT_EQ(
      error_of("g (x) => (x) {} }"),
      "line 1, column 17 of the graph text: found '}', expected the end of the text after '}'");
  EXPECT_EQ(error_of(""),
            "line 1, column 1 of the graph text: found the end of the text, expected the graph's "
            "name");
  EXPECT_EQ(error_of("<ir: 8> g () => () {}"),
            "line 1, column 2 of the graph text: found 'ir', expected ir_version, opset_import or "
            "batch");
}

TEST(ParseErrors, count_columns_in_characters) {
  EXPECT_EQ(error_of("\"\u5c42\u5c42\" =>"),
            "line 1, column 6 of the graph text: found '=>', expected '('");
}

TEST(ParseErrors, names) {
  EXPECT_EQ(
      error_of("g (x, x) => () {}"),
      "line 1, column 7 of the graph text: found 'x', expected a name that no other value has");
  EXPECT_EQ(
      error_of("g (x) => () { a, a = Op(x) }"),
      "line 1, column 18 of the graph text: found 'a', expected a name that no other value has");
  EXPECT_EQ(error_of("g (\"\") => () {}"),
            "line 1, column 4 of the graph text: found \"\", expected a name that is not empty");
  EXPECT_EQ(error_of("g (float[1] weight) => () { y = Relu(wieght) }"),
            "line 1, column 38 of the graph text: found 'wieght', expected the name of a value "
            "(near: weight)");
  EXPECT_EQ(error_of("g () => (zzz) {}"),
            "line 1, column 10 of the graph text: found 'zzz', expected the name of a value");
  EXPECT_EQ(error_of("g () => () { [a of ] Op() }"),
            "line 1, column 20 of the graph text: found ']', expected a node's name");
  EXPECT_EQ(error_of("g () => () { [a, b] Op() }"),
            "line 1, column 16 of the graph text: found ',', expected a node's name or ']'");
}

TEST(ParseErrors, types_and_data) {
  EXPECT_EQ(error_of("g (float32[1] x) => () {}"),
            "line 1, column 4 of the graph text: found 'float32', expected an element type such as "
            "float, double, int64, bool");
  EXPECT_EQ(
      error_of("g (float[-1] x) => () {}"),
      "line 1, column 10 of the graph text: found '-1', expected a dimension: 3, N, N:3 or ?");
  EXPECT_EQ(error_of("g (float[1]@x x) => () {}"),
            "line 1, column 12 of the graph text: found '@', expected a layout such as @0231, @n16 "
            "or @c16z");
  EXPECT_EQ(error_of("g () => () <float[3] k = {1, 2}> {}"),
            "line 1, column 26 of the graph text: found '{', expected 3 elements for float[3], not "
            "2");
  EXPECT_EQ(error_of("g () => () <float[N] k = {1}> {}"),
            "line 1, column 26 of the graph text: found '{', expected a type with known dimensions "
            "before the data");
  EXPECT_EQ(error_of("g () => () <uint8[1] k = {256}> {}"),
            "line 1, column 27 of the graph text: found '256', expected a uint8");
  EXPECT_EQ(error_of("g () => () <float[1] k> {}"),
            "line 1, column 23 of the graph text: found '>', expected '=' and the bytes of the "
            "constant");
  EXPECT_EQ(
      error_of("g () => () <state(weight) float[1] k> {}"),
      "line 1, column 19 of the graph text: found 'weight', expected a role: none, parameter, "
      "statistic, optimizer, accumulator, counter");
  EXPECT_EQ(
      error_of("g (float[2] x) => (float[3] x) {}"),
      "line 1, column 29 of the graph text: found 'x', expected type float[2] as where 'x' was "
      "declared");
  EXPECT_EQ(
      error_of("g () => () {\n y = Op()  # float, float\n}"),
      "line 2, column 9 of the graph text: found ')', expected 1 types in the comment, one per "
      "output, not 2");
  EXPECT_EQ(error_of("g () => () <double[33554433] k = {...}> {}"),
            "line 1, column 34 of the graph text: found '{', expected data, for {...} stands for "
            "at most 268435456 bytes");
  EXPECT_EQ(error_of("g () => () <string[33554432] k = {...}> {}"),
            "line 1, column 34 of the graph text: found '{', expected data, for {...} stands for "
            "at most 268435456 bytes");
  EXPECT_EQ(error_of("g () => () <float[4611686018427387904,4] k = {...}> {}"),
            "shape [4611686018427387904,4] has more than 2^62 elements");
}

TEST(ParseErrors, attributes) {
  const auto error = [](const std::string& text) {
    return error_of("g () => () { Op<a = " + text + ">() }");
  };
  const std::string at = "line 1, column 21 of the graph text: found ";
  EXPECT_EQ(error("1e300"), at + "'1e300', expected a float32 (a double has the suffix d)");
  EXPECT_EQ(error("9223372036854775808"),
            at + "'9223372036854775808', expected an integer of 64 bits");
  EXPECT_EQ(error("float"), "line 1, column 26 of the graph text: found '>', expected '{'");
  EXPECT_EQ(error("foo"),
            at + "'foo', expected an element type such as float, double, int64, bool");
  EXPECT_EQ(error("[]"),
            "line 1, column 22 of the graph text: found ']', expected a number or a string (an "
            "empty list is ints[], floats[] or strings[])");
  EXPECT_EQ(error("[1, 0.5]"),
            "line 1, column 25 of the graph text: found '0.5', expected an integer of 64 bits");
  EXPECT_EQ(error("[\"a\", 1]"),
            "line 1, column 27 of the graph text: found '1', expected a string in quotes");
  EXPECT_EQ(error("\"a\\q\""),
            at + "\"a\\, expected a string with the escapes \\\" \\\\ \\n \\t \\xNN only");
  EXPECT_EQ(error("\"abc"), at + "\"abc>() }, expected a closing quote on the same line");
  EXPECT_EQ(error("1, a = 2"),
            "line 1, column 24 of the graph text: found 'a', expected each attribute once");
  EXPECT_EQ(error("nan(1)"),
            "line 1, column 25 of the graph text: found '1', expected the bits of a NaN, as 0x...");
}

TEST(ParseErrors, bindings) {
  EXPECT_EQ(error_of("g (x) => () { x := x }"),
            "line 1, column 15 of the graph text: found 'x', expected a state before ':='");
  EXPECT_EQ(error_of("g (x) => () <state(counter) int64[] t> { t := x t := x }"),
            "line 1, column 49 of the graph text: found 't', expected one binding per state");
}

// Any text ends in a graph or in an Error: cut and damaged texts of every kind.
TEST(ParseErrors, damaged_text_never_does_worse_than_an_error) {
  const std::string text = R"(<ir_version: 8, opset_import: ["" : 13], batch: N>
g (float[N:4,"a b",?]@c16z x, y) => (float[N:4] z)
<float16[2] k = {1, nan(0x7e01)}, state(parameter) string[1] w = {"\xff"}>
{ [n of m] z, "" = "a b"."c"<f = -1.5e-3d, g = graph("\x00", ["x"]), h = [1, 2], r = @q>(x, "", k) # float[4], x
  w := z })";
  parse(text);
  for (size_t i = 0; i < text.size(); ++i) {
    for (const char c : {'\0', '"', '[', ')', '>', '#', '9', 'x', '\n', '\xff'}) {
      std::string damaged = text;
      damaged[i] = c;
      error_of(damaged);
    }
    error_of(text.substr(0, i));
    error_of(std::string(text).erase(i, 3));
  }
}

}  // namespace
}  // namespace sardonyx::graph
