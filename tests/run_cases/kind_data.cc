// data: arrays equal in value, or an error that says what is wrong with the file.
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/data/cifar.h"
#include "runtime/data/fit.h"
#include "runtime/data/idx.h"
#include "runtime/data/labels.h"
#include "runtime/data/npy.h"
#include "tests/run_cases/kit.h"

namespace sardonyx::cases {

using graph::Tensor;
using nlohmann::json;

namespace {

// The batch axis stays, the rest becomes what the model takes.
Tensor fitted(const Tensor& array, const json& model_input) {
  std::vector<graph::Dim> dims;
  for (const json& dim : model_input) {
    dims.push_back(dim.is_string() ? graph::Dim::named(dim) : graph::Dim(dim.get<int64_t>()));
  }
  runtime::DatasetInfo info;
  info.size = array.shape().at(0);
  info.sample = {array.dtype(), {array.shape().begin() + 1, array.shape().end()}};
  std::vector<int64_t> shape =
      runtime::fit_sample(info, {"x", graph::TensorType(graph::DType::kFloat32, dims)}).shape;
  shape.insert(shape.begin(), info.size);
  return array.reshaped(shape);
}

NamedTensors read_arrays(const Task& task) {
  const json& reader = task.spec.at("reader");
  const std::string format = reader.at("format");
  if (format == "idx") {
    const runtime::Arrays arrays = runtime::read_idx_pair(task.file(reader.at("images")).string(),
                                                          task.file(reader.at("labels")).string());
    return {{"images", arrays.samples}, {"labels", arrays.labels}};
  }
  std::vector<std::string> files;
  for (const json& name : reader.at("files")) files.push_back(task.file(name).string());
  if (format == "cifar10" || format == "cifar100") {
    const runtime::Arrays arrays =
        format == "cifar10" ? runtime::read_cifar10(files) : runtime::read_cifar100(files);
    return {{"images", arrays.samples},
            {"labels", arrays.labels},
            {"coarse_labels", arrays.coarse_labels}};
  }
  NamedTensors result;
  if (format == "npz") {
    for (const runtime::NamedArray& array : runtime::read_npz(files.at(0))) {
      result.emplace_back(array.name, array.array);
    }
    return result;
  }
  if (format != "npy") throw Mismatch("run_cases knows no format '{}'", format);
  Tensor array = runtime::read_npy(files.at(0));
  if (task.spec.value("option", json::object()).value("check_finite", false)) {
    runtime::check_finite(array, graph::DType::kFloat32, files[0]);
  }
  if (reader.contains("model_input")) array = fitted(array, reader["model_input"]);
  return {{"x", array}};
}

}  // namespace

void run_data(Task& task) {
  const bool wants_error = task.spec.at("expect") == "error";
  NamedTensors got;
  try {
    got = read_arrays(task);
  } catch (const Error& error) {
    if (!wants_error && task.spec.value("accept_outcome", "") != "error") throw;
    if (!wants_error) {
      task.notes.push_back(fmt::format("refused: {}", error.what()));
      return;
    }
    const std::string missing = missing_words(error.what(), task.spec.at("must_mention"));
    if (!missing.empty()) throw Mismatch("the message lacks {}: {}", missing, error.what());
    return;
  }
  if (wants_error) throw Mismatch("no error");
  const NamedTensors want = read_list(task, task.spec.at("arrays"));
  const std::string difference = compare(got, want, {0, 0}, "array", Types::kAny);
  if (!difference.empty()) throw Mismatch("{}", difference);
}

}  // namespace sardonyx::cases
