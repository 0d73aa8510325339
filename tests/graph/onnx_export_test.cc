#include "graph/onnx_export.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "graph/builder.h"
#include "graph/onnx_import.h"
#include "graph/wire.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::graph {
namespace {

namespace fs = std::filesystem;
using testing::add_node;
using testing::add_weight;
using testing::base_model;
using testing::count_files;
using testing::doubles;
using testing::error_of;
using testing::floats;
using testing::initializer_origin;
using testing::read_file;
using testing::TemporaryFolder;

// Saves and reads back: the parsed model, and the graph.
struct Saved {
  onnx::ModelProto proto;
  ImportedModel imported;
  std::vector<std::string> notices;

  Saved(const onnx::ModelProto& model, const std::vector<NewValue>& values,
        SaveOptions options = {}) {
    const TemporaryFolder folder;
    const fs::path path = folder.path() / "out.onnx";
    options.notices = &notices;
    save_model(*Model::from_bytes(model.SerializeAsString()), values, path, options);
    EXPECT_EQ(count_files(folder.path()), 1u);
    EXPECT_TRUE(proto.ParseFromString(read_file(path)));
    imported = import_model(Model::open(path));
  }
  std::vector<double> value(const std::string& name) const {
    return imported.graph->find(name)->data.to_doubles();
  }
};

TEST(Save, no_values_copy_the_file_bit_for_bit) {
  const TemporaryFolder folder;
  onnx::ModelProto model = base_model();
  add_node(model, "Relu", {"x"}, "y");
  std::string whole("\x08\x07\x08\x08",
                    4);  // a repeated field, which a re-serialised file would lose
  wire::append_bytes(whole, 7, model.graph().SerializeAsString());
  whole += std::string("\x42\x02\x10\x11\xa0\x9c\x01\x05", 8);  // the opset, an unknown field
  save_model(*Model::from_bytes(whole), {}, folder.path() / "copy.onnx");
  EXPECT_EQ(read_file(folder.path() / "copy.onnx"), whole);
}

TEST(Save, raw_data_is_replaced_in_place_and_nothing_else) {
  onnx::ModelProto model = base_model();
  add_weight(model, "w", onnx::TensorProto::FLOAT, 2)->set_raw_data(floats({1, 2}));
  add_weight(model, "other", onnx::TensorProto::FLOAT, 1)->set_raw_data(floats({9}));
  add_node(model, "Add", {"x", "w"}, "y");
  const Saved saved(model, {{initializer_origin("w"), doubles({3, -4})}});
  EXPECT_EQ(saved.value("w"), (std::vector<double>{3, -4}));
  model.mutable_graph()->mutable_initializer(0)->set_raw_data(floats({3, -4}));
  EXPECT_EQ(saved.proto.SerializeAsString(), model.SerializeAsString());
}

TEST(Save, typed_fields_keep_their_form_and_may_change_size) {
  using P = onnx::TensorProto;
  onnx::ModelProto model = base_model();
  auto* half = add_weight(model, "half", P::FLOAT16, 2);
  half->add_int32_data(0);  // one byte each, afterwards three and three
  half->add_int32_data(1);
  auto* f = add_weight(model, "f", P::FLOAT, 1);
  f->add_float_data(1);
  auto* d = add_weight(model, "d", P::DOUBLE, 1);
  d->add_double_data(1);
  auto* i = add_weight(model, "i", P::INT32, 1);
  i->add_int32_data(1);
  auto* l = add_weight(model, "l", P::INT64, 1);
  l->add_int64_data(1);
  auto* u = add_weight(model, "u", P::UINT64, 1);
  u->add_uint64_data(1);
  add_node(model, "Sum", {"x", "half", "f", "d", "i", "l", "u"}, "y");
  const Saved saved(model, {{initializer_origin("half"), doubles({1, -2})},
                            {initializer_origin("f"), doubles({0.5})},
                            {initializer_origin("d"), doubles({0.1})},
                            {initializer_origin("i"), doubles({-7})},
                            {initializer_origin("l"), doubles({-8})},
                            {initializer_origin("u"), doubles({300})}});
  EXPECT_EQ(saved.value("half"), (std::vector<double>{1, -2}));
  EXPECT_EQ(saved.value("f"), (std::vector<double>{0.5}));
  EXPECT_EQ(saved.value("d"), (std::vector<double>{0.1}));
  EXPECT_EQ(saved.value("i"), (std::vector<double>{-7}));
  EXPECT_EQ(saved.value("l"), (std::vector<double>{-8}));
  EXPECT_EQ(saved.value("u"), (std::vector<double>{300}));
  half->set_int32_data(0, 0x3c00);
  half->set_int32_data(1, 0xc000);
  f->set_float_data(0, 0.5f);
  d->set_double_data(0, 0.1);
  i->set_int32_data(0, -7);
  l->set_int64_data(0, -8);
  u->set_uint64_data(0, 300);
  EXPECT_EQ(saved.proto.SerializeAsString(), model.SerializeAsString());
}

TEST(Save, unpacked_elements_become_one_packed_field) {
  std::string tensor("\x08\x02\x10\x01\x42\x01w", 7);
  for (float v : {1.0f, 2.0f}) {
    wire::append_tag(tensor, 4, wire::Type::kFixed32);
    tensor += floats({v});
  }
  onnx::ModelProto model = base_model();
  add_node(model, "Add", {"x", "w"}, "y");
  std::string graph = model.graph().SerializeAsString(), bytes("\x08\x08\x42\x02\x10\x11", 6);
  wire::append_bytes(graph, 5, tensor);
  wire::append_bytes(bytes, 7, graph);
  const TemporaryFolder folder;
  save_model(*Model::from_bytes(bytes), {{initializer_origin("w"), doubles({5, 6})}},
             folder.path() / "o");
  EXPECT_EQ(import_model(Model::open(folder.path() / "o")).graph->find("w")->data.to_doubles(),
            (std::vector<double>{5, 6}));
}

TEST(Save, constant_nodes_keep_their_attribute) {
  using A = onnx::AttributeProto;
  onnx::ModelProto model = base_model();
  const auto constant = [&](const std::string& output, const std::string& name,
                            A::AttributeType type) {
    auto* attribute = add_node(model, "Constant", {}, output)->add_attribute();
    attribute->set_name(name);
    attribute->set_type(type);
    return attribute;
  };
  auto* tensor = constant("t", "value", A::TENSOR)->mutable_t();
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  tensor->add_dims(1);
  tensor->set_raw_data(floats({1}));
  auto* list = constant("l", "value_floats", A::FLOATS);
  list->add_floats(1);
  list->add_floats(2);
  auto* scalar = constant("s", "value_float", A::FLOAT);
  scalar->set_f(1);
  constant("i", "value_int", A::INT)->set_i(1);
  add_node(model, "Sum", {"x", "t", "l", "s"}, "y");
  const ImportedModel before = import_model(Model::from_bytes(model.SerializeAsString()));
  const auto origin = [&](const char* name) { return before.graph->find(name)->origin; };

  const Saved saved(model, {{origin("t"), doubles({7})},
                            {origin("l"), doubles({8, 9})},
                            {origin("s"), Tensor::scalar<double>(0.5)}});
  tensor->set_raw_data(floats({7}));
  list->set_floats(0, 8);
  list->set_floats(1, 9);
  scalar->set_f(0.5f);
  EXPECT_EQ(saved.proto.SerializeAsString(), model.SerializeAsString());

  EXPECT_EQ(error_of([&] {
              Saved(model, {{origin("l"), doubles({8})}});
            }),
            "the new value has 1 elements, but the file's has 2\n  while saving the value of 'l'");
  EXPECT_EQ(
      error_of([&] {
        Saved(model, {{origin("i"), doubles({8})}});
      }),
      "node 3 of the file is no Constant with a float value\n  while saving the value of 'i'");
}

TEST(Save, wrong_shapes_and_unknown_names_are_refused) {
  onnx::ModelProto model = base_model();
  add_weight(model, "w", onnx::TensorProto::FLOAT, 2)->set_raw_data(floats({1, 2}));
  add_node(model, "Add", {"x", "w"}, "y");
  EXPECT_EQ(error_of([&] {
              Saved(model, {{initializer_origin("w"), doubles({1, 2, 3})}});
            }),
            "the new value has shape [3], but the file's tensor has [2]\n  while saving the value "
            "of 'w'");
  EXPECT_EQ(error_of([&] {
              Saved(model, {{initializer_origin("v"), doubles({1})}});
            }),
            "the file has no initializer of this name\n  while saving the value of 'v'");
}

TEST(Save, split_tensors_become_initializers_of_their_own) {
  onnx::ModelProto model = base_model();
  add_weight(model, "w", onnx::TensorProto::FLOAT, 1)->set_raw_data(floats({1}));
  add_node(model, "Norm", {"x", "w", "w"}, "a")->set_name("/n:1@x");
  add_node(model, "Norm", {"a", "w", "w"}, "y");
  Origin first = initializer_origin("w");
  first.split_use = "w@/n:1@x:2";
  Origin second = initializer_origin("w");
  second.split_use = "w@Norm:1";
  second.node = 1;
  second.slot = 1;
  const Saved saved(model, {{first, doubles({2})}, {second, doubles({3})}});
  EXPECT_EQ(saved.value("w"), (std::vector<double>{1}));
  EXPECT_EQ(saved.value("w@/n:1@x:2"), (std::vector<double>{2}));
  EXPECT_EQ(saved.value("w@Norm:1"), (std::vector<double>{3}));
  const auto& nodes = saved.proto.graph().node();
  EXPECT_EQ(nodes[0].input(1), "w");
  EXPECT_EQ(nodes[0].input(2), "w@/n:1@x:2");
  EXPECT_EQ(nodes[1].input(1), "w@Norm:1");
  EXPECT_EQ(nodes[1].input(2), "w");
  EXPECT_EQ(saved.proto.graph().input_size(), 1);

  first.split_use = "w@gone:1";
  EXPECT_EQ(error_of([&] {
              Saved(model, {{first, doubles({2})}});
            }),
            "the file has no node and input 'w@gone:1'\n  while saving the value of 'w'");
}

TEST(Save, new_initializers_of_ir_3_are_listed_as_inputs) {
  onnx::ModelProto model = base_model();
  model.set_ir_version(3);
  add_weight(model, "w", onnx::TensorProto::FLOAT, 1)->set_raw_data(floats({1}));
  add_node(model, "Norm", {"x", "w"}, "y")->set_name("n");
  Origin origin = initializer_origin("w");
  origin.split_use = "w@n:1";
  const Saved saved(model, {{origin, doubles({2})}});
  ASSERT_EQ(saved.proto.graph().input_size(), 2);
  EXPECT_EQ(saved.proto.graph().input(1).name(), "w@n:1");
  EXPECT_EQ(saved.proto.graph().input(1).type().tensor_type().shape().dim(0).dim_value(), 1);
}

TEST(Save, a_weight_that_was_an_input_gets_its_value_as_initializer) {
  onnx::ModelProto model = base_model();
  add_node(model, "Relu", {"x"}, "y");
  Origin origin;
  origin.kind = Origin::Kind::kGraphInput;
  origin.tensor = "x";
  const Saved saved(model, {{origin, Tensor::of<float>({2}, {1, 2})}});
  EXPECT_TRUE(saved.imported.graph->find("x")->is_constant());
  EXPECT_EQ(saved.value("x"), (std::vector<double>{1, 2}));
}

TEST(Save, node_edits_set_attributes_and_drop_inputs_and_outputs) {
  onnx::ModelProto model = base_model();
  auto* norm = add_node(model, "BatchNormalization", {"x", "x", "x"}, "y");
  norm->add_output("mean");
  model.mutable_graph()->add_value_info()->set_name("y");
  model.mutable_graph()->add_value_info()->set_name("mean");
  auto* mode = norm->add_attribute();
  mode->set_name("training_mode");
  mode->set_type(onnx::AttributeProto::INT);
  mode->set_i(1);
  NodeEdit change;
  change.node = 0;
  change.ints = {{"training_mode", 0}, {"added", 5}};
  change.keep_inputs = 2;
  change.keep_outputs = 1;
  SaveOptions options;
  options.node_edits = {change};
  const Saved saved(model, {}, options);
  const Node& node = saved.imported.graph->nodes().front();
  EXPECT_EQ(node.get_int("training_mode", 1), 0);
  EXPECT_EQ(node.get_int("added", 0), 5);
  EXPECT_EQ(node.num_inputs(), 2);
  EXPECT_EQ(node.num_outputs(), 1);
  ASSERT_EQ(saved.proto.graph().value_info_size(), 1);
  EXPECT_EQ(saved.proto.graph().value_info(0).name(), "y");
}

TEST(Save, a_removed_node_and_a_dropped_initializer_leave_nothing_behind) {
  onnx::ModelProto model = base_model();
  add_weight(model, "t", onnx::TensorProto::FLOAT, 1)->set_raw_data(floats({1}));
  add_weight(model, "of_caller", onnx::TensorProto::FLOAT, 1)->set_raw_data(floats({1}));
  model.mutable_graph()->add_input()->set_name("of_caller");
  add_node(model, "Constant", {}, "c");
  add_node(model, "Identity", {"x"}, "y");
  for (const char* name : {"c", "t", "y"}) model.mutable_graph()->add_value_info()->set_name(name);
  NodeEdit change;
  change.node = 0;
  change.remove = true;
  SaveOptions options;
  options.node_edits = {change};
  options.dropped_initializers = {"t", "of_caller"};
  const Saved saved(model, {}, options);
  model.mutable_graph()->mutable_node()->DeleteSubrange(0, 1);
  model.mutable_graph()->mutable_initializer()->DeleteSubrange(0, 1);
  model.mutable_graph()->mutable_value_info()->DeleteSubrange(0, 2);
  EXPECT_EQ(saved.proto.SerializeAsString(), model.SerializeAsString());
}

// Function f(u) = Add(u, Constant c), called by the nodes named.
onnx::ModelProto model_with_calls(const std::vector<std::string>& calls) {
  onnx::ModelProto model = base_model();
  auto* f = model.add_functions();
  f->set_name("f");
  f->set_domain("local");
  f->add_input("u");
  f->add_output("v");
  f->add_opset_import()->set_version(17);
  auto* constant = f->add_node();
  constant->set_op_type("Constant");
  constant->add_output("c");
  auto* attribute = constant->add_attribute();
  attribute->set_name("value");
  attribute->set_type(onnx::AttributeProto::TENSOR);
  attribute->mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  attribute->mutable_t()->add_dims(1);
  attribute->mutable_t()->set_raw_data(floats({1}));
  auto* add = f->add_node();
  add->set_op_type("Add");
  add->add_input("u");
  add->add_input("c");
  add->add_output("v");
  std::string from = "x";
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string to = i + 1 == calls.size() ? "y" : "t" + std::to_string(i);
    auto* call = add_node(model, "f", {from}, to);
    call->set_domain("local");
    call->set_name(calls[i]);
    from = to;
  }
  return model;
}

Origin constant_in(const std::string& path) {
  Origin origin;
  origin.kind = Origin::Kind::kConstantNode;
  origin.path = path;
  origin.node = 0;
  origin.slot = 0;
  origin.tensor = "c";
  return origin;
}

double constant_of(const ImportedModel& imported, const std::string& function) {
  for (const Function& f : imported.functions) {
    if (f.name == function) return f.body->nodes().front().get_tensor("value")->as_double(0);
  }
  return -1;
}

TEST(Save, a_function_called_once_is_edited_in_place) {
  onnx::ModelProto model = model_with_calls({"a/b"});
  const Saved saved(model, {{constant_in("a/b"), doubles({5})}});
  EXPECT_EQ(constant_of(saved.imported, "f"), 5);
  EXPECT_EQ(saved.proto.functions_size(), 1);
  EXPECT_TRUE(saved.notices.empty());
  EXPECT_EQ(error_of([&] {
              Saved(model, {{constant_in("zzz"), doubles({5})}});
            }),
            "the calls 'zzz' of local functions don't stand in the file\n"
            "  while saving the value of 'zzz/c'");
}

TEST(Save, a_number_that_the_type_of_the_file_cannot_hold_is_told) {
  onnx::ModelProto model = model_with_calls({"a/b"});
  auto* constant = model.mutable_functions(0)->mutable_node(0);
  ASSERT_EQ(constant->attribute(0).name(), "value");
  auto* tensor = constant->mutable_attribute(0)->mutable_t();
  const std::vector<int64_t> dims(tensor->dims().begin(), tensor->dims().end());
  tensor->Clear();
  tensor->set_name("c");
  tensor->set_data_type(onnx::TensorProto::FLOAT16);
  for (const int64_t dim : dims) tensor->add_dims(dim);
  tensor->set_raw_data(std::string(2, '\0'));
  const Saved fits(model, {{constant_in("a/b"), doubles({65504})}});
  EXPECT_TRUE(fits.notices.empty());
  const Saved large(model, {{constant_in("a/b"), doubles({-70000})}});
  ASSERT_EQ(large.notices.size(), 1u);
  EXPECT_TRUE(large.notices[0].starts_with(
      "-70000 of 'a/b/c' is too large for float16, the type it has in the file"))
      << large.notices[0];
}

TEST(Save, a_function_called_twice_is_copied_for_the_call_with_new_values) {
  const Saved saved(model_with_calls({"one", "two"}), {{constant_in("two"), doubles({5})}});
  EXPECT_EQ(constant_of(saved.imported, "f"), 1);
  EXPECT_EQ(constant_of(saved.imported, "f_1"), 5);
  EXPECT_EQ(saved.proto.graph().node(0).op_type(), "f");
  EXPECT_EQ(saved.proto.graph().node(1).op_type(), "f_1");
  EXPECT_EQ(saved.notices, (std::vector<std::string>{
                               "function 'f' is called more than once; the values of call 'two' "
                               "were saved in a copy of it, 'f_1'"}));
}

TEST(Save, a_node_edit_in_a_function_holds_for_all_calls_and_copies) {
  NodeEdit change;
  change.function = 0;
  change.node = 1;
  change.ints = {{"added", 5}};
  SaveOptions options;
  options.node_edits = {change};
  for (const bool with_copy : {false, true}) {
    std::vector<NewValue> values;
    if (with_copy) values.push_back({constant_in("two"), doubles({7})});
    const Saved saved(model_with_calls({"one", "two"}), values, options);
    ASSERT_EQ(saved.imported.functions.size(), with_copy ? 2u : 1u);
    for (const Function& f : saved.imported.functions) {
      EXPECT_EQ(f.body->nodes().back().get_int("added", 0), 5) << f.name;
    }
  }
}

TEST(Save, nested_calls_are_copied_down_the_path) {
  // g calls f twice (in1, in2) and is called twice itself (p, q).
  onnx::ModelProto model = model_with_calls({"p", "q"});
  auto* g = model.add_functions();
  g->set_name("g");
  g->set_domain("local");
  g->add_input("u");
  g->add_output("v");
  for (int i = 0; i < 2; ++i) {
    auto* call = g->add_node();
    call->set_op_type("f");
    call->set_domain("local");
    call->set_name(i == 0 ? "in1" : "in2");
    call->add_input(i == 0 ? "u" : "m");
    call->add_output(i == 0 ? "m" : "v");
    model.mutable_graph()->mutable_node(i)->set_op_type("g");
  }
  const Saved saved(model, {{constant_in("p/in1"), doubles({5})},
                            {constant_in("p/in2"), doubles({6})},
                            {constant_in("q/in1"), doubles({7})}});
  const auto callee = [&](const std::string& function, int node) {
    for (const auto& f : saved.proto.functions()) {
      if (f.name() == function) return f.node(node).op_type();
    }
    return std::string();
  };
  const std::string p = saved.proto.graph().node(0).op_type(),
                    q = saved.proto.graph().node(1).op_type();
  EXPECT_EQ(constant_of(saved.imported, callee(p, 0)), 5);
  EXPECT_EQ(constant_of(saved.imported, callee(p, 1)), 6);
  EXPECT_EQ(constant_of(saved.imported, callee(q, 0)), 7);
  EXPECT_EQ(callee(q, 1), "f");
  EXPECT_EQ(constant_of(saved.imported, "f"), 1);
}

TEST(Save, calls_of_one_name_are_told_apart_by_index) {
  const Saved saved(model_with_calls({"same", "same", ""}),
                    {{constant_in("same#1"), doubles({5})}, {constant_in("f"), doubles({6})}});
  EXPECT_EQ(constant_of(saved.imported, saved.proto.graph().node(1).op_type()), 5);
  EXPECT_EQ(constant_of(saved.imported, saved.proto.graph().node(2).op_type()), 6);
  EXPECT_EQ(saved.proto.graph().node(0).op_type(), "f");
}

TEST(WriteOnnx, export_and_import_is_the_identity) {
  Graph graph;
  graph.name = "small";
  graph.opsets[""] = 17;
  Value* x = graph.add_input("x", TensorType(DType::kFloat32, {Dim::named("N"), 3}));
  Builder builder(graph);
  Value* w = builder.constant("w", Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  Value* y = builder.op("MatMul", {x, w}, {}, "y");
  Value* z = builder.op("Any", {y, nullptr, w},
                        {{"i", int64_t{-1}},
                         {"f", 0.5},
                         {"s", std::string("text")},
                         {"is", std::vector<int64_t>{1, 2}},
                         {"fs", std::vector<double>{0.25}},
                         {"ss", std::vector<std::string>{"a"}},
                         {"t", Tensor::of<int64_t>({2}, {7, 8})}},
                        "z");
  z->producer->name = "any";
  z->type = TensorType(DType::kFloat32, {Dim::named("N"), 2});
  graph.add_output(z);

  const TemporaryFolder folder;
  write_onnx(graph, folder.path() / "g.onnx");
  const ImportedModel imported = import_model(Model::open(folder.path() / "g.onnx"));
  const Graph& g = *imported.graph;
  EXPECT_EQ(g.name, "small");
  EXPECT_EQ(g.ir_version, 8);
  EXPECT_EQ(g.opsets, graph.opsets);
  EXPECT_EQ(g.find("x")->type.str(), "float[N,3]");
  EXPECT_EQ(g.find("z")->type.str(), "float[N,2]");
  EXPECT_TRUE(g.find("w")->data.identical(w->data));
  const Node& node = g.nodes().back();
  EXPECT_EQ(node.name, "any");
  EXPECT_EQ(node.input(1), nullptr);
  ASSERT_EQ(node.attributes.size(), 7u);
  for (const auto& [name, attribute] : z->producer->attributes) {
    EXPECT_TRUE(same_attribute(attribute, node.attributes.at(name))) << name;
  }
  EXPECT_EQ(to_onnx_bytes(graph), to_onnx_bytes(graph));
}

}  // namespace
}  // namespace sardonyx::graph
