// Saving weights that stand in local functions: reached through overloads, given by an attribute of
// the call or of the function, or kept in a data file.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "graph/onnx_export.h"
#include "graph/onnx_import.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::graph {
namespace {

using testing::doubles;
using testing::error_of;
using testing::floats;

onnx::TensorProto one(float value) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(1);
  tensor.set_raw_data(floats({value}));
  return tensor;
}

void set_attribute(onnx::AttributeProto& attribute, const std::string& name,
                   const onnx::TensorProto& value) {
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::TENSOR);
  *attribute.mutable_t() = value;
}

// f(u) = u + c with a Constant c, and y = f(...f(x)); the nodes that call it have no names.
onnx::ModelProto model_of_calls(int calls) {
  onnx::ModelProto model = testing::base_model();
  auto* import = model.add_opset_import();
  import->set_domain("local");
  import->set_version(1);
  auto* f = model.add_functions();
  f->set_name("f");
  f->set_domain("local");
  f->add_input("u");
  f->add_output("v");
  f->add_opset_import()->set_version(17);
  auto* constant = f->add_node();
  constant->set_op_type("Constant");
  constant->add_output("c");
  set_attribute(*constant->add_attribute(), "value", one(1));
  auto* add = f->add_node();
  add->set_op_type("Add");
  add->add_input("u");
  add->add_input("c");
  add->add_output("v");
  std::string from = "x";
  for (int i = 0; i < calls; ++i) {
    const std::string to = i + 1 == calls ? "y" : "t" + std::to_string(i);
    testing::add_node(model, "f", {from}, to)->set_domain("local");
    from = to;
  }
  return model;
}

// The Constant takes its value from the function's attribute "k".
onnx::ModelProto model_of_reference(int calls) {
  onnx::ModelProto model = model_of_calls(calls);
  auto* value = model.mutable_functions(0)->mutable_node(0)->mutable_attribute(0);
  value->clear_t();
  value->set_ref_attr_name("k");
  return model;
}

NewValue constant_in(const std::string& path, double value) {
  Origin origin;
  origin.kind = Origin::Kind::kConstantNode;
  origin.path = path;
  origin.node = 0;
  origin.slot = 0;
  origin.tensor = "c";
  return {origin, doubles({value})};
}

// FunctionProto's newer fields, overload (13) and attribute_proto (11), and NodeProto's overload
// (8) are unknown to older ONNX messages.
void add_field(google::protobuf::Message& message, int number, const std::string& bytes) {
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(number, bytes);
}

struct Saved {
  Saved(const onnx::ModelProto& model, const std::vector<NewValue>& values) {
    SaveOptions options;
    options.notices = &notices;
    const auto file = Model::from_bytes(model.SerializeAsString());
    check_save(*file, values, folder.path() / "m.onnx", options);
    EXPECT_EQ(testing::count_files(folder.path()), 0u);
    save_model(*file, values, folder.path() / "m.onnx", options);
    const auto saved = Model::open(folder.path() / "m.onnx");
    imported = import_model(saved);
    proto = saved->skeleton();
  }
  double constant(int function) const {
    return imported.functions[function].body->nodes().front().get_tensor("value")->as_double(0);
  }
  double attribute(int node) const {
    int at = 0;
    for (const Node& call : imported.graph->nodes()) {
      if (at++ == node) return call.get_tensor("k")->as_double(0);
    }
    return -1;
  }

  testing::TemporaryFolder folder;
  ImportedModel imported;
  onnx::ModelProto proto;
  std::vector<std::string> notices;
};

TEST(SaveFunctions, the_overload_is_a_part_of_the_label_of_a_call_without_a_name) {
  onnx::ModelProto model = model_of_calls(1);
  add_field(*model.mutable_functions(0), 13, "z");
  add_field(*model.mutable_graph()->mutable_node(0), 8, "z");
  const auto imported = import_model(Model::from_bytes(model.SerializeAsString()));
  EXPECT_EQ(call_labels(*imported.graph, imported.functions).begin()->second, "f:z");
  const Saved saved(model, {constant_in("f:z", 5)});
  EXPECT_EQ(saved.constant(0), 5);
  EXPECT_EQ(saved.imported.functions.size(), 1u);
}

TEST(SaveFunctions, a_value_given_by_the_call_is_saved_at_the_call) {
  onnx::ModelProto model = model_of_reference(2);
  model.mutable_functions(0)->add_attribute("k");
  for (int i = 0; i < 2; ++i) {
    set_attribute(*model.mutable_graph()->mutable_node(i)->add_attribute(), "k", one(i + 1.0F));
  }
  const Saved saved(model, {constant_in("f#0", 5), constant_in("f#1", 6)});
  EXPECT_EQ(saved.attribute(0), 5);
  EXPECT_EQ(saved.attribute(1), 6);
  EXPECT_EQ(saved.imported.functions.size(), 1u);
  EXPECT_TRUE(saved.notices.empty());
}

TEST(SaveFunctions, a_default_is_saved_in_the_function_or_in_the_copy_of_the_call) {
  onnx::AttributeProto preset;
  set_attribute(preset, "k", one(1));
  const auto value = [](const Saved& saved, int function) {
    return std::get<Tensor>(saved.imported.functions[function].attribute_defaults.at("k"))
        .as_double(0);
  };
  onnx::ModelProto once = model_of_reference(1);
  add_field(*once.mutable_functions(0), 11, preset.SerializeAsString());
  EXPECT_EQ(value(Saved(once, {constant_in("f", 5)}), 0), 5);

  onnx::ModelProto twice = model_of_reference(2);
  add_field(*twice.mutable_functions(0), 11, preset.SerializeAsString());
  const Saved saved(twice, {constant_in("f#1", 6)});
  ASSERT_EQ(saved.imported.functions.size(), 2u);
  EXPECT_EQ(value(saved, 0), 1);
  EXPECT_EQ(value(saved, 1), 6);
  EXPECT_EQ(saved.proto.graph().node(1).op_type(), "f_1");
  EXPECT_EQ(saved.notices, (std::vector<std::string>{
                               "function 'f' is called more than once; the values of call 'f#1' "
                               "were saved in a copy of it, 'f_1'"}));
}

TEST(SaveFunctions, an_attribute_that_two_nodes_read_is_refused_before_anything_is_written) {
  onnx::ModelProto model = model_of_reference(1);
  auto* function = model.mutable_functions(0);
  function->add_attribute("k");
  *function->add_node() = function->node(0);
  function->mutable_node(2)->set_output(0, "d");
  set_attribute(*model.mutable_graph()->mutable_node(0)->add_attribute(), "k", one(1));
  const auto file = Model::from_bytes(model.SerializeAsString());
  EXPECT_EQ(error_of([&] { check_save(*file, {constant_in("f", 5)}, ""); }),
            "it is the attribute 'k' of function 'f', which several nodes there read, and one "
            "attribute can't hold a value for each; train without it (--freeze), or inline the "
            "functions\n  while saving the value of 'f/c'");
}

TEST(SaveFunctions, external_data_of_one_call_goes_into_its_copy_of_the_function) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder.path() / "w.bin", floats({1, 2}));
  onnx::ModelProto model = model_of_calls(2);
  auto* tensor = model.mutable_functions(0)->mutable_node(0)->mutable_attribute(0)->mutable_t();
  tensor->clear_raw_data();
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair{"location", "w.bin"}, {"length", "4"}}) {
    auto* entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  testing::write_file(folder.path() / "m.onnx", model.SerializeAsString());
  const auto file = Model::open(folder.path() / "m.onnx");
  save_model(*file, {constant_in("f#1", 6)}, folder.path() / "o.onnx");
  const ImportedModel saved = import_model(Model::open(folder.path() / "o.onnx"));
  ASSERT_EQ(saved.functions.size(), 2u);
  const auto value = [&](int function) {
    return saved.functions[function].body->nodes().front().get_tensor("value")->as_double(0);
  };
  EXPECT_EQ(value(0), 1);
  EXPECT_EQ(value(1), 6);
  EXPECT_EQ(testing::read_file(folder.path() / "w.bin"), floats({1, 2}));
}

TEST(SaveFunctions, a_call_with_more_than_the_function_has_is_no_model) {
  onnx::ModelProto model = model_of_calls(1);
  auto* call = model.mutable_graph()->mutable_node(0);
  call->set_name("one");
  call->add_input("");  // left out
  EXPECT_EQ(import_model(Model::from_bytes(model.SerializeAsString())).functions.size(), 1u);
  call->set_input(1, "x");
  call->add_output("second");
  const std::string error =
      error_of([&] { import_model(Model::from_bytes(model.SerializeAsString())); });
  for (const char* part : {"has 2 inputs, but the function 'f' that it calls has 1",
                           "has 2 outputs, but the function 'f' that it calls has 1"}) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace sardonyx::graph
