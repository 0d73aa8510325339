#include "graph/model.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <sys/stat.h>

#include <functional>

#include "graph/skeleton.h"
#include "graph/support/error.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::graph {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::floats;
using testing::TemporaryFolder;
using testing::write_file;

onnx::ModelProto small_model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  model.mutable_graph()->set_name("g");
  return model;
}

// Opens a model with the one initializer and returns its value.
Tensor payload_of(const onnx::TensorProto& tensor, const fs::path& folder = ".") {
  onnx::ModelProto proto = small_model();
  *proto.mutable_graph()->add_initializer() = tensor;
  const auto model = Model::from_bytes(proto.SerializeAsString(), folder);
  return model->payload(model->skeleton().graph().initializer(0));
}

onnx::TensorProto tensor_proto(int type, const std::vector<int64_t>& dims) {
  onnx::TensorProto tensor;
  tensor.set_name("w");
  tensor.set_data_type(type);
  for (int64_t d : dims) tensor.add_dims(d);
  return tensor;
}

onnx::TensorProto external_proto(const std::string& location) {
  onnx::TensorProto tensor = tensor_proto(onnx::TensorProto::FLOAT, {3});
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto* entry = tensor.add_external_data();
  entry->set_key("location");
  entry->set_value(location);
  return tensor;
}

void add_entry(onnx::TensorProto& tensor, const std::string& key, const std::string& value) {
  auto* entry = tensor.add_external_data();
  entry->set_key(key);
  entry->set_value(value);
}

std::string open_error(const std::string& content) {
  const TemporaryFolder folder;
  write_file(folder.path() / "m.onnx", content);
  return error_of([&] { Model::open(folder.path() / "m.onnx"); });
}

TEST(ModelOpen, says_what_a_foreign_file_is) {
  const auto says = [](const std::string& content, const std::string& expected) {
    const std::string error = open_error(content);
    EXPECT_NE(error.find(expected), std::string::npos) << error;
  };
  says("", "the file is empty (0 bytes)");
  says("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git-LFS pointer");
  says("\n<!DOCTYPE HTML><p>404", "an HTML page");
  says("<HTML></HTML>", "an HTML page");
  says("<?xml version='1.0'?>", "an XML file");
  says("{\"a\": 1}", "a JSON file");
  says("model:\n  - a\n", "a text file");
  says("\x1f\x8b\x08 etc", "compressed with gzip");
  says("PK\x03\x04 etc", "a zip archive");
  says("\x89HDF\r\n", "an HDF5 file");
  says("\x08\x08", "it has no graph");
  says("\x3a\x7f", "field 7 at byte 0 needs 127 bytes, but 0 are left");
}

TEST(ModelOpen, refuses_missing_files_folders_and_pipes) {
  const TemporaryFolder folder;
  const auto open = [&](const fs::path& path) { return error_of([&] { Model::open(path); }); };
  EXPECT_EQ(open("no/such.onnx"), "no/such.onnx: no such file");
  EXPECT_EQ(open(folder.path()), folder.path().string() + ": is a directory, expected a file");
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(open(pipe), pipe.string() + ": is not a regular file");
}

TEST(ModelOpen, keeps_small_payloads_and_cuts_large_ones_everywhere) {
  onnx::ModelProto proto = small_model();
  onnx::TensorProto large = tensor_proto(onnx::TensorProto::FLOAT, {257});
  large.set_raw_data(std::string(1028, 'a'));
  onnx::TensorProto small = tensor_proto(onnx::TensorProto::FLOAT, {256});
  small.set_raw_data(std::string(1024, 'b'));
  *proto.mutable_graph()->add_initializer() = small;
  *proto.mutable_graph()->add_initializer() = large;
  auto* node = proto.mutable_graph()->add_node();
  auto* attribute = node->add_attribute();
  *attribute->mutable_t() = large;
  auto* body = node->add_attribute()->mutable_g();
  *body->add_initializer() = large;
  *body->add_sparse_initializer()->mutable_values() = large;
  auto* constant = proto.add_functions()->add_node()->add_attribute();
  *constant->mutable_t() = large;
  *proto.add_training_info()->mutable_algorithm()->add_initializer() = large;

  const auto model = Model::from_bytes(proto.SerializeAsString());
  const auto& graph = model->skeleton().graph();
  EXPECT_EQ(graph.initializer(0).raw_data().size(), 1024u);
  const auto& inner = graph.node(0).attribute(1).g();
  const auto& function = model->skeleton().functions(0).node(0).attribute(0);
  const auto& training = model->skeleton().training_info(0).algorithm();
  for (const onnx::TensorProto* cut :
       {&graph.initializer(1), &graph.node(0).attribute(0).t(), &inner.initializer(0),
        &inner.sparse_initializer(0).values(), &function.t(), &training.initializer(0)}) {
    EXPECT_FALSE(cut->has_raw_data());
    const Tensor value = model->payload(*cut);
    EXPECT_EQ(value.bytes().size(), 1028u);
    EXPECT_EQ(value.bytes()[0], std::byte{'a'});
  }
}

TEST(ModelOpen, a_payload_of_8_GiB_is_not_touched) {
  const uint64_t size = uint64_t{8} << 30;
  // Everything up to the payload, which is a hole in the file.
  std::string dims, head("\x10\x01", 2);
  wire::append_tag(dims, 1, wire::Type::kVarint);
  wire::append_varint(dims, size / 4);
  head = dims + head;
  wire::append_tag(head, 9, wire::Type::kBytes);
  wire::append_varint(head, size);
  const auto opened = [&](uint32_t number, const std::string& inner) {
    std::string out;
    wire::append_tag(out, number, wire::Type::kBytes);
    wire::append_varint(out, inner.size() + size);
    return out + inner;
  };
  const std::string bytes = std::string("\x08\x08", 2) + opened(7, opened(5, head));
  const TemporaryFolder folder;
  write_file(folder.path() / "m.onnx", bytes);
  fs::resize_file(folder.path() / "m.onnx", bytes.size() + size);
  const auto model = Model::open(folder.path() / "m.onnx");
  const Tensor value = model->payload(model->skeleton().graph().initializer(0));
  EXPECT_EQ(value.bytes().size(), size);
  EXPECT_EQ(value.bytes().data() + size, model->bytes().data() + model->bytes().size());
}

TEST(ModelOpen, a_place_written_into_the_file_is_not_trusted) {
  onnx::ModelProto proto = small_model();
  onnx::TensorProto* tensor = proto.mutable_graph()->add_initializer();
  *tensor = tensor_proto(onnx::TensorProto::FLOAT, {1});
  tensor->set_raw_data(floats({2.5f}));
  // The number that the skeleton uses for places.
  for (uint64_t value : {uint64_t{0}, uint64_t{1} << 60}) {
    tensor->mutable_unknown_fields()->AddFixed64(500'000'001, value);
  }
  const auto model = Model::from_bytes(proto.SerializeAsString());
  EXPECT_EQ(model->payload(model->skeleton().graph().initializer(0)).data<float>()[0], 2.5f);
}

TEST(ModelOpen, nesting_of_100_messages_is_the_limit) {
  // Graph, node, attribute, graph, ...: the last graph lies 3 * n + 1 deep.
  const auto nested = [](int n) {
    std::string graph;
    for (int i = 0; i < n; ++i) {
      std::string attribute, node, outer;
      wire::append_bytes(attribute, 6, graph);
      wire::append_bytes(node, 5, attribute);
      wire::append_bytes(outer, 1, node);
      graph = outer;
    }
    std::string model("\x08\x08", 2);
    wire::append_bytes(model, 7, graph);
    return model;
  };
  EXPECT_NO_THROW(Model::from_bytes(nested(33)));
  const std::string error = error_of([&] { Model::from_bytes(nested(34)); });
  EXPECT_NE(error.find("nested too deep"), std::string::npos) << error;
}

TEST(Payload, borrows_the_bytes_of_the_file) {
  onnx::ModelProto proto = small_model();
  onnx::TensorProto* tensor = proto.mutable_graph()->add_initializer();
  *tensor = tensor_proto(onnx::TensorProto::FLOAT, {2});
  tensor->set_raw_data(floats({1.5f, -2}));
  auto model = Model::from_bytes(proto.SerializeAsString());
  const std::span<const std::byte> file = model->bytes();
  const Tensor value = model->payload(model->skeleton().graph().initializer(0));
  EXPECT_GE(value.bytes().data(), file.data());
  EXPECT_LT(value.bytes().data(), file.data() + file.size());
  model.reset();
  EXPECT_EQ(value.data<float>()[0], 1.5f);
  EXPECT_EQ(value.data<float>()[1], -2.0f);
}

TEST(Payload, reads_every_typed_field) {
  using P = onnx::TensorProto;
  P f16 = tensor_proto(P::FLOAT16, {2});
  f16.add_int32_data(0x3c00);
  f16.add_int32_data(0xc000);
  EXPECT_EQ(payload_of(f16).to_doubles(), (std::vector<double>{1, -2}));
  P bf16 = tensor_proto(P::BFLOAT16, {1});
  bf16.add_int32_data(0x3fc0);
  EXPECT_EQ(payload_of(bf16).to_doubles(), (std::vector<double>{1.5}));
  P i8 = tensor_proto(P::INT8, {3});
  for (int v : {-128, -1, 127}) i8.add_int32_data(v);
  EXPECT_EQ(payload_of(i8).to_ints(), (std::vector<int64_t>{-128, -1, 127}));
  P u8 = tensor_proto(P::UINT8, {1});
  u8.add_int32_data(255);
  EXPECT_EQ(payload_of(u8).to_ints(), (std::vector<int64_t>{255}));
  P u16 = tensor_proto(P::UINT16, {1});
  u16.add_int32_data(65535);
  EXPECT_EQ(payload_of(u16).to_ints(), (std::vector<int64_t>{65535}));
  P i32 = tensor_proto(P::INT32, {2});
  i32.add_int32_data(-7);
  i32.add_int32_data(INT32_MAX);
  EXPECT_EQ(payload_of(i32).to_ints(), (std::vector<int64_t>{-7, INT32_MAX}));
  P i64 = tensor_proto(P::INT64, {2});
  i64.add_int64_data(INT64_MIN);
  i64.add_int64_data(5);
  EXPECT_EQ(payload_of(i64).to_ints(), (std::vector<int64_t>{INT64_MIN, 5}));
  P u32 = tensor_proto(P::UINT32, {1});
  u32.add_uint64_data(UINT32_MAX);
  EXPECT_EQ(payload_of(u32).to_ints(), (std::vector<int64_t>{UINT32_MAX}));
  P u64 = tensor_proto(P::UINT64, {1});
  u64.add_uint64_data(UINT64_MAX);
  EXPECT_EQ(payload_of(u64).data<uint64_t>()[0], UINT64_MAX);
  P f64 = tensor_proto(P::DOUBLE, {2});
  f64.add_double_data(0.1);
  f64.add_double_data(-3);
  EXPECT_EQ(payload_of(f64).to_doubles(), (std::vector<double>{0.1, -3}));
  P flag = tensor_proto(P::BOOL, {2});
  flag.add_int32_data(0);
  flag.add_int32_data(1);
  EXPECT_EQ(payload_of(flag).to_ints(), (std::vector<int64_t>{0, 1}));
  P text = tensor_proto(P::STRING, {2});
  text.add_string_data("a");
  text.add_string_data("");
  EXPECT_EQ(payload_of(text).strings(), (std::vector<std::string>{"a", ""}));
  P complex = tensor_proto(P::COMPLEX64, {1});
  complex.add_float_data(1);
  complex.add_float_data(2);
  EXPECT_EQ(payload_of(complex).bytes().size(), 8u);
}

TEST(Payload, unpacked_fields_in_several_pieces_are_joined_in_order) {
  std::string tensor("\x08\x03\x10\x01", 4);  // dims [3], float
  const auto packed = [&](const std::vector<float>& v) {
    wire::append_bytes(tensor, 4, floats(v));
  };
  packed({1});
  wire::append_tag(tensor, 4, wire::Type::kFixed32);
  tensor += floats({2});
  packed({3});
  std::string graph, model("\x08\x08", 2);
  wire::append_bytes(graph, 5, tensor);
  wire::append_bytes(model, 7, graph);
  const auto opened = Model::from_bytes(model);
  const Tensor value = opened->payload(opened->skeleton().graph().initializer(0));
  EXPECT_EQ(value.to_doubles(), (std::vector<double>{1, 2, 3}));
}

TEST(Payload, raw_bool_bytes_become_zero_or_one) {
  onnx::TensorProto tensor = tensor_proto(onnx::TensorProto::BOOL, {3});
  tensor.set_raw_data(std::string("\x00\x02\x01", 3));
  EXPECT_EQ(payload_of(tensor).to_ints(), (std::vector<int64_t>{0, 1, 1}));
}

TEST(Payload, faults_name_the_tensor_with_found_and_expected) {
  using P = onnx::TensorProto;
  const auto error = [](const P& tensor) { return error_of([&] { payload_of(tensor); }); };
  P tensor = tensor_proto(P::FLOAT, {2, 2});
  EXPECT_EQ(error(tensor), "tensor 'w': no data; shape [2,2] needs 4 values");
  tensor.set_raw_data("abc");
  EXPECT_EQ(
      error(tensor),
      "tensor 'w': raw_data holds 3 bytes, but shape [2,2] of float needs 4 values of 4 bytes");
  tensor.add_float_data(1);
  EXPECT_EQ(error(tensor),
            "tensor 'w': has values in both float_data and raw_data; only one may be used");
  P wrong = tensor_proto(P::DOUBLE, {1});
  wrong.add_float_data(1);
  EXPECT_EQ(error(wrong),
            "tensor 'w': double values stand in float_data, expected raw_data or double_data");
  P wide = tensor_proto(P::INT8, {1});
  wide.add_int32_data(256);
  EXPECT_EQ(error(wide), "tensor 'w': the value 256 in int32_data doesn't fit 8 bits");
  P negative = tensor_proto(P::FLOAT, {2, -1});
  EXPECT_EQ(error(negative), "tensor 'w': shape [2,-1] has a negative entry");
}

TEST(ExternalData, is_read_below_the_folder_only) {
  const TemporaryFolder root;
  const fs::path folder = root.path() / "model";
  fs::create_directories(folder / "sub");
  write_file(folder / "sub" / "model..v2.bin", "1234" + floats({1, 2, 3}));
  write_file(root.path() / "secret.bin", floats({7, 7, 7}));
  fs::create_symlink("sub/model..v2.bin", folder / "inside.bin");
  fs::create_symlink("../secret.bin", folder / "outside.bin");

  const auto value = [&](onnx::TensorProto tensor, const char* offset) {
    add_entry(tensor, "offset", offset);
    return payload_of(tensor, folder).to_doubles();
  };
  const std::vector<double> expected{1, 2, 3};
  EXPECT_EQ(value(external_proto("sub/model..v2.bin"), "4"), expected);
  EXPECT_EQ(value(external_proto("./sub/../sub/model..v2.bin"), "4"), expected);
  EXPECT_EQ(value(external_proto("inside.bin"), "4"), expected);

  const auto error = [&](const std::string& location) {
    return error_of([&] { payload_of(external_proto(location), folder); });
  };
  EXPECT_NE(error("../secret.bin").find("leads outside the model's folder"), std::string::npos);
  EXPECT_NE(error("sub/../../secret.bin").find("leads outside the model's folder"),
            std::string::npos);
  EXPECT_NE(error((root.path() / "secret.bin").string()).find("is an absolute path"),
            std::string::npos);
  EXPECT_NE(error("outside.bin").find("is a link that leads outside"), std::string::npos);
  EXPECT_NE(error("sub").find("is a directory"), std::string::npos);
  EXPECT_NE(error("gone.bin").find("does not exist"), std::string::npos);
  EXPECT_EQ(error(""), "tensor 'w': is external data without a location");
}

TEST(ExternalData, ranges_are_checked) {
  const TemporaryFolder folder;
  write_file(folder.path() / "w.bin", floats({1, 2, 3}));
  const auto error = [&](const std::string& key, const std::string& value) {
    onnx::TensorProto tensor = external_proto("w.bin");
    add_entry(tensor, key, value);
    return error_of([&] { payload_of(tensor, folder.path()); });
  };
  EXPECT_EQ(error("length", "12"), "no error");
  EXPECT_EQ(error("checksum", "0123"), "no error");
  EXPECT_EQ(
      error("length", "8"),
      "tensor 'w': external data in 'w.bin' has length 8, but shape [3] of float needs 12 bytes");
  EXPECT_EQ(
      error("offset", "4"),
      "tensor 'w': needs 12 bytes at offset 4 of external data file 'w.bin', which holds 12 bytes");
  for (const char* bad : {"-4", "abc", "1x", "", "0x10", "18446744073709551616"}) {
    EXPECT_NE(error("offset", bad).find("expected a number from 0 to 2^64-1"), std::string::npos)
        << bad;
  }
  EXPECT_EQ(
      error("offset", "18446744073709551615"),
      "tensor 'w': external data in 'w.bin': offset 18446744073709551615 plus 12 bytes overflows");
}

}  // namespace
}  // namespace sardonyx::graph
