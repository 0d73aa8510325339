#include "graph/onnx_import.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <functional>

#include "tests/support/onnx_sketch.h"

namespace sardonyx::graph {
namespace {

using testing::error_of;

// A model with one float input x[N,2] that grows node by node.
class Sketch {
 public:
  Sketch() {
    model.set_ir_version(8);
    model.add_opset_import()->set_version(17);
    graph().set_name("g");
    auto* type = input("x")->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    type->mutable_shape()->add_dim()->set_dim_param("N");
    type->mutable_shape()->add_dim()->set_dim_value(2);
  }
  onnx::GraphProto& graph() { return *model.mutable_graph(); }
  onnx::ValueInfoProto* input(const std::string& name) {
    auto* info = graph().add_input();
    info->set_name(name);
    return info;
  }
  void output(const std::string& name) { graph().add_output()->set_name(name); }
  onnx::NodeProto* node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs) {
    return fill(graph().add_node(), op, inputs, outputs);
  }
  static onnx::NodeProto* fill(onnx::NodeProto* node, const std::string& op,
                               const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs) {
    node->set_op_type(op);
    for (const auto& name : inputs) node->add_input(name);
    for (const auto& name : outputs) node->add_output(name);
    return node;
  }
  onnx::TensorProto* weight(const std::string& name, const std::vector<float>& values) {
    auto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->add_dims(static_cast<int64_t>(values.size()));
    for (float v : values) tensor->add_float_data(v);
    return tensor;
  }
  ImportedModel import() const {
    return import_model(Model::from_bytes(model.SerializeAsString()));
  }
  std::string error() const {
    return error_of([&] { import(); });
  }

  onnx::ModelProto model;
};

onnx::AttributeProto* attribute(onnx::NodeProto* node, const std::string& name,
                                onnx::AttributeProto::AttributeType kind) {
  auto* result = node->add_attribute();
  result->set_name(name);
  result->set_type(kind);
  return result;
}

TEST(Import, takes_over_names_types_and_origins) {
  Sketch s;
  s.weight("w", {1, 2});
  s.node("Add", {"x", "w"}, {"a"})->set_name("add");
  s.node("Split", {"a"}, {"", "y"});
  s.output("y");
  auto* hint = s.graph().add_value_info();
  hint->set_name("a");
  hint->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::DOUBLE);
  const ImportedModel imported = s.import();
  const Graph& g = *imported.graph;

  EXPECT_EQ(g.name, "g");
  EXPECT_EQ(g.ir_version, 8);
  EXPECT_EQ(g.opsets.at(""), 17);
  ASSERT_EQ(g.inputs().size(), 1u);
  EXPECT_EQ(g.inputs()[0]->type.str(), "float[N,2]");
  EXPECT_EQ(g.inputs()[0]->origin.kind, Origin::Kind::kGraphInput);
  const Value* w = g.find("w");
  EXPECT_TRUE(w->is_constant());
  EXPECT_EQ(w->data.to_doubles(), (std::vector<double>{1, 2}));
  EXPECT_EQ(w->origin.kind, Origin::Kind::kInitializer);
  EXPECT_EQ(w->origin.tensor, "w");
  EXPECT_EQ(g.find("a")->type.str(), "double");
  const Value* y = g.find("y");
  EXPECT_EQ(y->origin.kind, Origin::Kind::kNodeOutput);
  EXPECT_EQ(y->origin.node, 1);
  EXPECT_EQ(y->origin.slot, 1);
  EXPECT_EQ(y->producer->output(0), nullptr);
  EXPECT_EQ(g.outputs(), (std::vector<Value*>{g.find("y")}));
  EXPECT_TRUE(imported.notices.empty());
}

TEST(Import, initializer_listed_as_input_becomes_a_constant) {
  Sketch s;
  s.weight("w", {1, 2});
  auto* type = s.input("w")->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_value(2);
  s.node("Add", {"x", "w"}, {"y"});
  s.output("y");
  const ImportedModel imported = s.import();
  EXPECT_EQ(imported.graph->inputs().size(), 1u);
  EXPECT_TRUE(imported.graph->find("w")->is_constant());

  type->mutable_shape()->mutable_dim(0)->set_dim_value(3);
  EXPECT_NE(s.error().find("initializer 'w' is float[2], but the input of that name is declared as "
                           "float[3]"),
            std::string::npos)
      << s.error();
}

TEST(Import, constant_nodes_stay_nodes) {
  Sketch s;
  auto* value =
      attribute(s.node("Constant", {}, {"c"}), "value", onnx::AttributeProto::TENSOR)->mutable_t();
  value->set_data_type(onnx::TensorProto::FLOAT);
  value->add_float_data(4);
  s.node("Add", {"x", "c"}, {"y"});
  s.output("y");
  const ImportedModel imported = s.import();
  const Value* c = imported.graph->find("c");
  EXPECT_EQ(c->kind, ValueKind::kResult);
  EXPECT_EQ(c->origin.kind, Origin::Kind::kConstantNode);
  EXPECT_EQ(c->origin.node, 0);
  EXPECT_EQ(c->origin.slot, 0);
  EXPECT_EQ(c->producer->get_tensor("value")->to_doubles(), (std::vector<double>{4}));
}

TEST(Import, attributes_of_every_kind) {
  using A = onnx::AttributeProto;
  Sketch s;
  auto* node = s.node("Any", {"x"}, {"y"});
  attribute(node, "i", A::INT)->set_i(-3);
  attribute(node, "f", A::FLOAT)->set_f(0.5f);
  attribute(node, "s", A::STRING)->set_s("text");
  attribute(node, "is", A::INTS)->add_ints(7);
  attribute(node, "fs", A::FLOATS)->add_floats(1.5f);
  attribute(node, "ss", A::STRINGS)->add_strings("a");
  attribute(node, "zero", A::INT);   // writers of proto3 leave a zero out
  attribute(node, "none", A::INTS);  // an empty list
  attribute(node, "old", A::UNDEFINED)->set_i(9);
  s.output("y");
  const ImportedModel imported = s.import();
  const Node& n = imported.graph->nodes().front();
  EXPECT_EQ(n.get_int("i", 0), -3);
  EXPECT_EQ(n.get_float("f", 0), 0.5);
  EXPECT_EQ(n.get_string("s", ""), "text");
  EXPECT_EQ(n.get_ints("is", {}), (std::vector<int64_t>{7}));
  EXPECT_EQ(n.get_floats("fs", {}), (std::vector<double>{1.5}));
  EXPECT_EQ(std::get<std::vector<std::string>>(n.attributes.find("ss")->second),
            (std::vector<std::string>{"a"}));
  EXPECT_EQ(n.get_int("zero", 1), 0);
  EXPECT_EQ(n.get_ints("none", {1}), (std::vector<int64_t>{}));
  EXPECT_EQ(n.get_int("old", 0), 9);
}

TEST(Import, faults_of_attributes_name_node_and_attribute) {
  using A = onnx::AttributeProto;
  Sketch s;
  auto* node = s.node("Any", {"x"}, {"y"});
  node->set_name("any");
  attribute(node, "mixed", A::INTS)->add_floats(1);
  attribute(node, "twice", A::INT);
  attribute(node, "twice", A::INT);
  attribute(node, "", A::INT);
  attribute(node, "empty", A::TENSOR);
  attribute(node, "ref", A::INT)->set_ref_attr_name("alpha");
  s.output("y");
  EXPECT_EQ(
      s.error(),
      "the model in memory: 5 faults in the model:\n"
      "  node any (Any): attribute 'mixed': is declared as ints but holds a value of kind floats\n"
      "  node any (Any): attribute 'twice' stands twice\n"
      "  node any (Any): an attribute has no name\n"
      "  node any (Any): attribute 'empty': is declared as tensor but holds none\n"
      "  node any (Any): attribute 'ref' refers to the function attribute 'alpha', but the node is "
      "in "
      "no function");
}

TEST(Import, subgraph_keeps_its_bytes_and_its_outer_names) {
  Sketch s;
  s.weight("w", {1, 2});
  s.node("Relu", {"x"}, {"r"});
  auto* branch = s.node("If", {"r"}, {"y"});
  onnx::GraphProto* body =
      attribute(branch, "then_branch", onnx::AttributeProto::GRAPH)->mutable_g();
  Sketch::fill(body->add_node(), "Add", {"r", "w"}, {"inner"});
  onnx::NodeProto* deeper = Sketch::fill(body->add_node(), "If", {"inner"}, {"z"});
  onnx::GraphProto* leaf =
      attribute(deeper, "then_branch", onnx::AttributeProto::GRAPH)->mutable_g();
  Sketch::fill(leaf->add_node(), "Add", {"inner", "x"}, {"deep"});
  leaf->add_output()->set_name("deep");
  body->add_output()->set_name("z");
  auto* big = body->add_initializer();  // cut from the skeleton, not from the attribute
  big->set_name("big");
  big->set_raw_data(std::string(2000, 'q'));
  s.output("y");

  const ImportedModel imported = s.import();
  const auto& found = std::get<GraphAttribute>(
      imported.graph->nodes().back().attributes.find("then_branch")->second);
  EXPECT_EQ(found.outer_values, (std::vector<std::string>{"r", "w", "x"}));
  EXPECT_EQ(found.serialized, body->SerializeAsString());

  leaf->mutable_node(0)->set_input(1, "ghost");
  EXPECT_NE(
      s.error().find("node If -> y reads (in a graph inside it) 'ghost', which nothing defines"),
      std::string::npos)
      << s.error();
}

TEST(Import, unsorted_nodes_are_sorted_with_a_notice_and_keep_their_place) {
  Sketch s;
  s.node("Relu", {"a"}, {"y"});
  s.node("Tanh", {"x"}, {"a"});
  s.output("y");
  const ImportedModel imported = s.import();
  const auto& nodes = imported.graph->nodes();
  EXPECT_EQ(nodes.front().op, "Tanh");
  EXPECT_EQ(nodes.front().origin.node, 1);
  EXPECT_EQ(nodes.back().origin.node, 0);
  ASSERT_EQ(imported.notices.size(), 1u);
  EXPECT_NE(imported.notices[0].find("sorted"), std::string::npos);
}

TEST(Import, a_node_waits_for_what_its_subgraph_reads) {
  Sketch s;
  auto* branch = s.node("If", {"x"}, {"y"});
  auto* body = attribute(branch, "then_branch", onnx::AttributeProto::GRAPH)->mutable_g();
  Sketch::fill(body->add_node(), "Relu", {"late"}, {"z"});
  s.node("Tanh", {"x"}, {"late"});
  s.output("y");
  EXPECT_EQ(s.import().graph->nodes().front().op, "Tanh");
}

TEST(Import, all_faults_are_reported_at_once) {
  Sketch s;
  s.model.set_ir_version(2);
  s.weight("w", {1});
  s.weight("w", {2});
  s.weight("", {3});
  s.input("x");
  s.input("untyped");
  s.node("Relu", {"gost"}, {"ghost"});
  s.node("Relu", {"x"}, {"ghost"});
  s.node("", {"x"}, {"p", "p"});
  s.node("Magic", {"x"}, {"q"})->set_domain("acme");
  s.node("Add", {"c2", "x"}, {"c1"});
  s.node("Relu", {"c1"}, {"c2"});
  s.output("nowhere");
  s.output("q");
  s.output("q");
  EXPECT_EQ(s.error(),
            "the model in memory: 13 faults in the model:\n"
            "  IR version 2 is not supported; supported are 3 to 14; export it again with a newer "
            "exporter\n"
            "  the initializer 'w' has the name of another value\n"
            "  one initializer has no name\n"
            "  two graph inputs are called 'x'\n"
            "  graph input 'untyped' has no type; only tensors can be fed\n"
            "  node Relu -> ghost makes 'ghost', which is already made by another node\n"
            "  node  -> p makes 'p' twice\n"
            "  node Relu -> ghost reads 'gost', which nothing defines; did you mean 'ghost'\n"
            "  node  -> p has no operator\n"
            "  no opset import for domain 'acme', which node Magic -> q needs\n"
            "  a cycle: each of these nodes needs the one before it, the first needs the last: "
            "Relu -> c2, "
            "Add -> c1\n"
            "  the graph output 'nowhere' is made by no node\n"
            "  the graph output 'q' is listed twice");
}

TEST(Import, more_than_fifty_faults_are_counted) {
  Sketch s;
  for (int i = 0; i < 60; ++i) s.node("Relu", {"ghost"}, {"y" + std::to_string(i)});
  s.output("y0");
  const std::string error = s.error();
  EXPECT_NE(error.find("60 faults"), std::string::npos);
  EXPECT_NE(error.find("... and 10 more"), std::string::npos);
}

TEST(Import, opset_and_ir_ranges) {
  Sketch s;
  s.node("Relu", {"x"}, {"y"});
  s.output("y");
  s.model.mutable_opset_import(0)->set_version(28);
  EXPECT_TRUE(s.import().notices.empty());
  s.model.mutable_opset_import(0)->set_version(29);
  ASSERT_EQ(s.import().notices.size(), 1u);
  EXPECT_EQ(
      s.import().notices[0],
      "opset 29 is newer than 28, the newest one supported; operators are read as in opset 28");
  auto* again = s.model.add_opset_import();
  again->set_domain("ai.onnx");
  again->set_version(29);
  EXPECT_EQ(s.error(), "no error");
  again->set_version(13);
  EXPECT_NE(s.error().find("two opset imports for domain '': 29 and 13"), std::string::npos);
  s.model.set_ir_version(15);
  EXPECT_NE(s.error().find("IR version 15 is not supported; supported are 3 to 14"),
            std::string::npos);
}

TEST(Import, sequence_output_is_a_notice) {
  Sketch s;
  s.node("SplitToSequence", {"x"}, {"y"});
  auto* output = s.graph().add_output();
  output->set_name("y");
  output->mutable_type()->mutable_sequence_type();
  const ImportedModel imported = s.import();
  EXPECT_EQ(imported.graph->find("y")->type.dtype, DType::kUndefined);
  EXPECT_EQ(imported.notices, (std::vector<std::string>{"graph output 'y' has a sequence type"}));
}

TEST(Import, a_sequence_can_not_be_fed) {
  Sketch s;
  auto* input = s.graph().add_input();
  input->set_name("s");
  input->mutable_type()->mutable_sequence_type();
  s.node("Relu", {"s"}, {"y"});
  s.output("y");
  EXPECT_NE(s.error().find("graph input 's' has a sequence type; only tensors can be fed"),
            std::string::npos);
}

TEST(Import, control_characters_are_escaped_in_messages) {
  Sketch s;
  s.node("Relu", {"gh\x1b[31m\nost"}, {"y"})->set_name("n\r");
  s.output("y");
  EXPECT_NE(s.error().find("node n\\x0d (Relu) reads 'gh\\x1b[31m\\nost', which nothing defines"),
            std::string::npos)
      << s.error();
}

TEST(ImportFunctions, body_attributes_and_defaults) {
  Sketch s;
  s.model.add_opset_import()->set_domain("local");
  s.model.mutable_opset_import(1)->set_version(1);
  auto* call = s.node("scale", {"x"}, {"y"});
  call->set_domain("local");
  call->set_name("call");
  s.output("y");
  onnx::FunctionProto* f = s.model.add_functions();
  f->set_name("scale");
  f->set_domain("local");
  f->add_input("u");
  f->add_output("v");
  f->add_attribute("alpha");
  f->add_opset_import()->set_version(16);
  auto* inner = Sketch::fill(f->add_node(), "LeakyRelu", {"u"}, {"v"});
  attribute(inner, "alpha", onnx::AttributeProto::FLOAT)->set_ref_attr_name("alpha");
  // Field 11, attribute_proto, is newer than this onnx.proto.
  onnx::AttributeProto fallback;
  fallback.set_name("beta");
  fallback.set_type(onnx::AttributeProto::FLOAT);
  fallback.set_f(0.25f);
  f->mutable_unknown_fields()->AddLengthDelimited(11, fallback.SerializeAsString());

  const ImportedModel imported = s.import();
  EXPECT_EQ(imported.graph->nodes().front().domain, "local");
  ASSERT_EQ(imported.functions.size(), 1u);
  const Function& function = imported.functions[0];
  EXPECT_EQ(function.name, "scale");
  EXPECT_EQ(function.domain, "local");
  EXPECT_EQ(function.inputs, (std::vector<std::string>{"u"}));
  EXPECT_EQ(function.outputs, (std::vector<std::string>{"v"}));
  EXPECT_EQ(function.attributes, (std::vector<std::string>{"alpha"}));
  EXPECT_EQ(std::get<double>(function.attribute_defaults.at("beta")), 0.25);
  EXPECT_EQ(function.opsets.at(""), 16);
  const Node& node = function.body->nodes().front();
  EXPECT_EQ(std::get<AttributeReference>(node.attributes.at("alpha")).name, "alpha");
  EXPECT_EQ(function.body->inputs()[0]->type, TensorType());
  EXPECT_EQ(node.output(0)->origin.node, 0);
  EXPECT_EQ(node.output(0)->origin.path, "");
}

TEST(ImportFunctions, overloads_are_told_apart) {
  Sketch s;
  for (const char* overload : {"a", "b"}) {
    onnx::FunctionProto* f = s.model.add_functions();
    f->set_name("f");
    f->set_domain("local");
    f->mutable_unknown_fields()->AddLengthDelimited(13, overload);
    f->add_input("u");
    f->add_output("v");
    Sketch::fill(f->add_node(), "Relu", {"u"}, {"v"});
  }
  auto* call = s.node("f", {"x"}, {"y"});
  call->set_domain("local");
  call->mutable_unknown_fields()->AddLengthDelimited(8, "b");
  s.output("y");
  const ImportedModel imported = s.import();
  EXPECT_EQ(imported.functions[1].name, "f:b");
  EXPECT_EQ(imported.functions[1].overload, "b");
  EXPECT_EQ(imported.graph->nodes().front().op, "f:b");
}

TEST(ImportFunctions, one_that_is_called_like_a_standard_operator_is_told) {
  Sketch s;
  onnx::FunctionProto* f = s.model.add_functions();
  f->set_name("Relu");
  f->add_input("u");
  f->add_output("v");
  Sketch::fill(f->add_node(), "Neg", {"u"}, {"v"});
  s.node("Relu", {"x"}, {"y"});
  s.output("y");
  EXPECT_EQ(s.import().notices,
            (std::vector<std::string>{"the file has a function 'Relu' in ONNX's own domain: nodes "
                                      "of that name call it, not the standard operator"}));
}

TEST(ImportFunctions, calls_are_labelled_by_name_and_index_where_a_name_repeats) {
  Sketch s;
  onnx::FunctionProto* f = s.model.add_functions();
  f->set_name("f");
  f->set_domain("local");
  f->add_input("u");
  f->add_output("v");
  Sketch::fill(f->add_node(), "Relu", {"u"}, {"v"});
  std::vector<std::string> names{"a", "same", "same", ""};
  for (const std::string& name : names) {
    auto* call = s.node("f", {"x"}, {"y" + std::to_string(s.graph().node_size())});
    call->set_domain("local");
    call->set_name(name);
  }
  s.node("Relu", {"x"}, {"y"})->set_name("same");
  s.output("y");
  const ImportedModel imported = s.import();
  std::vector<std::string> labels;
  for (const auto& [node, label] : call_labels(*imported.graph, imported.functions)) {
    labels.push_back(label);
  }
  std::sort(labels.begin(), labels.end());
  EXPECT_EQ(labels, (std::vector<std::string>{"a", "f", "same#1", "same#2"}));
}

TEST(ImportFunctions, recursion_and_explosive_calls_are_refused) {
  const auto with_functions = [](int count,
                                 const std::function<std::vector<std::string>(int)>& calls) {
    Sketch s;
    for (int i = 0; i < count; ++i) {
      onnx::FunctionProto* f = s.model.add_functions();
      f->set_name("f" + std::to_string(i));
      f->set_domain("local");
      f->add_opset_import()->set_version(17);
      for (const std::string& callee : calls(i)) {
        Sketch::fill(f->add_node(), callee, {}, {})->set_domain("local");
      }
    }
    s.node("f" + std::to_string(count - 1), {}, {})->set_domain("local");
    s.node("Relu", {"x"}, {"y"});
    s.output("y");
    return s.error();
  };
  const auto name = [](int i) { return "f" + std::to_string(i); };
  const std::string twice = with_functions(40, [&](int i) {
    return i == 0 ? std::vector<std::string>{} : std::vector<std::string>{name(i - 1), name(i - 1)};
  });
  EXPECT_NE(twice.find("expand to more than 1000000 nodes"), std::string::npos) << twice;
  const std::string ring =
      with_functions(3, [&](int i) { return std::vector<std::string>{name((i + 1) % 3)}; });
  EXPECT_NE(ring.find("calls itself"), std::string::npos) << ring;
  const auto chain = [&](int i) {
    return i == 0 ? std::vector<std::string>{} : std::vector<std::string>{name(i - 1)};
  };
  EXPECT_EQ(with_functions(64, chain), "no error");
  const std::string deep = with_functions(100'000, chain);
  EXPECT_NE(deep.find("nest 100000 deep; the limit is 64"), std::string::npos) << deep;
}

}  // namespace
}  // namespace sardonyx::graph
