// If whose condition is known once the batch is: the branch that is taken is trained and saved
// where it stands; any other If is refused with what its condition depends on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "graph/support/error.h"
#include "tests/support/model_sketch.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::runtime {
namespace {

using testing::error_of;
using testing::inner_graph;
using testing::ModelSketch;
using testing::node_of;
using testing::output_for;
using testing::set_graph;
using testing::states_after_step;
using testing::states_of;
namespace fs = std::filesystem;
using States = std::map<std::string, std::vector<double>>;

// y = If(the rows of x have two columns).
constexpr const char* kOnShape = R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,1] y) <int64[] one = {1}, int64[] two = {2}> {
  s = Shape(x)
  columns = Gather(s, one)
  c = Equal(columns, two)
  [if1] y = If(c)
})";

constexpr const char* kProduct = R"(<ir_version: 8, opset_import: ["" : 17]>
then (float[N,2] x) => (float[N,1] t) <float[2,1] w = {0.5, -0.25}> {
  [product] t = MatMul(x, w)
})";

// Nobody knows its operator, and two of its own names are those of the other branch.
constexpr const char* kUnknown = R"(<ir_version: 8, opset_import: ["" : 17, "acme" : 1]>
else (float[N,2] x) => (float t) <float[2,1] w = {9, 9}> { t = acme.Secret(x, w) })";

ModelSketch sketch_of(const char* then_text, const char* else_text) {
  ModelSketch sketch(kOnShape);
  set_graph(node_of(sketch.graph(), "y"), "then_branch", inner_graph(then_text));
  set_graph(node_of(sketch.graph(), "y"), "else_branch", inner_graph(else_text));
  return sketch;
}

// What the file holds after `session` has saved it.
onnx::ModelProto saved(const Session& session, SaveOptions options = {}) {
  const fs::path path = fs::temp_directory_path() / fmt::format("sardonyx_if_{}.onnx", getpid());
  session.save(path, options);
  onnx::ModelProto model;
  const auto file = graph::Model::open(path);
  model.ParseFromArray(file->bytes().data(), static_cast<int>(file->bytes().size()));
  fs::remove(path);
  return model;
}

// The mean squared error of one row x = (1, 2) with label 1: y = 0, so dw = -2 x.
TEST(Branches, the_one_that_is_taken_is_trained_and_saved_where_it_stands) {
  ModelSketch sketch = sketch_of(kProduct, kUnknown);
  auto session = sketch.open();
  const States states = states_after_step(*session, {{1, 2}}, {{1}}, 0.125);
  EXPECT_EQ(states, (States{{"if1/then_branch/w", {0.75, 0.25}}}));
  const std::vector<std::string>& notices = session->notices();
  EXPECT_EQ(std::count(notices.begin(), notices.end(),
                       "the condition of node if1 (If) doesn't depend on data: the branch that it "
                       "takes is trained"),
            1);

  onnx::ModelProto model = saved(*session);
  onnx::NodeProto& node = node_of(*model.mutable_graph(), "y");
  EXPECT_EQ(node.input_size(), 1);
  onnx::TensorProto& w = *node.mutable_attribute(0)->mutable_g()->mutable_initializer(0);
  EXPECT_EQ(w.raw_data(), testing::floats({0.75f, 0.25f}));
  w.set_raw_data(testing::floats({0.5f, -0.25f}));
  EXPECT_EQ(model.SerializeAsString(), sketch.bytes());
}

TEST(Branches, the_else_branch_is_taken_where_the_condition_is_false) {
  ModelSketch sketch = sketch_of(kUnknown, kProduct);
  sketch.graph().mutable_initializer(1)->set_raw_data(std::string("\3\0\0\0\0\0\0\0", 8));
  auto session = sketch.open();
  EXPECT_EQ(states_after_step(*session, {{1, 2}}, {{1}}, 0.125),
            (States{{"if1/else_branch/w", {0.75, 0.25}}}));
}

TEST(Branches, one_inside_another_waits_for_its_own_condition) {
  // Its condition is arithmetic on the shape of what the outer branch computes.
  onnx::GraphProto outer = inner_graph(R"(<ir_version: 8, opset_import: ["" : 17]>
then (float[N,2] x, int64 one) => (float z) {
  k = Constant<value = float[2] {2, 1}>()
  r = Relu(x)
  h = Mul(r, k)
  s = Shape(h)
  columns = Gather(s, one)
  c = Greater(columns, one)
  z = If(c)
})");
  set_graph(node_of(outer, "z"), "then_branch",
            inner_graph(R"(<ir_version: 8, opset_import: ["" : 17]>
inner (float[N,2] h, float[2] k) => (float p) <float[2,1] w = {0.5, -0.5}> {
  q = Add(h, k)
  p = MatMul(q, w)
})"));
  set_graph(node_of(outer, "z"), "else_branch",
            inner_graph(R"(<ir_version: 8, opset_import: ["" : 17]>
inner (float[N,2] h) => (float p) { p = acme.Other(h) })"));
  ModelSketch sketch(kOnShape);
  set_graph(node_of(sketch.graph(), "y"), "then_branch", outer);
  set_graph(node_of(sketch.graph(), "y"), "else_branch", inner_graph(kUnknown));
  auto session = sketch.open();
  EXPECT_EQ(output_for(*session, {{1, 2}}), (std::vector<double>{0.5}));  // (4, 3) . w
  session = sketch.open();
  // dy = 2 (0.5 - 1) = -1; dw = -(4, 3); dk = -(x w + w) = -(0.5 + 0.5, -1 - 0.5).
  EXPECT_EQ(states_after_step(*session, {{1, 2}}, {{1}}, 0.125),
            (States{{"if1/then_branch/If/then_branch/w", {1.0, -0.125}},
                    {"if1/then_branch/k", {2.125, 0.8125}}}));
  onnx::ModelProto model = saved(*session);
  onnx::GraphProto& inner = *node_of(*model.mutable_graph(), "y").mutable_attribute(0)->mutable_g();
  EXPECT_EQ(node_of(inner, "k").attribute(0).t().raw_data(), testing::floats({2.125f, 0.8125f}));
  EXPECT_EQ(node_of(inner, "z").attribute(0).g().initializer(0).raw_data(),
            testing::floats({1.0f, -0.125f}));
}

TEST(Branches, a_branch_may_hand_on_what_it_reads_from_around_it) {
  const char* kSame = R"(<ir_version: 8, opset_import: ["" : 17]>
then (float h) => (float h) { })";
  ModelSketch sketch(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,1] y) <bool[] c = {1}, float[2,1] w = {1, 1}> {
  h = MatMul(x, w)
  i = If(c)
  y = Add(i, h)
})");
  set_graph(node_of(sketch.graph(), "i"), "then_branch", inner_graph(kSame));
  set_graph(node_of(sketch.graph(), "i"), "else_branch", inner_graph(kUnknown));
  auto session = sketch.open();
  EXPECT_EQ(output_for(*session, {{1, 2}}), (std::vector<double>{6}));
  session = sketch.open();
  EXPECT_EQ(states_after_step(*session, {{1, 2}}, {{5}}, 0.125),
            (States{{"w", {0.5, 0.0}}}));  // dw = 2 (6 - 5) 2 x
}

TEST(Branches, an_output_keeps_its_name_when_the_branch_hands_on_what_it_reads) {
  ModelSketch sketch(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,1] y) <bool[] c = {1}, float[2,1] w = {1, 1}> {
  h = MatMul(x, w)
  y = If(c)
})");
  set_graph(node_of(sketch.graph(), "y"), "then_branch",
            inner_graph(R"(<ir_version: 8, opset_import: ["" : 17]>
then (float h) => (float h) { })"));
  set_graph(node_of(sketch.graph(), "y"), "else_branch", inner_graph(kUnknown));
  const auto session = sketch.open("y");
  EXPECT_EQ(states_after_step(*session, {{1, 2}}, {{5}}, 0.125),
            (States{{"w", {1.5, 2.0}}}));  // dw = 2 (3 - 5) x
}

TEST(Branches, a_condition_on_data_is_refused_with_what_it_depends_on) {
  ModelSketch sketch(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x, bool training) => (float[N,1] y) <float[] limit = {1}> {
  m = ReduceMax<keepdims = 0>(x)
  large = Greater(m, limit)
  c = And(large, training)
  [guard] y = If(c)
})");
  set_graph(node_of(sketch.graph(), "y"), "then_branch", inner_graph(kProduct));
  set_graph(node_of(sketch.graph(), "y"), "else_branch", inner_graph(kProduct));
  auto session = sketch.open();
  EXPECT_EQ(error_of([&] { session->prepare_training({{{1}}}); }),
            "node guard (If): its condition 'c' (of node And -> c) must be known before training "
            "starts, but it depends on the input 'training', the float tensor 'limit', "
            "which training may change, the input 'x'; "
            "export the model without a branch on data (trace it, or give the flag a fixed value), "
            "or put the branch to train in its place");
}

TEST(Branches, a_value_that_is_named_as_one_around_it_is_the_inner_one_and_is_told) {
  ModelSketch sketch(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,1] y) <bool[] c = {1}, float[2,2] w = {1, 0, 0, 1}> {
  h = MatMul(x, w)
  [if1] y = If(c)
})");
  set_graph(node_of(sketch.graph(), "y"), "then_branch",
            inner_graph(R"(<ir_version: 8, opset_import: ["" : 17]>
then (float[N,2] h) => (float[N,1] t) <float[2,1] w = {2, -1}> { t = MatMul(h, w) })"));
  set_graph(node_of(sketch.graph(), "y"), "else_branch", inner_graph(kUnknown));
  auto session = sketch.open();
  // y = 2 1 - 2 = 0, dy = -2; the inner dw = -2 h, the outer one -2 x' (2, -1).
  EXPECT_EQ(states_after_step(*session, {{1, 2}}, {{1}}, 0.125),
            (States{{"w", {1.5, -0.25, 1, 0.5}}, {"if1/then_branch/w", {2.25, -0.5}}}));
  const std::vector<std::string>& notices = session->notices();
  EXPECT_EQ(
      std::count(notices.begin(), notices.end(),
                 "node if1 (If): its then_branch has a value 'w' of its own where it sees one "
                 "of that name, which ONNX forbids; inside, its own is taken"),
      1);
  onnx::ModelProto model = saved(*session);
  EXPECT_EQ(model.graph().initializer(1).raw_data(), testing::floats({1.5f, -0.25f, 1, 0.5f}));
  EXPECT_EQ(node_of(*model.mutable_graph(), "y").attribute(0).g().initializer(0).raw_data(),
            testing::floats({2.25f, -0.5f}));
}

TEST(Branches, faults_of_the_taken_branch_name_their_node) {
  ModelSketch unknown = sketch_of(kUnknown, kProduct);
  EXPECT_NE(error_of([&] {
              unknown.open()->prepare_training({{{1}}});
            }).find("no opset import for domain 'acme', which node Secret -> t needs"),
            std::string::npos);
  unknown.proto().add_opset_import()->set_domain("acme");
  EXPECT_NE(error_of([&] { unknown.open()->prepare_training({{{1}}}); })
                .find("acme::Secret (1 node): not known (looked for in version 0 of acme): "
                      "acme.Secret -> y"),
            std::string::npos);
  auto session = sketch_of(R"(<ir_version: 8, opset_import: ["" : 17]>
then (float[N,2] x) => (float t) <float[3,1] w = {1, 2, 3}> { [bad] t = MatMul(x, w) })",
                           kUnknown)
                     .open();
  EXPECT_NE(error_of([&] {
              session->prepare_training({{{1}}});
            }).find("while inferring shapes of node if1/then_branch/bad (MatMul)"),
            std::string::npos);
  ModelSketch external = sketch_of(kProduct, kUnknown);
  onnx::TensorProto& w =
      *node_of(external.graph(), "y").mutable_attribute(0)->mutable_g()->mutable_initializer(0);
  w.clear_raw_data();
  w.set_data_location(onnx::TensorProto::EXTERNAL);
  w.add_external_data()->set_key("location");
  w.mutable_external_data(0)->set_value("weights.bin");
  session = external.open();
  const std::string error = error_of([&] { session->prepare_training({{{1}}}); });
  EXPECT_NE(error.find("tensor 'w' inside it is in an external file"), std::string::npos) << error;
  EXPECT_NE(error.find("while reading then_branch of node if1 (If)"), std::string::npos) << error;
}

TEST(Branches, nodes_with_a_mode_are_saved_in_inference_form) {
  auto session = sketch_of(R"(<ir_version: 8, opset_import: ["" : 17]>
then (float[N,2] x) => (float t)
<float[2] s = {1, 1}, float[2] b = {0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1},
 float[2,1] w = {1, 1}> {
  [norm] n, mean, var = BatchNormalization<training_mode = 1>(x, s, b, m, v)
  t = MatMul(n, w)
})",
                           kUnknown)
                     .open();
  States states = states_after_step(*session, {{1, 2}, {3, 6}}, {{0}, {0}}, 0.0);
  EXPECT_EQ(states.at("if1/then_branch/m"), (std::vector<double>{0.2f, 0.4f}));
  const auto norm_of = [](onnx::ModelProto model) {
    return node_of(*node_of(*model.mutable_graph(), "y").mutable_attribute(0)->mutable_g(), "n");
  };
  const onnx::NodeProto norm = norm_of(saved(*session));
  EXPECT_EQ(norm.attribute(0).i(), 0);
  EXPECT_EQ(norm.output_size(), 1);
  EXPECT_EQ(norm_of(saved(*session, {.form = SaveForm::kAsInFile})).attribute(0).i(), 1);
}

// y = If(the batch has one row).
ModelSketch on_batch() {
  ModelSketch sketch(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,1] y) <int64[] zero = {0}, int64[] one = {1}> {
  s = Shape(x)
  rows = Gather(s, zero)
  c = Equal(rows, one)
  [single] y = If(c)
})");
  const onnx::GraphProto product = inner_graph(kProduct);
  set_graph(node_of(sketch.graph(), "y"), "then_branch", product);
  set_graph(node_of(sketch.graph(), "y"), "else_branch", product);
  return sketch;
}

TEST(Branches, one_that_the_size_of_the_batch_decides_is_refused_where_the_sizes_disagree) {
  auto session = on_batch().open();
  session->prepare_training({{{4}}, {{2}}});
  const auto words = [](const char* takes) {
    return fmt::format(
        "node single (If): its condition depends on the size of the batch: it takes {}, and a "
        "model "
        "can't be two; choose sizes that agree (--batch, --micro-batch, --drop-last), or put the "
        "branch to train in its place",
        takes);
  };
  const std::string last = words("else_branch for a batch of 4 and then_branch for one of 1");
  EXPECT_EQ(error_of([&] { session->prepare_training({{{1}}}); }), last);  // a short last batch
  EXPECT_EQ(error_of([&] { output_for(*session, {{1, 2}}); }), last);
  // The batch as a whole has four rows, whatever it is cut into.
  session = on_batch().open();
  EXPECT_EQ(error_of([&] {
              session->prepare_training({{{1, 1, 1, 1}}});
            }),
            words("then_branch for a batch of 1 and else_branch for one of 4"));
}

TEST(Branches, two_nodes_of_one_name_are_told_apart) {
  ModelSketch sketch(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,1] z) <int64[] zero = {0}, int64[] one = {1}, int64[1] both = {1}> {
  s = Shape(x)
  columns = Gather(s, one)
  d = Greater(columns, zero)
  [twin] first = If(d)
  rows = Gather(s, zero)
  c = Equal(rows, one)
  [twin] second = If(c)
  z = Add(first, second)
})");
  const onnx::GraphProto product = inner_graph(kProduct);
  for (const char* name : {"first", "second"}) {
    set_graph(node_of(sketch.graph(), name), "then_branch", product);
    set_graph(node_of(sketch.graph(), name), "else_branch", product);
  }
  const auto session = sketch.open();
  session->prepare_training({{{4}}});
  EXPECT_EQ(error_of([&] { session->prepare_training({{{1}}}); })
                .find("node twin (If): its condition depends on the size of the batch: it takes "
                      "else_branch for a batch of 4 and then_branch for one of 1"),
            0u);
}

}  // namespace
}  // namespace sardonyx::runtime
