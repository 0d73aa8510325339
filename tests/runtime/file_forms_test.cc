// What a file may leave out, say wrong or come from: graphs without names and shapes, stale
// value_info, every opset and IR version, several element types.
#include <gtest/gtest.h>

#include "tests/support/model_sketch.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::runtime {
namespace {

using testing::error_of;
using testing::ModelSketch;
using testing::node_of;
using testing::output_for;
using testing::states_after_step;
using States = std::map<std::string, std::vector<double>>;

constexpr const char* kNetwork = R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,1] y) <float[2,2] w = {1, -1, 1, 1}, float[2] b = {1, 1}, float[2,1] v = {1, 2}> {
  [first] h = MatMul(x, w)
  [bias] s = Add(h, b)
  [act] r = Relu(s)
  [last] y = MatMul(r, v)
})";

// x = (1, 2): h = (3, 1), s = (4, 2), y = 8. Label 7: dy = 2; dv = (8, 4); ds = (2, 4) = db;
// dw = x ds.
const States kAfterStep = {{"w", {0.75, -1.5, 0.5, 0.0}}, {"b", {0.75, 0.5}}, {"v", {0, 1.5}}};

States step(Session& session) { return states_after_step(session, {{1, 2}}, {{7}}, 0.125); }

TEST(FileForms, every_opset_and_ir_version_is_trained) {
  for (int opset = 7; opset <= 28; ++opset) {
    ModelSketch sketch(kNetwork);
    sketch.proto().mutable_opset_import(0)->set_version(opset);
    EXPECT_EQ(step(*sketch.open()), kAfterStep) << opset;
  }
  for (int ir = 3; ir <= 14; ++ir) {
    ModelSketch sketch(kNetwork);
    sketch.proto().set_ir_version(ir);
    EXPECT_EQ(step(*sketch.open()), kAfterStep) << ir;
  }
}

TEST(FileForms, a_later_opset_gives_one_warning) {
  ModelSketch sketch(kNetwork);
  sketch.proto().mutable_opset_import(0)->set_version(40);
  auto session = sketch.open();
  EXPECT_EQ(step(*session), kAfterStep);
  EXPECT_EQ(session->notices(),
            (std::vector<std::string>{"opset 40 is newer than 28, the newest one supported; "
                                      "operators are read as in opset 28"}));
}

TEST(FileForms, an_ir_version_out_of_range_is_refused_with_what_to_do) {
  ModelSketch sketch(kNetwork);
  sketch.proto().set_ir_version(15);
  EXPECT_NE(error_of([&] { sketch.open(); })
                .find("IR version 15 is not supported; supported are 3 to 14; export for an older "
                      "ONNX, or, if the file uses nothing new, set its ir_version lower"),
            std::string::npos);
  sketch.proto().set_ir_version(2);
  EXPECT_NE(
      error_of([&] { sketch.open(); })
          .find("IR version 2 is not supported; supported are 3 to 14; export it again with a "
                "newer exporter"),
      std::string::npos);
}

// What opsets 27 and 28 change, and what opset 1 has that nothing else had.
TEST(FileForms, operators_are_read_in_their_newest_and_refused_in_their_oldest_form) {
  ModelSketch range(R"(<ir_version: 13, opset_import: ["" : 27]>
g (float[N,2] x) => (float[N,2] y) <float[] from = {1}, float[] to = {2.5}, float[] by = {1}> {
  r = Range<stash_type = 1>(from, to, by)
  y = Mul(x, r)
})");
  EXPECT_EQ(output_for(*range.open(), {{3, 4}}), (std::vector<double>{3, 8}));
  ModelSketch celu(R"(<ir_version: 14, opset_import: ["" : 28]>
g (float[N,2] x) => (float[N,2] y) { y = Celu<alpha = 2.0>(x) })");
  EXPECT_EQ(output_for(*celu.open(), {{3, 0}}), (std::vector<double>{3, 0}));
  ModelSketch tile(R"(<ir_version: 3, opset_import: ["" : 1]>
g (float[N,2] x) => (float[N,4] y) <float[] tiles = {2}, float[] axis = {1}> {
  [old] y = Tile(x, tiles, axis)
})");
  const std::string error = error_of([&] { output_for(*tile.open(), {{3, 4}}); });
  EXPECT_NE(error.find("node old (Tile)"), std::string::npos) << error;
}

TEST(FileForms, names_and_shapes_may_be_missing) {
  ModelSketch sketch(kNetwork);
  for (auto& node : *sketch.graph().mutable_node()) node.clear_name();
  sketch.graph().clear_value_info();
  sketch.graph().clear_name();
  sketch.graph().mutable_output(0)->clear_type();
  sketch.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  auto session = sketch.open();
  session->describe_data({{"x", {2}}}, {});
  Batch batch;
  batch.inputs.emplace_back("x", graph::Tensor::of<float>({1, 2}, {1, 2}));
  EXPECT_EQ(session->forward(batch, passes::Mode::kEval).at(0).second.to_doubles(),
            (std::vector<double>{8}));
  session = sketch.open();
  session->describe_data({{"x", {2}}},
                         graph::TensorType(graph::DType::kFloat32, {graph::Dim(), graph::Dim(1)}));
  batch.labels = graph::Tensor::of<float>({1, 1}, {7});
  session->train_step(batch, {{1}}, 0.125);
  EXPECT_EQ(testing::states_of(*session), kAfterStep);
}

TEST(FileForms, operands_without_a_name_are_left_out) {
  ModelSketch sketch(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,2] y) <float[] high = {2}, bool[] off = {0}> {
  c = Clip(x, "", high)
  y, "" = Dropout(c, "", off)
})");
  EXPECT_EQ(output_for(*sketch.open(), {{-3, 4}}), (std::vector<double>{-3, 2}));
}

TEST(FileForms, a_wrong_value_info_is_told_once_and_not_trusted) {
  ModelSketch sketch(kNetwork);
  const auto declare = [&](const char* name, int type, std::vector<int64_t> shape) {
    auto* info = sketch.graph().add_value_info();
    info->set_name(name);
    info->mutable_type()->mutable_tensor_type()->set_elem_type(type);
    auto* dims = info->mutable_type()->mutable_tensor_type()->mutable_shape();
    for (int64_t size : shape) dims->add_dim()->set_dim_value(size);
  };
  declare("h", onnx::TensorProto::INT64, {1, 2});
  declare("s", onnx::TensorProto::FLOAT, {7, 7, 7});
  declare("r", onnx::TensorProto::FLOAT, {1, 2});
  auto session = sketch.open();
  EXPECT_EQ(step(*session), kAfterStep);
  EXPECT_EQ(session->notices(), (std::vector<std::string>{
                                    "2 declared types in the file are stale (own inference is "
                                    "used): 'h' is declared as int64[1,2], but is float[N:1,2]"}));
}

TEST(FileForms, operands_of_several_element_types_are_refused_as_the_file_has_them) {
  const char* kMixed = R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,1] y) <float16[2,1] w = {1, 2}> { [mixed] y = MatMul(x, w) })";
  EXPECT_EQ(
      error_of([&] { step(*ModelSketch(kMixed).open()); }),
      "input 1 (b) 'w' is float16[2,1], but input 0 (a) 'x' is float[N,2]: both must have one "
      "element type; cast one of them, or export the model in one type\n  while inferring "
      "shapes of node mixed (MatMul)");
  for (const char* node :
       {"h = Cast<to = 10>(x)  y = Add(h, x)", "h = Cast<to = 16>(x)  y = Concat<axis = 1>(x, h)",
        "h = Cast<to = 10>(x)  y = Where(c, x, h)", "h = Cast<to = 10>(x)  y = Max(x, x, h)"}) {
    ModelSketch sketch(std::string(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x, float16[2] half) => (float y) <bool[] c = {1}> { )") +
                       node + " }");
    const std::string error = error_of([&] { sketch.open()->prepare_training({{{1}}}); });
    EXPECT_NE(error.find("both must have one element type"), std::string::npos) << error;
  }
  // The types of the file, not those that training computes in: with casts it is right.
  ModelSketch cast(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[N,2] x) => (float[N,1] y) <float16[2,1] w = {1, 2}> {
  h = Cast<to = 10>(x)
  p = MatMul(h, w)
  y = Cast<to = 1>(p)
})");
  EXPECT_EQ(states_after_step(*cast.open(), {{1, 2}}, {{4}}, 0.125), (States{{"w", {0.75, 1.5}}}));
}

}  // namespace
}  // namespace sardonyx::runtime
