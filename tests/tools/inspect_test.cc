// `sardonyx inspect` beside its page: names of any bytes, graphs as ONNX files, differences, and
// that docs/inspect.md has every field of the JSON.
#include <gtest/gtest.h>

#include <onnx/onnx_pb.h>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "graph/model.h"
#include "graph/support/text.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace sardonyx::testing {
namespace {

using Json = nlohmann::json;

class Inspect : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments) const { return program_.run(arguments); }
  std::string output(const std::string& arguments) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.err;
    return outcome.out;
  }
  void make_lenet() const { output("model lenet -o lenet.onnx --input 1x16x16 --init kaiming"); }
  onnx::ModelProto read(const std::string& name) const {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(read_file(program_.file(name)))) << name;
    return model;
  }
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

// --- --format onnx

TEST_F(Inspect, training_graph_is_an_onnx_file_that_says_what_it_is) {
  make_lenet();
  const std::string training = "inspect lenet.onnx --training --batch 8 --momentum 0.9 ";
  EXPECT_EQ(output(training + "--format onnx -o step.onnx"), "");
  const Json json = Json::parse(output(training + "--json"));
  const onnx::ModelProto model = read("step.onnx");
  EXPECT_EQ(model.graph().node_size(), static_cast<int>(json["graph"]["nodes"].size()));
  EXPECT_EQ(model.metadata_props(0).key() + " " + model.metadata_props(0).value(),
            "sardonyx.training_graph_of lenet.onnx");
  EXPECT_TRUE(has(model.doc_string(), "Not a trained model")) << model.doc_string();
  std::map<std::string, std::string> next;
  for (const auto& entry : model.training_info(0).update_binding()) {
    next[entry.key()] = entry.value();
  }
  EXPECT_EQ(next.size(), 17u) << "8 parameters, their momentum, and the step";
  EXPECT_EQ(next["conv1.weight"], "conv1.weight'");
  std::set<std::string> outputs;
  for (const auto& output : model.graph().output()) outputs.insert(output.name());
  for (const auto& [state, value] : next) EXPECT_TRUE(outputs.contains(value)) << value;
  for (int i = 0; i < model.graph().node_size(); ++i) {
    const onnx::NodeProto& node = model.graph().node(i);
    const Json& said = json["graph"]["nodes"][static_cast<size_t>(i)];
    EXPECT_EQ(node.op_type(), said["op"]);
    EXPECT_NE(node.name(), "");
    std::string doc = "phase: " + said["phase"].get<std::string>();
    if (said.contains("gradient_of")) {
      doc += "\ngradient of: " + said["gradient_of"].get<std::string>();
    }
    EXPECT_TRUE(node.doc_string().starts_with(doc)) << node.doc_string();
    for (const auto& attribute : node.attribute()) {
      EXPECT_FALSE(node.domain().empty() && attribute.name() == "needed") << node.name();
    }
  }
}

TEST_F(Inspect, a_training_graph_is_refused_by_what_runs_models) {
  make_lenet();
  output("inspect lenet.onnx --training --format onnx -o step.onnx");
  for (const std::string command :
       {"train step.onnx --data synthetic", "eval step.onnx --data synthetic", "check step.onnx",
        "bench step.onnx", "inspect step.onnx --training"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_TRUE(
        has(outcome.err,
            "step.onnx: is the training graph of 'lenet.onnx' as sardonyx inspect wrote it"))
        << outcome.err;
  }
  EXPECT_TRUE(has(output("inspect step.onnx"), "sardonyx.SGD"));
}

TEST_F(Inspect, the_graph_of_a_file_is_written_as_it_was_read) {
  make_lenet();
  output("inspect lenet.onnx --format onnx -o again.onnx");
  EXPECT_EQ(output("inspect again.onnx"), output("inspect lenet.onnx"));
  EXPECT_EQ(run("inspect lenet.onnx --format onnx").err,
            "error: --format onnx writes a file: name it with -o FILE\n"
            "  see `sardonyx inspect --help`\n");
  EXPECT_EQ(run("inspect lenet.onnx --format onnx -o lenet.onnx").code, 1);
}

// --- --diff

TEST_F(Inspect, diff_of_a_file_with_its_copy_is_empty_and_exits_0) {
  make_lenet();
  const std::string text = output("inspect lenet.onnx --diff lenet.onnx");
  EXPECT_TRUE(text.starts_with("lenet.onnx -> lenet.onnx: no difference\n")) << text;
  const Json json = Json::parse(output("inspect lenet.onnx --diff lenet.onnx --json"));
  EXPECT_EQ(json["equal"], true);
  EXPECT_EQ(json["nodes"]["a"], 10);
  EXPECT_EQ(json["nodes"]["changed"].size(), 0u);
}

TEST_F(Inspect, diff_of_two_files_lists_what_changed_and_exits_1) {
  onnx::ModelProto model = base_model();
  add_node(model, "Add", {"x", "w"}, "s")->set_name("add");
  add_node(model, "Relu", {"s"}, "y");
  add_weight(model, "w", onnx::TensorProto::FLOAT, 4)->set_raw_data(floats({1, 2, 3, 4}));
  add_weight(model, "unused", onnx::TensorProto::FLOAT, 1)->set_raw_data(floats({1}));
  write_file(program_.file("a.onnx"), model.SerializeAsString());
  auto& graph = *model.mutable_graph();
  graph.mutable_node(0)->set_output(0, "sum");
  graph.mutable_node(0)->set_input(1, "v");
  graph.mutable_node(1)->set_op_type("LeakyRelu");
  graph.mutable_node(1)->set_input(0, "sum");
  auto* alpha = graph.mutable_node(1)->add_attribute();
  alpha->set_name("alpha");
  alpha->set_type(onnx::AttributeProto::FLOAT);
  alpha->set_f(0.25F);
  graph.mutable_initializer(0)->clear_raw_data();
  for (const float value : {1.0F, 2.5F, 3.0F, 2.0F})
    graph.mutable_initializer(0)->add_float_data(value);
  graph.mutable_initializer(1)->set_name("v");
  model.set_producer_name("other");
  write_file(program_.file("b.onnx"), model.SerializeAsString());

  const Outcome outcome = run("inspect a.onnx --diff b.onnx --json");
  EXPECT_EQ(outcome.code, 1);
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["facts"], Json::parse(R"([{"what":"producer","a":null,"b":"other"}])"));
  const Json& changed = json["nodes"]["changed"];
  ASSERT_EQ(changed.size(), 2u);
  EXPECT_EQ(changed[0]["name"], "add (Add)");
  EXPECT_EQ(changed[0]["changes"], Json::parse(R"([{"what":"input 1","a":"w","b":"v"},
                                                   {"what":"output 0","a":"s","b":"sum"}])"));
  EXPECT_EQ(changed[1]["changes"], Json::parse(R"([{"what":"operator","a":"Relu","b":"LeakyRelu"},
                            {"what":"input 0","a":"s","b":"sum"},
                            {"what":"attribute alpha","a":null,"b":"0.25"}])"));
  EXPECT_EQ(json["initializers"]["added"], Json::parse(R"(["v"])"));
  EXPECT_EQ(json["initializers"]["removed"], Json::parse(R"(["unused"])"));
  EXPECT_EQ(json["initializers"]["changed"][0]["values"],
            Json::parse(R"({"elements":4,"differ":2,"max_abs_difference":2.0})"));
  const Outcome text = run("inspect a.onnx --diff b.onnx");
  EXPECT_EQ(text.code, 1);
  EXPECT_TRUE(has(text.out, "  ~ w: 2 of 4 elements differ, by 2 at most\n")) << text.out;
  for (const char* words : {"--diff a.onnx b.onnx", "--format text --diff=a.onnx b.onnx"}) {
    EXPECT_EQ(run(std::string("inspect ") + words).out, text.out) << words;
  }
  EXPECT_TRUE(has(text.out, "  ~ add (Add): input 1: w -> v; output 0: s -> sum\n")) << text.out;
}

TEST_F(Inspect, diff_of_values_that_are_not_finite_has_no_largest_difference) {
  onnx::ModelProto model = base_model();
  add_node(model, "Add", {"x", "w"}, "y");
  auto* weight = add_weight(model, "w", onnx::TensorProto::FLOAT, 2);
  weight->set_raw_data(floats({1, NAN}));
  write_file(program_.file("a.onnx"), model.SerializeAsString());
  EXPECT_EQ(run("inspect a.onnx --diff a.onnx").code, 0) << "the same bits";
  weight->set_raw_data(floats({1, 2}));
  write_file(program_.file("b.onnx"), model.SerializeAsString());
  const Json json = Json::parse(run("inspect a.onnx --diff b.onnx --json").out);
  EXPECT_EQ(json["initializers"]["changed"][0]["values"],
            Json::parse(R"({"elements":2,"differ":1,"max_abs_difference":null})"));
}

TEST_F(Inspect, diff_of_two_passes_shows_what_happened_in_between) {
  make_lenet();
  const Outcome outcome =
      run("inspect lenet.onnx --training --batch 8 --diff canonicalize,build_backward --json");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["nodes"]["a"], 10);
  EXPECT_EQ(json["nodes"]["removed"].size(), 0u);
  const Json& roles = json["initializers"]["changed"];
  ASSERT_EQ(roles.size(), 8u);
  EXPECT_EQ(roles[0]["changes"][0],
            Json::parse(R"({"what":"role","a":"constant","b":"parameter"})"));
  EXPECT_EQ(run("inspect lenet.onnx --training --diff import,end").code, 1);
  EXPECT_EQ(run("inspect lenet.onnx --training --diff end,end").code, 0);
  EXPECT_EQ(run("inspect lenet.onnx --training --diff eliminate_dead,eliminate_dead:2").code, 1);
}

TEST_F(Inspect, diff_refuses_what_it_cannot_compare) {
  make_lenet();
  const auto error = [&](const std::string& flags) {
    const Outcome outcome = run("inspect lenet.onnx " + flags);
    EXPECT_EQ(outcome.code, 2) << flags;
    return outcome.err.substr(0, outcome.err.find('\n'));
  };
  EXPECT_TRUE(error("--training --diff canonicalize,foldconstants")
                  .starts_with("error: --diff 'foldconstants': no pass of the training pipeline"));
  EXPECT_TRUE(error("--training --diff eliminate_dead:3,end").starts_with("error: --diff"));
  EXPECT_EQ(error("--training --diff lenet.onnx"),
            "error: --diff 'lenet.onnx': with --training it takes two passes, as in "
            "canonicalize,build_backward");
  EXPECT_EQ(error("--training --skip-pass recompute --diff recompute,end"),
            "error: --diff: the pass recompute was left out");
  EXPECT_EQ(error("--diff lenet.onnx --format dot"), "error: --diff is text or json, not dot");
  EXPECT_EQ(error("--diff lenet.onnx --max-elements 3"),
            "error: --max-elements is for the text of a graph, not for --diff");
  EXPECT_EQ(run("inspect lenet.onnx --diff missing.onnx").code, 1);
}

TEST_F(Inspect, diff_tells_types_that_were_found_in_one_line) {
  make_lenet();
  const Outcome diff =
      run("inspect lenet.onnx --training --batch 8 --diff bind_batch,infer_shapes");
  EXPECT_TRUE(has(diff.out, "more have types now (--json lists them)\n")) << diff.out;
  EXPECT_FALSE(has(diff.out, "nothing -> float")) << diff.out;
}

// --- the JSON and its page of the documentation

// Names in backticks in the first column of the tables, below the heading "# The JSON".
std::set<std::string> documented_keys(const std::string& without_section) {
  std::istringstream page(read_file(tests::source_folder() / "docs/inspect.md"));
  std::set<std::string> keys;
  bool here = false;
  std::string section;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("# ")) here = line == "# The JSON";
    if (line.starts_with("## ")) section = line.substr(3);
    if (!here || !line.starts_with("| `") || section == without_section) continue;
    const std::string column = line.substr(2, line.find(" | ", 2) - 2);
    for (size_t at = column.find('`'); at != std::string::npos; at = column.find('`', at + 1)) {
      const size_t end = column.find('`', at + 1);
      keys.insert(column.substr(at + 1, end - at - 1));
      at = end;
    }
  }
  return keys;
}

// Of all objects in it; those of opsets and attributes are the file's own names.
void collect_keys(const Json& json, std::set<std::string>& keys) {
  if (!json.is_structured()) return;
  for (const auto& [key, value] : json.items()) {
    if (json.is_object()) keys.insert(key);
    if (key != "opsets" && key != "attributes") {
      collect_keys(value, keys);
      continue;
    }
    for (const Json& attribute : value) collect_keys(attribute, keys);
  }
}

// A call of a local function whose body has a reference and a tensor, and an If.
onnx::ModelProto model_with_everything() {
  onnx::ModelProto model = base_model();
  set_shape(*model.mutable_graph()->mutable_input(0), "N", 4);
  add_node(model, "F", {"x"}, "z")->set_domain("local");
  add_leaky_function(model);
  auto* condition = add_weight(model, "c", onnx::TensorProto::BOOL, 1);
  condition->set_raw_data(std::string(1, '\1'));
  auto* choice = add_node(model, "If", {"c"}, "y");
  for (const char* name : {"then_branch", "else_branch"}) {
    auto* branch = choice->add_attribute();
    branch->set_name(name);
    branch->set_type(onnx::AttributeProto::GRAPH);
    auto* node = branch->mutable_g()->add_node();
    node->set_op_type("Relu");
    node->add_input("z");
    node->add_output("r");
    branch->mutable_g()->add_output()->set_name("r");
    branch->mutable_g()->set_name("branch");
  }
  return model;
}

// A trainable product inside a function.
onnx::ModelProto model_with_call() {
  onnx::ModelProto model = base_model();
  auto* import = model.add_opset_import();
  import->set_domain("local");
  import->set_version(1);
  set_shape(*model.mutable_graph()->mutable_input(0), "N", 4);
  auto* call = add_node(model, "F", {"x", "w"}, "y");
  call->set_domain("local");
  call->set_name("head");
  auto* weight = add_weight(model, "w", onnx::TensorProto::FLOAT, 4);
  weight->add_dims(3);
  weight->set_raw_data(floats(std::vector<float>(12, 0.5F)));
  auto* function = model.add_functions();
  function->set_domain("local");
  function->set_name("F");
  function->add_input("a");
  function->add_input("b");
  function->add_output("c");
  function->add_opset_import()->set_version(17);
  auto* body = function->add_node();
  body->set_op_type("MatMul");
  body->set_name("product");
  body->add_input("a");
  body->add_input("b");
  body->add_output("c");
  return model;
}

TEST_F(Inspect, the_documentation_has_every_field_of_the_json_and_no_other) {
  make_lenet();
  write_file(program_.file("all.onnx"), model_with_everything().SerializeAsString());
  write_file(program_.file("call.onnx"), model_with_call().SerializeAsString());
  output("model lenet -o other.onnx --input 1x16x16 --init kaiming --seed 7");
  std::set<std::string> found;
  for (const std::string command :
       {"inspect all.onnx --json", "inspect lenet.onnx --json",
        "inspect call.onnx --training --batch 4 --json",
        "inspect lenet.onnx --training --batch 64 --threads 2 --replicas 2 --json",
        "inspect lenet.onnx --training --batch 64 --summary --json"}) {
    collect_keys(Json::parse(output(command)), found);
  }
  for (const std::string other : {"other.onnx", "call.onnx"}) {
    collect_keys(Json::parse(run("inspect lenet.onnx --json --diff " + other).out), found);
  }
  found.insert("tuning");  // which says no more than it had time to measure
  const std::set<std::string> all = documented_keys(""), sure = documented_keys("`tuning`");
  for (const std::string& key : found) EXPECT_TRUE(all.contains(key)) << key << ": not documented";
  for (const std::string& key : sure) EXPECT_TRUE(found.contains(key)) << key << ": not there";
  EXPECT_GT(found.size(), 80u);
}

}  // namespace
}  // namespace sardonyx::testing
