// Saving: what the numbers of each element type become, types that are only carried along, and what
// else stands in a file.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "graph/onnx_export.h"
#include "graph/onnx_import.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::graph {
namespace {

namespace fs = std::filesystem;
using onnx::TensorProto;
using testing::add_node;
using testing::add_weight;
using testing::base_model;
using testing::doubles;
using testing::error_of;
using testing::floats;
using testing::initializer_origin;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

// Later than the onnx.proto that is built in.
constexpr int kFloat8E4M3FN = 17, kUint4 = 21, kInt4 = 22, kFloat8E8M0 = 24;

Tensor float_tensor(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Of an initializer, after `values` were saved.
TensorProto saved_tensor(const onnx::ModelProto& model, const NewValue& value) {
  const TemporaryFolder folder;
  save_model(*Model::from_bytes(model.SerializeAsString()), {value}, folder.path() / "m.onnx");
  onnx::ModelProto saved;
  EXPECT_TRUE(saved.ParseFromString(read_file(folder.path() / "m.onnx")));
  return saved.graph().initializer(0);
}

TEST(SaveTypes, half_types_round_once_to_nearest_even_and_keep_the_sign_of_zero) {
  const float tie_down = 1 + 0x1p-11F, tie_up = 1 + 0x1.8p-10F, tiny = -0x1p-60F;
  const std::vector<float> values{-0.0F, 0.0F, tie_down, tie_up, tiny, -2.0F};
  for (const bool raw : {true, false}) {
    onnx::ModelProto model = base_model();
    TensorProto* w = add_weight(model, "w", TensorProto::FLOAT16, 6);
    if (raw) w->set_raw_data(std::string(12, '\0'));
    if (!raw) w->mutable_int32_data()->Resize(6, 0);
    add_node(model, "Relu", {"x"}, "y");
    const TensorProto saved = saved_tensor(model, {initializer_origin("w"), float_tensor(values)});
    const std::vector<uint16_t> want{0x8000, 0x0000, 0x3c00, 0x3c02, 0x8000, 0xc000};
    const std::vector<uint16_t> typed(saved.int32_data().begin(), saved.int32_data().end());
    EXPECT_EQ(raw ? saved.raw_data() : bytes_of(typed), bytes_of(want));
  }
}

TEST(SaveTypes, bfloat16_rounds_once_to_nearest_even) {
  onnx::ModelProto model = base_model();
  add_weight(model, "w", TensorProto::BFLOAT16, 5)->set_raw_data(std::string(10, '\0'));
  add_node(model, "Relu", {"x"}, "y");
  const Tensor value = doubles({-0.0, 1 + 0x1p-8, 1 + 0x1.8p-7, 1 + 0x1p-8 + 0x1p-40, 0x1p-133});
  const TensorProto saved = saved_tensor(model, {initializer_origin("w"), value});
  EXPECT_EQ(saved.raw_data(),
            bytes_of(std::vector<uint16_t>{0x8000, 0x3f80, 0x3f82, 0x3f81, 0x0001}));
}

TEST(SaveTypes, a_double_that_training_in_float_left_alone_keeps_its_digits) {
  const std::vector<double> before{0.1, 0.1, -0.0, 1e-300};
  const std::vector<float> trained{0.1F, 0.25F, 0.0F, 0.0F};
  const std::vector<double> after{0.1, 0.25, 0.0, 1e-300};
  onnx::ModelProto model = base_model();
  TensorProto* w = add_weight(model, "w", TensorProto::DOUBLE, 4);
  w->set_raw_data(bytes_of(before));
  add_node(model, "Relu", {"x"}, "y");
  const NewValue value{initializer_origin("w"), float_tensor(trained)};
  EXPECT_EQ(saved_tensor(model, value).raw_data(), bytes_of(after));
  w->clear_raw_data();
  for (const double number : before) w->add_double_data(number);
  const TensorProto typed = saved_tensor(model, value);
  EXPECT_EQ(bytes_of(std::vector<double>(typed.double_data().begin(), typed.double_data().end())),
            bytes_of(after));

  w->clear_double_data();
  w->set_data_location(TensorProto::EXTERNAL);
  auto* entry = w->add_external_data();
  entry->set_key("location");
  entry->set_value("w.bin");
  const TemporaryFolder folder, other;
  write_file(folder.path() / "m.onnx", model.SerializeAsString());
  write_file(folder.path() / "w.bin", bytes_of(before));
  save_model(*Model::open(folder.path() / "m.onnx"), {value}, other.path() / "m.onnx");
  EXPECT_EQ(read_file(other.path() / "w.bin"), bytes_of(after));
}

// w float [1] inside; q [3] of a type that Sardonyx can't hold.
onnx::ModelProto model_with_foreign(int type) {
  onnx::ModelProto model = base_model();
  add_weight(model, "w", TensorProto::FLOAT, 1)->set_raw_data(floats({1}));
  add_weight(model, "q", type, 3)->set_raw_data("abc");
  add_node(model, "Add", {"x", "w"}, "y");
  return model;
}

TEST(SaveTypes, an_unread_tensor_of_a_foreign_type_is_kept_as_it_is) {
  for (const int type : {17, 20, 22, 24, 26}) {
    onnx::ModelProto model = model_with_foreign(type);
    model.mutable_graph()->add_input()->set_name("q");  // as IR 3 lists it
    const auto file = Model::from_bytes(model.SerializeAsString());
    const ImportedModel imported = import_model(file);
    ASSERT_EQ(imported.notices.size(), 1u);
    EXPECT_TRUE(imported.notices[0].starts_with("initializer 'q' is kept as it is: nothing reads"))
        << imported.notices[0];
    EXPECT_EQ(imported.graph->find("q"), nullptr);
    EXPECT_EQ(imported.graph->inputs().size(), 1u);
    const TemporaryFolder folder;
    save_model(*file, {{initializer_origin("w"), float_tensor({7})}}, folder.path() / "m.onnx");
    model.mutable_graph()->mutable_initializer(0)->set_raw_data(floats({7}));
    EXPECT_EQ(read_file(folder.path() / "m.onnx"), model.SerializeAsString());
  }
}

TEST(SaveTypes, a_foreign_type_is_refused_where_it_is_read) {
  const auto error = [](const onnx::ModelProto& model) {
    return error_of([&] { import_model(Model::from_bytes(model.SerializeAsString())); });
  };
  onnx::ModelProto read = model_with_foreign(kFloat8E4M3FN);
  add_node(read, "Cast", {"q"}, "c")->set_name("widen");
  const std::string text = error(read);
  EXPECT_NE(text.find("tensor 'q': element type 17 (float8e4m3fn) is not supported"), text.npos)
      << text;
  EXPECT_NE(text.find("; node widen (Cast) reads it"), text.npos) << text;

  onnx::ModelProto inner = model_with_foreign(kInt4);
  onnx::AttributeProto* body = inner.mutable_graph()->mutable_node(0)->add_attribute();
  body->set_name("then_branch");
  body->set_type(onnx::AttributeProto::GRAPH);
  onnx::NodeProto* node = body->mutable_g()->add_node();
  node->set_op_type("Identity");
  node->add_input("q");
  node->add_output("o");
  EXPECT_NE(error(inner).find("element type 22 (int4) is not supported"), std::string::npos);

  onnx::ModelProto output = model_with_foreign(kFloat8E8M0);
  output.mutable_graph()->add_output()->set_name("q");
  EXPECT_NE(error(output).find("; it is an output of the graph"), std::string::npos)
      << error(output);
  EXPECT_NE(error(model_with_foreign(99)).find("99 (unknown to ONNX)"), std::string::npos);
}

TEST(SaveTypes, external_data_of_a_foreign_type_go_along) {
  onnx::ModelProto model = model_with_foreign(kUint4);
  TensorProto* q = model.mutable_graph()->mutable_initializer(1);
  q->clear_raw_data();
  q->set_data_location(TensorProto::EXTERNAL);
  for (const auto& [key, text] :
       {std::pair{"location", "q.bin"}, {"offset", "1"}, {"length", "2"}}) {
    auto* entry = q->add_external_data();
    entry->set_key(key);
    entry->set_value(text);
  }
  const TemporaryFolder folder, other;
  write_file(folder.path() / "m.onnx", model.SerializeAsString());
  write_file(folder.path() / "q.bin", "\x11\x32\x04");  // three of 4 bits in two bytes
  save_model(*Model::open(folder.path() / "m.onnx"), {{initializer_origin("w"), float_tensor({7})}},
             other.path() / "m.onnx");
  EXPECT_EQ(read_file(other.path() / "q.bin"), "\x11\x32\x04");
  write_file(folder.path() / "q.bin", "\x11\x32");
  const std::string error = error_of(
      [&] { save_model(*Model::open(folder.path() / "m.onnx"), {}, other.path() / "n.onnx"); });
  EXPECT_NE(error.find("needs 2 bytes at offset 1 of external data file 'q.bin', which holds 2"),
            std::string::npos)
      << error;
}

template <class Message>
void add_unknown(Message* message, int number) {
  message->GetReflection()->MutableUnknownFields(message)->AddLengthDelimited(number, "later");
}

TEST(SaveTypes, notes_and_unknown_fields_stay_also_in_what_is_edited) {
  onnx::ModelProto model = base_model();
  model.set_doc_string("model doc");
  auto* note = model.add_metadata_props();
  note->set_key("author");
  note->set_value("me");
  model.add_training_info()->mutable_algorithm()->set_name("kept");
  model.mutable_graph()->set_doc_string("graph doc");
  TensorProto* w = add_weight(model, "w", TensorProto::FLOAT, 1);
  w->set_raw_data(floats({1}));
  w->set_doc_string("tensor doc");
  onnx::NodeProto* norm = add_node(model, "BatchNormalization", {"x", "w", "w"}, "y");
  norm->set_doc_string("node doc");
  norm->add_output("mean");
  onnx::AttributeProto* epsilon = norm->add_attribute();
  epsilon->set_name("epsilon");
  epsilon->set_doc_string("attribute doc");
  epsilon->set_type(onnx::AttributeProto::FLOAT);
  epsilon->set_f(0.5F);
  onnx::AttributeProto* mode = norm->add_attribute();
  mode->set_name("training_mode");
  mode->set_i(1);
  mode->set_type(onnx::AttributeProto::INT);
  add_unknown(&model, 4001);
  add_unknown(model.mutable_graph(), 4002);
  add_unknown(w, 4003);
  add_unknown(norm, 4004);
  add_unknown(epsilon, 4005);
  NodeEdit change;
  change.node = 0;
  change.ints = {{"training_mode", 0}};
  change.keep_outputs = 1;
  SaveOptions options;
  options.node_edits = {change};
  const TemporaryFolder folder;
  save_model(*Model::from_bytes(model.SerializeAsString()),
             {{initializer_origin("w"), float_tensor({7})}}, folder.path() / "m.onnx", options);
  w->set_raw_data(floats({7}));
  norm->mutable_output()->RemoveLast();
  mode->set_i(0);
  onnx::ModelProto saved;
  ASSERT_TRUE(saved.ParseFromString(read_file(folder.path() / "m.onnx")));
  EXPECT_EQ(saved.SerializeAsString(), model.SerializeAsString());
}

TEST(SaveTypes, a_file_that_protobuf_could_not_read_is_told) {
  onnx::ModelProto model = model_with_foreign(TensorProto::FLOAT);
  model.mutable_graph()->mutable_initializer(1)->set_raw_data(floats({1, 2, 3}));
  const std::string bytes = model.SerializeAsString();
  const TemporaryFolder folder;
  std::vector<std::string> notices;
  SaveOptions options;
  options.notices = &notices;
  options.protobuf_limit = bytes.size();
  const NewValue value{initializer_origin("w"), float_tensor({7})};
  save_model(*Model::from_bytes(bytes), {value}, folder.path() / "m.onnx", options);
  EXPECT_TRUE(notices.empty());
  options.protobuf_limit = bytes.size() - 1;
  save_model(*Model::from_bytes(bytes), {value}, folder.path() / "m.onnx", options);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find(fmt::format("has {} bytes: most programs read at most {}", bytes.size(),
                                        bytes.size() - 1)),
            std::string::npos)
      << notices[0];
}

}  // namespace
}  // namespace sardonyx::graph
