// train --save: what the file becomes, and which file may be replaced.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/onnx_sketch.h"
#include "tests/tools/program.h"

namespace sardonyx::testing {
namespace {

using Json = nlohmann::json;

class SaveCli : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments) const { return program_.run(arguments); }
  std::string content(const std::string& name) const { return read_file(program_.file(name)); }

  Program program_;
};

TEST_F(SaveCli, no_step_saves_a_copy) {
  ASSERT_EQ(run("model lenet -o lenet.onnx").code, 0);
  const Outcome done =
      run("train lenet.onnx --data synthetic:64 --steps 0 --schedule cosine --save out.onnx "
          "--checkpoint run --json");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(content("out.onnx"), content("lenet.onnx"));
  const Json line = Json::parse(done.out);  // no epoch has one
  EXPECT_EQ(line["done"], true);
  EXPECT_EQ(line["step"], 0);
  EXPECT_EQ(line["checkpoint"], "run/step-00000000");
  EXPECT_TRUE(has(run("train lenet.onnx --data synthetic:64 --epochs 0").err,
                  "expected a whole number from 1"));
}

TEST_F(SaveCli, the_model_is_replaced_only_when_asked) {
  ASSERT_EQ(run("model lenet -o lenet.onnx").code, 0);
  std::filesystem::create_symlink("lenet.onnx", program_.file("link.onnx"));
  const std::string before = content("lenet.onnx");
  const std::string train = "train lenet.onnx --data synthetic:64 --steps 2 --save ";
  for (const char* name : {"lenet.onnx", "./lenet.onnx"}) {
    const Outcome refused = run(train + name);
    EXPECT_EQ(refused.code, 1);
    EXPECT_TRUE(has(refused.err, "or replace it with --overwrite")) << refused.err;
  }
  EXPECT_EQ(run("train link.onnx --data synthetic:64 --save lenet.onnx").code, 1);
  EXPECT_EQ(content("lenet.onnx"), before);
  ASSERT_EQ(run(train + "other.onnx").code, 0);
  const Outcome replaced = run(train + "lenet.onnx --overwrite");
  ASSERT_EQ(replaced.code, 0) << replaced.err;
  EXPECT_NE(content("lenet.onnx"), before);
  EXPECT_EQ(content("lenet.onnx"), content("other.onnx"));
}

// y = x * c + d in a function where c and d take their value from one attribute.
std::string shared_attribute() {
  onnx::ModelProto model = base_model();
  auto* dims = model.mutable_graph()
                   ->mutable_input(0)
                   ->mutable_type()
                   ->mutable_tensor_type()
                   ->mutable_shape();
  dims->add_dim()->set_dim_param("N");
  dims->add_dim()->set_dim_value(3);
  auto* import = model.add_opset_import();
  import->set_domain("local");
  import->set_version(1);
  auto* f = model.add_functions();
  f->set_name("f");
  f->set_domain("local");
  f->add_input("u");
  f->add_output("v");
  f->add_attribute("k");
  f->add_opset_import()->set_version(17);
  for (const char* name : {"c", "d"}) {
    auto* constant = f->add_node();
    constant->set_op_type("Constant");
    constant->add_output(name);
    auto* value = constant->add_attribute();
    value->set_name("value");
    value->set_type(onnx::AttributeProto::TENSOR);
    value->set_ref_attr_name("k");
  }
  auto* product = f->add_node();
  product->set_op_type("MatMul");
  product->add_input("u");
  product->add_input("c");
  product->add_output("w");
  auto* sum = f->add_node();
  sum->set_op_type("MatMul");
  sum->add_input("w");
  sum->add_input("d");
  sum->add_output("v");
  auto* call = add_node(model, "f", {"x"}, "y");
  call->set_domain("local");
  auto* given = call->add_attribute();
  given->set_name("k");
  given->set_type(onnx::AttributeProto::TENSOR);
  given->mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
  for (int i = 0; i < 2; ++i) given->mutable_t()->add_dims(3);
  for (int i = 0; i < 9; ++i) given->mutable_t()->add_float_data(0.1F * static_cast<float>(i));
  return model.SerializeAsString();
}

TEST_F(SaveCli, what_cannot_be_saved_is_refused_before_the_first_step) {
  write_file(program_.file("m.onnx"), shared_attribute());
  const char* reason = "which several nodes there read";
  const std::string train = "train m.onnx --data synthetic:8 --batch 4 ";
  for (const char* flags : {"--save o.onnx", "--save-best o.onnx", "--save o.onnx --dry-run",
                            "--save o.onnx --steps 0"}) {
    const Outcome refused = run(train + flags);
    EXPECT_EQ(refused.code, 1) << flags;
    EXPECT_TRUE(has(refused.err, reason)) << flags << refused.err;
    EXPECT_EQ(refused.out, "") << flags;
  }
  const Outcome checked = run("check m.onnx");
  EXPECT_EQ(checked.code, 1);
  EXPECT_TRUE(has(checked.err, reason)) << checked.err;
  EXPECT_EQ(run(train + "--steps 1").code, 0);  // nothing is saved
}

}  // namespace
}  // namespace sardonyx::testing
