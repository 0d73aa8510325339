// Weights inside functions that functions call: each call has its own, under the path of its calls,
// and the saved file computes what the session does.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "runtime/session.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

using graph::Tensor;

onnx::NodeProto* add_call(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes,
                          const std::string& domain, const std::string& op, const std::string& name,
                          const std::vector<std::string>& inputs, const std::string& output) {
  onnx::NodeProto* node = nodes->Add();
  node->set_domain(domain);
  node->set_op_type(op);
  node->set_name(name);
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(output);
  return node;
}

onnx::FunctionProto* add_function(onnx::ModelProto& model, const std::string& name) {
  onnx::FunctionProto* function = model.add_functions();
  function->set_domain("my");
  function->set_name(name);
  function->add_input("a");
  function->add_output("b");
  function->add_opset_import()->set_version(17);
  auto* own = function->add_opset_import();
  own->set_domain("my");
  own->set_version(1);
  return function;
}

// outer = inner(inner(a)), inner = a * w with w [2,2]; the graph calls outer as p, then as q.
std::string nested_calls() {
  onnx::ModelProto model = testing::base_model();
  auto* import = model.add_opset_import();
  import->set_domain("my");
  import->set_version(1);
  auto* shape = model.mutable_graph()
                    ->mutable_input(0)
                    ->mutable_type()
                    ->mutable_tensor_type()
                    ->mutable_shape();
  shape->add_dim()->set_dim_param("N");
  shape->add_dim()->set_dim_value(2);

  onnx::FunctionProto* inner = add_function(model, "inner");
  onnx::AttributeProto* value =
      add_call(inner->mutable_node(), "", "Constant", "", {}, "w")->add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  onnx::TensorProto* w = value->mutable_t();
  w->set_data_type(onnx::TensorProto::FLOAT);
  for (int i = 0; i < 2; ++i) w->add_dims(2);
  for (const float x : {1.0F, 0.5F, -0.5F, 1.0F}) w->add_float_data(x);
  add_call(inner->mutable_node(), "", "MatMul", "", {"a", "w"}, "b");

  onnx::FunctionProto* outer = add_function(model, "outer");
  add_call(outer->mutable_node(), "my", "inner", "first", {"a"}, "c");
  add_call(outer->mutable_node(), "my", "inner", "second", {"c"}, "b");
  auto* nodes = model.mutable_graph()->mutable_node();
  add_call(nodes, "my", "outer", "p", {"x"}, "h");
  add_call(nodes, "my", "outer", "q", {"h"}, "y");
  return model.SerializeAsString();
}

TEST(FunctionWeights, of_nested_calls_are_trained_apart_and_saved_where_their_calls_are) {
  SessionOptions options;
  options.threads = 1;
  Session session(graph::Model::from_bytes(nested_calls()), options);
  Batch batch;
  batch.inputs.emplace_back("", Tensor::of<float>({2, 2}, {1, 0, 0.5F, 2}));
  batch.labels = Tensor::of<int64_t>({2}, {0, 1});
  const Tensor before = session.forward(batch, passes::Mode::kEval).front().second;
  session.train_step(batch, {{2}}, 0.25);
  EXPECT_EQ(session.state_names(),
            (std::vector<std::string>{"p/first/w", "p/second/w", "q/first/w", "q/second/w"}));
  EXPECT_FALSE(session.state("p/first/w").identical(session.state("q/second/w")));
  const Tensor after = session.forward(batch, passes::Mode::kEval).front().second;
  EXPECT_FALSE(after.identical(before));

  const testing::TemporaryFolder folder;
  const SavedModel saved = session.save(folder.path() / "m.onnx");
  EXPECT_EQ(saved.notices.size(), 6u);  // a copy of outer for each of p and q, four of inner
  Session again(graph::Model::open(folder.path() / "m.onnx"), options);
  EXPECT_TRUE(again.forward(batch, passes::Mode::kEval).front().second.identical(after));
}

}  // namespace
}  // namespace sardonyx::runtime
