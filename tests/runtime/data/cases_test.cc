// The shared IDX, CIFAR and NPY cases: arrays equal in value, or an error with the asked words.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graph/support/error.h"
#include "runtime/data/cifar.h"
#include "runtime/data/fit.h"
#include "runtime/data/idx.h"
#include "runtime/data/labels.h"
#include "runtime/data/npy.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

namespace fs = std::filesystem;
using graph::DType;
using graph::Tensor;
using nlohmann::json;

Tensor read_proto(const fs::path& path) {
  onnx::TensorProto proto;
  CHECK(proto.ParseFromString(testing::read_file(path)));
  Tensor tensor(static_cast<DType>(proto.data_type()), {proto.dims().begin(), proto.dims().end()});
  CHECK(proto.raw_data().size() == tensor.bytes().size());
  std::copy_n(reinterpret_cast<const std::byte*>(proto.raw_data().data()), proto.raw_data().size(),
              tensor.mutable_bytes().begin());
  return tensor;
}

// The batch axis stays, the rest as fit_sample says.
Tensor fitted(const Tensor& array, const json& model_input) {
  std::vector<graph::Dim> dims;
  for (const json& dim : model_input) {
    dims.push_back(dim.is_string() ? graph::Dim::named(dim) : graph::Dim(dim.get<int64_t>()));
  }
  DatasetInfo info;
  info.size = array.shape()[0];
  info.sample = {array.dtype(), {array.shape().begin() + 1, array.shape().end()}};
  Fit fit = fit_sample(info, {"x", graph::TensorType(DType::kFloat32, dims)});
  std::vector<int64_t> shape{info.size};
  shape.insert(shape.end(), fit.shape.begin(), fit.shape.end());
  return array.reshaped(shape);
}

std::map<std::string, Tensor> read_arrays(const fs::path& folder, const json& c) {
  const json& reader = c["reader"];
  std::string format = reader["format"];
  auto path = [&](const json& name) { return (folder / name.get<std::string>()).string(); };
  if (format == "idx") {
    Arrays arrays = read_idx_pair(path(reader["images"]), path(reader["labels"]));
    return {{"images", arrays.samples}, {"labels", arrays.labels}};
  }
  std::vector<std::string> files;
  for (const json& name : reader["files"]) files.push_back(path(name));
  if (format == "cifar10") {
    Arrays arrays = read_cifar10(files);
    return {{"images", arrays.samples}, {"labels", arrays.labels}};
  }
  if (format == "cifar100") {
    Arrays arrays = read_cifar100(files);
    return {{"images", arrays.samples},
            {"labels", arrays.labels},
            {"coarse_labels", arrays.coarse_labels}};
  }
  std::map<std::string, Tensor> result;
  if (format == "npz") {
    for (const NamedArray& array : read_npz(files[0])) result[array.name] = array.array;
    return result;
  }
  Tensor array = read_npy(files[0]);
  if (c.contains("option")) check_finite(array, DType::kFloat32, files[0]);
  if (reader.contains("model_input")) array = fitted(array, reader["model_input"]);
  result["x"] = array;
  return result;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

void expect_words(const std::string& message, const json& words) {
  for (const json& entry : words) {
    json options = entry.is_array() ? entry : json::array({entry});
    bool found = std::any_of(options.begin(), options.end(), [&](const json& word) {
      return lower(message).find(lower(word.get<std::string>())) != std::string::npos;
    });
    EXPECT_TRUE(found) << "\"" << message << "\" lacks " << entry.dump();
  }
}

void expect_arrays(const fs::path& folder, const json& c) {
  std::map<std::string, Tensor> arrays = read_arrays(folder, c);
  EXPECT_EQ(arrays.size(), c["arrays"].size());
  for (const json& want : c["arrays"]) {
    Tensor expected = read_proto(folder / want["file"].get<std::string>());
    const Tensor& found = arrays.at(want["name"]);
    EXPECT_EQ(found.shape(), expected.shape());
    EXPECT_EQ(found.dtype(), expected.dtype());
    EXPECT_TRUE(found.identical(expected)) << want["name"];
  }
}

void run_group(const std::string& prefix, size_t count) {
  std::vector<fs::path> cases = testing::shared_cases(prefix);
  if (cases.empty()) GTEST_SKIP() << "the shared cases are not there";
  EXPECT_EQ(cases.size(), count);
  for (const fs::path& folder : cases) {
    SCOPED_TRACE(folder.filename().string());
    json c = json::parse(testing::read_file(folder / "case.json"));
    if (c["expect"] == "arrays") {
      EXPECT_NO_THROW(expect_arrays(folder, c));
      continue;
    }
    try {
      read_arrays(folder, c);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      expect_words(error.what(), c["must_mention"]);
    }
  }
}

TEST(DataCases, idx_files_read_or_refused_as_the_cases_say) { run_group("IDX-", 21); }
TEST(DataCases, cifar_files_read_or_refused_as_the_cases_say) { run_group("CIFAR-", 8); }
TEST(DataCases, npy_files_read_or_refused_as_the_cases_say) { run_group("NPY-", 23); }

// The label cases need the classes of the model, three in all of them.
TEST(DataCases, labels_refused_as_the_cases_say) {
  std::vector<fs::path> cases = testing::shared_cases("LAB-0");
  if (cases.empty()) GTEST_SKIP() << "the shared cases are not there";
  for (const fs::path& folder : cases) {
    std::string id = folder.filename().string().substr(0, 6);
    if (id > "LAB-06") break;
    SCOPED_TRACE(folder.filename().string());
    json c = json::parse(testing::read_file(folder / "case.json"));
    int64_t samples = read_proto(folder / "input_0.pb").shape()[0];
    Tensor labels = read_proto(folder / "labels.pb");
    try {
      check_class_labels(labels, {samples, {}, id == "LAB-02" ? 4 : 3, std::nullopt}, "labels");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      expect_words(error.what(), c["must_mention"]);
    }
  }
}

}  // namespace
}  // namespace sardonyx::runtime
