// The format byte by byte, and files that someone broke or made up.
#include "runtime/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "graph/support/error.h"
#include "runtime/json_name.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"
#include "tests/support/tensors.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;
using sardonyx::testing::error_of;

std::string written(const NamedTensors& tensors,
                    const std::map<std::string, std::string>& metadata = {}) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : tensors) {
    infos.push_back({name, tensor.dtype(), tensor.shape()});
  }
  std::string bytes;
  write_safetensors(
      infos, metadata, [&](size_t i) { return tensors[i].second; },
      [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

std::string with_header(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

Safetensors parse(const std::string& bytes) {
  const auto kept = std::make_shared<std::string>(bytes);
  return parse_safetensors(std::as_bytes(std::span(*kept)), kept);
}

std::string error_from(const std::string& bytes) {
  return error_of([&] { parse(bytes); });
}

TEST(Safetensors, header_is_padded_json_and_data_follow_without_gaps) {
  const std::string bytes = written(
      {{"a", Tensor::of<uint8_t>({3}, {1, 2, 3})}, {"w", Tensor::of<float>({1, 2}, {1, 2})}});
  const std::string header = R"({"a":{"data_offsets":[8,11],"dtype":"U8","shape":[3]},)"
                             R"("w":{"data_offsets":[0,8],"dtype":"F32","shape":[1,2]}})";
  ASSERT_EQ(header.size(), 109u);
  std::string data(11, '\0');
  const float values[] = {1, 2};
  std::memcpy(data.data(), values, 8);
  data[8] = 1, data[9] = 2, data[10] = 3;
  EXPECT_EQ(bytes, with_header(header + std::string(3, ' '), data));
}

TEST(Safetensors, every_type_comes_back_with_its_bits) {
  NamedTensors tensors;
  for (const DType dtype :
       {DType::kBool, DType::kFloat64, DType::kFloat32, DType::kFloat16, DType::kBFloat16,
        DType::kInt64, DType::kInt32, DType::kInt16, DType::kInt8, DType::kUint64, DType::kUint32,
        DType::kUint16, DType::kUint8}) {
    Tensor tensor(dtype, {2, 3});
    auto bytes = tensor.mutable_bytes();
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(dtype == DType::kBool ? i % 2 : i * 37 + 200);
    }
    tensors.emplace_back(std::string(graph::dtype_name(dtype)), tensor);
  }
  tensors.emplace_back("scalar", Tensor::scalar<double>(0.1));
  tensors.emplace_back("empty", Tensor(DType::kFloat32, {0, 7}));
  const Safetensors read = parse(written(tensors, {{"key", "value"}}));
  EXPECT_EQ(read.metadata.at("key"), "value");
  ASSERT_EQ(read.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    bool found = false;
    for (const auto& [other, value] : read.tensors) {
      if (name == other) found = value.identical(tensor);
    }
    EXPECT_TRUE(found) << name;
  }
}

TEST(Safetensors, names_may_be_any_bytes) {
  const std::vector<std::string> names = {
      "conv1.weight", "a/b:0",  "größe",        "\"quoted\\\"\n", std::string("nul\0x", 5),
      "\xff\xfe",     "hex:41", "__metadata__", "hex:",           ""};
  NamedTensors tensors;
  for (const std::string& name : names) tensors.emplace_back(name, Tensor::scalar<float>(1));
  const Safetensors read = parse(written(tensors));
  ASSERT_EQ(read.tensors.size(), names.size());
  std::set<std::string> got;
  for (const auto& [name, tensor] : read.tensors) got.insert(name);
  EXPECT_EQ(got, std::set<std::string>(names.begin(), names.end()));
  EXPECT_EQ(to_json_name("größe"), "größe");
  EXPECT_EQ(to_json_name("\xff\xfe"), "hex:fffe");
  EXPECT_EQ(error_of([] { from_json_name("hex:4"); }),
            "the name 'hex:4' has no bytes in hexadecimal behind 'hex:'");
}

TEST(Safetensors, a_file_cut_short_anywhere_is_refused) {
  const std::string bytes = written({{"w", Tensor::of<float>({2}, {1, 2})}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(error_from(bytes.substr(0, size)), "") << size;
  }
  EXPECT_EQ(error_from(bytes.substr(0, 5)),
            "it is cut short: 5 bytes, a safetensors file has at least 10");
  EXPECT_EQ(error_from(bytes.substr(0, 20)),
            "it is cut short: the header has 56 bytes, 12 are there");
  EXPECT_EQ(error_from(bytes.substr(0, bytes.size() - 1)),
            "its data end at byte 8, the file has 7 bytes of data\n  while reading tensor 'w'");
  EXPECT_EQ(error_from(bytes + "x"), "bytes 8 to 9 of the data belong to no tensor");
}

TEST(Safetensors, hostile_headers_are_refused_with_a_reason) {
  std::string huge(16, '\xff');
  EXPECT_EQ(error_from(huge),
            "its header claims to have 18446744073709551615 bytes, at most 100000000 are allowed: "
            "is it a safetensors file?");
  EXPECT_EQ(error_from(with_header("[]")), "its header doesn't begin with '{'");
  EXPECT_EQ(error_from(with_header("{\"a\":")), "its header is not JSON (byte 6)");
  EXPECT_EQ(error_from(with_header("{\"\xff\":1}")), "its header is not JSON (byte 3)");
  EXPECT_EQ(error_from(with_header("{\"a\":" + std::string(100000, '[') + "}")),
            "its header is nested too deeply");
  const std::string entry = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(error_from(with_header("{\"a\":" + entry + ",\"a\":" + entry + "}", "1234")),
            "its header names 'a' twice");
  EXPECT_EQ(error_from(with_header("{\"a\":" + entry + ",\"hex:61\":" +
                                       R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                                   "12345678")),
            "its name is there twice, once as 'hex:'\n  while reading tensor 'hex:61'");
}

struct Wrong {
  std::string entry, error;
};

TEST(Safetensors, entries_that_do_not_fit_their_data_are_refused) {
  const std::string kShape = "its entry is not exactly a dtype, a shape and data_offsets";
  const std::vector<Wrong> wrong = {
      {"7", kShape},
      {R"({"dtype":"F32","shape":[1]})", kShape},
      {R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1})", kShape},
      {R"({"dtype":1,"shape":[1],"data_offsets":[0,4]})", kShape},
      {R"({"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]})",
       "element type 'F8_E4M3' is not known; there is BOOL, F64, F32, F16, BF16, I64, I32, I16, "
       "I8, U64, U32, U16, U8"},
      {R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})",
       "its shape is no list of whole numbers from 0"},
      {R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})",
       "its shape is no list of whole numbers from 0"},
      {R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})",
       "its shape is no list of whole numbers from 0"},
      {R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]})",
       "its shape is no list of whole numbers from 0"},
      {R"({"dtype":"F32","shape":[4611686018427387904,4611686018427387904],"data_offsets":[0,4]})",
       "F32[4611686018427387904,4611686018427387904] takes too many bytes, its data are 4"},
      {R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})",
       "F32[2] takes 8 bytes, its data are 4"},
      {R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})",
       "its data_offsets are no begin and end"},
      {R"({"dtype":"F32","shape":[1],"data_offsets":[0]})",
       "its data_offsets are no begin and end"},
      {R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})",
       "its data end at byte 8, the file has 4 bytes of data"},
  };
  for (const Wrong& one : wrong) {
    EXPECT_EQ(error_from(with_header("{\"w\":" + one.entry + "}", "1234")),
              one.error + "\n  while reading tensor 'w'")
        << one.entry;
  }
}

TEST(Safetensors, data_overlap_nowhere_and_have_no_gaps) {
  const auto two = [](const char* offsets) {
    return with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"F32","shape":[1],"data_offsets":)" +
                           std::string(offsets) + "}}",
                       "123456789012");
  };
  EXPECT_EQ(error_from(two("[2,6]")),
            "tensor 'b' begins at byte 2 of the data, inside the one before it");
  EXPECT_EQ(error_from(two("[8,12]")), "bytes 4 to 8 of the data belong to no tensor");
  EXPECT_EQ(error_from(two("[4,8]")), "bytes 8 to 12 of the data belong to no tensor");
}

TEST(Safetensors, files_are_read_by_path_and_errors_name_it) {
  const sardonyx::testing::TemporaryFolder folder;
  const auto path = folder.path() / "state.safetensors";
  std::ofstream(path, std::ios::binary) << written({{"w", Tensor::scalar<int64_t>(7)}});
  EXPECT_EQ(read_safetensors(path).tensors[0].second.as_int(0), 7);
  std::ofstream(path, std::ios::binary) << "text";
  EXPECT_EQ(error_of([&] { read_safetensors(path); }),
            "it is cut short: 4 bytes, a safetensors file has at least 10\n  while reading " +
                path.string());
}

}  // namespace
}  // namespace sardonyx::runtime
