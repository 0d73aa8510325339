#include "tests/run_cases/kit.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/type.h"

namespace sardonyx::cases {

using graph::Tensor;
using nlohmann::json;

runtime::SessionOptions plain_options(const Task& task) {
  runtime::SessionOptions options;
  const Variant& variant = task.variant;
  options.threads = variant.threads;
  options.devices = {variant.device};
  options.pipeline.dtype = variant.dtype == "f64" ? graph::DType::kFloat64 : graph::DType::kFloat32;
  options.pipeline.block = variant.block;
  options.pipeline.lanes = variant.lanes;
  options.pipeline.reference_only = variant.reference;
  return options;
}

namespace {

void set_loss(passes::LossOptions& loss, const json& spec) {
  const std::string type = spec.at("type");
  const std::string output = spec.value("output", "");
  if (type == "softmax_cross_entropy") {
    loss.kind = "cross_entropy";
    loss.output = output;
  } else if (type != "in_graph_mean") {
    loss.kind = type;
    loss.output = output;
  } else {
    loss.loss_output = output;
  }
  loss.mean = spec.value("reduction", "mean") == "mean";
  if (spec.contains("ignore_index")) loss.ignore_index = spec["ignore_index"].get<int64_t>();
}

void set_optimizer(passes::OptimizerOptions& optimizer, const json& spec) {
  optimizer.kind = spec.value("type", "sgd");
  optimizer.momentum = spec.value("momentum", 0.0);
  optimizer.dampening = spec.value("dampening", 0.0);
  optimizer.nesterov = spec.value("nesterov", false);
  optimizer.weight_decay = spec.value("weight_decay", 0.0);
}

}  // namespace

void describe(runtime::SessionOptions& options, const runtime::Batch& batch) {
  for (const auto& [name, tensor] : batch.inputs) {
    if (tensor.rank() == 0) continue;
    options.pipeline.sample_shapes[name] = {tensor.shape().begin() + 1, tensor.shape().end()};
  }
  if (batch.labels.defined()) options.pipeline.loss.labels = batch.labels.type();
}

runtime::SessionOptions training_options(const Task& task, const runtime::Batch& batch) {
  runtime::SessionOptions options = plain_options(task);
  if (task.spec.contains("loss")) set_loss(options.pipeline.loss, task.spec["loss"]);
  if (task.spec.contains("optimizer")) {
    set_optimizer(options.pipeline.optimizer, task.spec["optimizer"]);
  }
  if (task.spec.contains("trainable")) {
    options.pipeline.trainable.exactly = task.spec["trainable"].get<std::vector<std::string>>();
  } else if (task.spec.contains("option")) {
    options.pipeline.trainable.freeze =
        task.spec["option"].value("freeze", std::vector<std::string>());
  }
  describe(options, batch);
  return options;
}

passes::Mode mode_of(const json& spec) {
  return spec.value("mode", "eval") == "train" ? passes::Mode::kTrain : passes::Mode::kEval;
}

NamedTensors read_list(const Task& task, const json& list) {
  NamedTensors tensors;
  for (const json& entry : list) {
    const std::string name = entry.contains("name") ? entry["name"] : entry.at("output");
    tensors.emplace_back(name, read_tensor(task.file(entry.at("file"))));
  }
  return tensors;
}

runtime::Batch read_batch(const Task& task) {
  runtime::Batch batch;
  if (task.spec.contains("inputs")) batch.inputs = read_list(task, task.spec["inputs"]);
  if (!task.spec.contains("labels")) return batch;
  Tensor labels = read_tensor(task.file(task.spec["labels"]));
  const json loss = task.spec.value("loss", json::object());
  if (loss.contains("label_input")) {
    batch.inputs.emplace_back(loss["label_input"], std::move(labels));
  } else {
    batch.labels = std::move(labels);
  }
  return batch;
}

runtime::Batch rows_of(const runtime::Batch& batch, int64_t begin, int64_t count) {
  runtime::Batch part;
  for (const auto& [name, tensor] : batch.inputs) {
    part.inputs.emplace_back(name, test::rows_of(tensor, begin, begin + count));
  }
  if (batch.labels.defined()) part.labels = test::rows_of(batch.labels, begin, begin + count);
  return part;
}

int64_t rows_for(const runtime::Session& session, int64_t otherwise) {
  for (const graph::Value* input : session.data_inputs()) {
    if (!input->type.ranked || input->type.dims.empty()) continue;
    return input->type.dims[0].known() ? input->type.dims[0].value : otherwise;
  }
  return otherwise;
}

test::Tolerance tolerance_of(const json& spec) {
  const json& tolerance = spec.at("tolerance");
  return {tolerance.at("rtol").get<double>(), tolerance.at("atol").get<double>()};
}

const Tensor& find_named(const NamedTensors& tensors, const std::string& name, const char* what) {
  const auto it = std::find_if(tensors.begin(), tensors.end(),
                               [&](const auto& tensor) { return tensor.first == name; });
  if (it == tensors.end()) throw Mismatch("there is no {} '{}'", what, name);
  return it->second;
}

std::string compare(const NamedTensors& got, const NamedTensors& want, test::Tolerance tolerance,
                    const char* what, Types types) {
  for (const auto& [name, expected] : want) {
    const Tensor& found = find_named(got, name, what);
    if (types == Types::kEqual && found.dtype() != expected.dtype()) {
      return fmt::format("{} '{}' is of type {}, expected {}", what, name,
                         graph::dtype_name(found.dtype()), graph::dtype_name(expected.dtype()));
    }
    if (const auto difference = test::difference(found, expected, tolerance)) {
      return fmt::format("{} '{}': {}", what, name, *difference);
    }
  }
  return "";
}

}  // namespace sardonyx::cases
