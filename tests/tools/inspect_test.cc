// What `sardonyx inspect` and its like do with names of any bytes.
#include <gtest/gtest.h>

#include <onnx/onnx_pb.h>

#include "graph/support/text.h"
#include "tests/support/onnx_sketch.h"
#include "tests/tools/program.h"

namespace sardonyx::testing {
namespace {

class Inspect : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments) const { return program_.run(arguments); }
  const Program program_;
};

// The first character that a terminal doesn't simply show, with what stands in front of it.
std::string first_that_does_not_show(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const support::Character c = support::character_at(text, i);
    if (!c.shows && text[i] != '\n') {
      return text.substr(i < 40 ? 0 : i - 40, i < 40 ? i : 40) + " << here";
    }
    i += c.bytes;
  }
  return "";
}

void set_shape(onnx::ValueInfoProto& info, const std::string& symbol, int64_t columns) {
  info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  auto* shape = info.mutable_type()->mutable_tensor_type()->mutable_shape();
  shape->add_dim()->set_dim_param(symbol);
  shape->add_dim()->set_dim_value(columns);
}

// y = x w, with names that drive a terminal, forge lines and turn text.
onnx::ModelProto hostile_model() {
  const std::string evil = "\x1b[31m\r\n\x7f\xc2\x9b\xe2\x80\xae\xff";
  onnx::ModelProto model = base_model();
  model.set_producer_name("p" + evil);
  auto& graph = *model.mutable_graph();
  graph.set_name("g" + evil);
  graph.mutable_input(0)->set_name("x" + evil);
  set_shape(*graph.mutable_input(0), "N" + evil, 4);
  graph.mutable_output(0)->set_name("y" + evil);
  add_node(model, "MatMul", {"x" + evil, "w" + evil}, "y" + evil)->set_name("n" + evil);
  auto* weight = add_weight(model, "w" + evil, onnx::TensorProto::FLOAT, 4);
  weight->add_dims(2);
  weight->set_raw_data(floats(std::vector<float>(8, 0.5F)));
  return model;
}

TEST_F(Inspect, no_printer_lets_a_name_drive_the_terminal) {
  write_file(program_.file("hostile.onnx"), hostile_model().SerializeAsString());
  for (const std::string command :
       {"inspect hostile.onnx", "inspect hostile.onnx --format dot", "inspect hostile.onnx --json",
        "inspect hostile.onnx --format html", "inspect hostile.onnx --training --replicas 2",
        "inspect hostile.onnx --training --format dot", "inspect hostile.onnx --training --json",
        "inspect hostile.onnx --training --format html", "check hostile.onnx",
        "check hostile.onnx --json", "opt hostile.onnx --passes canonicalize",
        "bench hostile.onnx --steps 1 --repetitions 1"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 0) << command << "\n" << outcome.err;
    EXPECT_EQ(first_that_does_not_show(outcome.out), "") << command;
    EXPECT_EQ(first_that_does_not_show(outcome.err), "") << command;
    if (!command.starts_with("inspect")) continue;
    EXPECT_TRUE(has(outcome.out, "202e") || has(outcome.out, R"(\xe2\x80\xae)")) << command;
  }
}

TEST_F(Inspect, env_escapes_the_values_of_switches) {
  setenv("SARDONYX_LOG", "\x1b[31m", 1);
  const Outcome outcome = run("env");
  unsetenv("SARDONYX_LOG");
  EXPECT_EQ(first_that_does_not_show(outcome.out), "");
  EXPECT_TRUE(has(outcome.out, "SARDONYX_LOG=\\x1b[31m\n")) << outcome.out;
}

}  // namespace
}  // namespace sardonyx::testing
