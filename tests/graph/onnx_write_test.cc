// Graphs as ONNX files for viewers: what is written reads back, states and bindings included.
#include "graph/onnx_write.h"

#include <gtest/gtest.h>

#include <onnx/onnx_pb.h>

#include "graph/onnx_import.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::graph {
namespace {

using sardonyx::testing::TemporaryFolder;

constexpr const char* kStep = R"(<ir_version: 8, opset_import: ["" : 17, "sardonyx" : 1], batch: N>
g (float[N:4,2] x, double[] lr) => (float[N:4,3] y)
<state(parameter) float[2,3] w = {1, 2, 3, 4, 5, 6}, state(optimizer) float[2,3] m>
{
  y = MatMul(x, w)                      # float[N:4,3]
  [g of MatMul] dw = sardonyx.Grad<size = 0.5, axes = [1]>(x, y)  # float[2,3]
  w.1, m.1 = sardonyx.SGD(w, dw, m, lr)  # float[2,3], float[2,3]
  w := w.1
  m := m.1
})";

OnnxForm form_of_test() {
  OnnxForm form;
  form.opsets = {{"", 21}};
  form.metadata = {{kTrainingGraphOf, "a.onnx"}};
  form.doc = "to be looked at";
  form.node = [](const Node& node) {
    const std::string name = node.name.empty() ? node.outputs()[0]->name : node.name;
    return NodeForm{node.domain, name, "phase: any", {"axes"}};
  };
  form.remark = [](const Value& value) { return value.is_state() ? "state" : ""; };
  return form;
}

TEST(OnnxWrite, a_step_has_types_states_and_update_bindings) {
  const TemporaryFolder folder;
  const auto graph = parse(kStep);
  EXPECT_TRUE(write_onnx(*graph, folder.path() / "step.onnx", form_of_test()).empty());
  const auto model = Model::open(folder.path() / "step.onnx");
  const onnx::ModelProto& proto = model->skeleton();
  EXPECT_EQ(proto.opset_import(0).version(), 21);
  EXPECT_EQ(proto.doc_string(), "to be looked at");
  EXPECT_EQ(proto.metadata_props(0).value(), "a.onnx");
  ASSERT_EQ(proto.training_info_size(), 1);
  const auto& bindings = proto.training_info(0).update_binding();
  ASSERT_EQ(bindings.size(), 2);
  EXPECT_EQ(bindings[1].key() + " := " + bindings[1].value(), "m := m.1");
  EXPECT_EQ(proto.training_info(0).algorithm().node_size(), 0);
  EXPECT_EQ(proto.graph().output_size(), 3) << "y and the new values of both states";
  EXPECT_EQ(proto.graph().output(2).name(), "m.1");
  EXPECT_EQ(proto.graph().initializer(0).doc_string(), "state");
  EXPECT_EQ(proto.graph().input(0).type().tensor_type().shape().dim(0).dim_value(), 4);
  EXPECT_EQ(proto.graph().value_info_size(), 3) << "dw, w.1 and m.1; y is an output";
  const auto& gradient = proto.graph().node(1);
  EXPECT_EQ(gradient.domain() + "." + gradient.op_type() + " " + gradient.name(),
            "sardonyx.Grad g");
  EXPECT_EQ(gradient.doc_string(), "phase: any");
  ASSERT_EQ(gradient.attribute_size(), 1) << "axes was to be left out";
  EXPECT_EQ(gradient.attribute(0).f(), 0.5F);

  const ImportedModel back = import_model(model);
  EXPECT_EQ(back.graph->find("w")->data.to_doubles(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(back.graph->find("m")->data.to_doubles(), std::vector<double>(6, 0));
}

TEST(OnnxWrite, values_that_do_not_fit_in_stand_in_a_file_beside) {
  const TemporaryFolder folder;
  const auto graph = parse(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[2] x) => (float[2] y) "
      "<state(parameter) float[300000] zeros> { y = Relu(x) }");
  std::vector<double> numbers(1000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  graph->add_constant("numbers", sardonyx::testing::doubles(numbers));
  graph->add_constant("few", sardonyx::testing::doubles({7}));
  OnnxForm form;
  form.inline_limit = 5000;
  const auto path = folder.path() / "large.onnx";
  EXPECT_EQ(write_onnx(*graph, path, form),
            std::vector<std::filesystem::path>{folder.path() / "large.onnx.data"});
  EXPECT_LT(std::filesystem::file_size(path), 1000u);
  const ImportedModel back = import_model(Model::open(path));
  EXPECT_EQ(back.graph->find("numbers")->data.to_doubles(), numbers);
  EXPECT_EQ(back.graph->find("few")->data.to_doubles(), std::vector<double>{7});
  EXPECT_EQ(back.graph->find("zeros")->data.to_doubles(), std::vector<double>(300000, 0));
  const auto model = Model::open(path);
  for (const auto& tensor : model->skeleton().graph().initializer()) {
    if (tensor.name() != "numbers") continue;
    EXPECT_EQ(tensor.external_data(1).key(), "offset");
    EXPECT_EQ(std::stoi(tensor.external_data(1).value()) % 4096, 0);
  }
}

TEST(OnnxWrite, functions_with_overloads_and_defaults_read_back) {
  auto model = sardonyx::testing::base_model();
  model.set_ir_version(10);
  auto* call = sardonyx::testing::add_node(model, "F", {"x"}, "y");
  call->set_domain("local");
  auto* function = sardonyx::testing::add_leaky_function(model);
  function->GetReflection()->MutableUnknownFields(function)->AddLengthDelimited(13, "v");
  call->GetReflection()->MutableUnknownFields(call)->AddLengthDelimited(8, "v");
  const ImportedModel first = import_model(Model::from_bytes(model.SerializeAsString()));
  ASSERT_EQ(first.functions.size(), 1u);
  ASSERT_EQ(first.functions[0].overload, "v");

  const TemporaryFolder folder;
  OnnxForm form;
  form.functions = &first.functions;
  write_onnx(*first.graph, folder.path() / "f.onnx", form);
  const ImportedModel back = import_model(Model::open(folder.path() / "f.onnx"));
  EXPECT_EQ(print(*back.graph), print(*first.graph));
  ASSERT_EQ(back.functions.size(), 1u);
  EXPECT_EQ(back.functions[0].name, "F:v");
  EXPECT_EQ(back.functions[0].attributes, std::vector<std::string>{"alpha"});
  EXPECT_EQ(print(*back.functions[0].body), print(*first.functions[0].body));
}

}  // namespace
}  // namespace sardonyx::graph
