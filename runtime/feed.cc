#include "runtime/feed.h"

#include <algorithm>

#include "graph/support/error.h"
#include "graph/support/log.h"
#include "graph/support/text.h"
#include "passes/weight_inputs.h"
#include "runtime/data/adapt.h"
#include "runtime/data/labels.h"
#include "runtime/data/open.h"
#include "runtime/text.h"
#include "runtime/usage.h"

namespace sardonyx::runtime {

using graph::DType;
using graph::TensorType;

namespace {

constexpr size_t kShownNames = 6;

int64_t rows_of(const TensorType& type) {
  return type.ranked && !type.dims.empty() && type.dims[0].known() ? type.dims[0].value : -1;
}

}  // namespace

int64_t Feed::baked_rows() const { return rows_of(type); }

int64_t baked_rows(const Session& session) {
  if (session.options().pipeline.set_batch || session.data_inputs().empty()) return -1;
  return rows_of(session.data_inputs()[0]->type);
}

namespace {

std::string list_inputs(const Session& session) {
  std::string text;
  for (const graph::Value* input : session.data_inputs()) {
    text += fmt::format("\n  {}  {}", input->name, input->type.str());
  }
  return text;
}

// Of a file that was exported without its weights.
std::string missing_weights(const Session& session) {
  std::vector<std::string> names;
  for (const graph::Value* input : passes::weight_inputs(session.imported())) {
    if (names.size() == kShownNames) {
      names.emplace_back("...");
      break;
    }
    names.push_back(support::in_quotes(input->name));
  }
  if (names.empty()) return "";
  return fmt::format(
      "\n  weights without values: {}; --init pytorch, kaiming, xavier or normal:STD gives them "
      "some, or export the model with its weights",
      join(names));
}

std::vector<int64_t> sizes(const TensorType& type, size_t first_axis) {
  std::vector<int64_t> shape;
  for (size_t i = first_axis; i < type.dims.size(); ++i) shape.push_back(type.dims[i].value);
  return shape;
}

bool takes_classes(const Flags& flags) { return passes::takes_classes(flags.loss); }

// Axes of one sample's labels: those of the scores behind the batch, without the classes.
std::vector<int64_t> label_shape(const Flags& flags, const TensorType& scores) {
  return sizes(scores, takes_classes(flags) ? 2 : 1);
}

SyntheticTask synthetic_task(Session& session, const Feed& feed, const Flags& flags, int64_t rows,
                             passes::Mode mode) {
  SyntheticTask task;
  task.seed = flags.seed;
  task.sample_shape = sizes(feed.type, 1);
  for (const int64_t size : task.sample_shape) {
    if (size >= 0) continue;
    throw Error("--data synthetic needs an input of known size, but '{}' has type {}", feed.input,
                feed.type.str());
  }
  if (!feed.labels_input.empty()) {
    task.label = {feed.labels.dtype, sizes(feed.labels, 1)};
    return task;
  }
  const Examination found = session.examine(rows, mode);
  if (!found.error.empty()) throw Error(found.error);
  task.label = {takes_classes(flags) ? DType::kInt64 : DType::kFloat32,
                label_shape(flags, found.scores)};
  if (takes_classes(flags)) task.classes = found.scores.dims[1].value;
  return task;
}

// What pictures become: the axis of 1 or 3 is the channels, the first one where both are.
ImageSize image_size(const Feed& feed) {
  const std::vector<int64_t> s = feed.type.ranked ? sizes(feed.type, 1) : std::vector<int64_t>();
  const bool known = std::all_of(s.begin(), s.end(), [](int64_t size) { return size > 0; });
  const auto is_channels = [](int64_t size) { return size == 1 || size == 3; };
  if (known && s.size() == 3 && is_channels(s[0])) return {s[0], s[1], s[2]};
  if (known && s.size() == 3 && is_channels(s[2])) return {s[2], s[0], s[1]};
  if (known && s.size() == 2) return {1, s[0], s[1]};
  throw Error(
      "--data folder needs an input for images of known size, [N,C,H,W] or [N,H,W,C] with 1 or 3 "
      "channels, but '{}' has type {}",
      feed.input, feed.type.str());
}

// A class number per sample may come as a column.
RowType wanted_label(const Flags& flags, const RowType& stored) {
  RowType wanted{takes_classes(flags) ? DType::kInt64 : DType::kFloat32, stored.shape};
  if (takes_classes(flags) && wanted.shape == std::vector<int64_t>{1}) wanted.shape.clear();
  return wanted;
}

struct Source {
  const Feed& feed;
  const Flags& flags;
  DataUse use;
  OpenOptions options;

  std::shared_ptr<const Dataset> open(Split split) const {
    auto data = open_dataset(flags.data, split, options);
    if (data == nullptr) return nullptr;
    if (split == Split::kTrain && augment_options(flags).any() && use == DataUse::kTraining) {
      data = augment(std::move(data), augment_options(flags), flags.seed);
    }
    AdaptOptions adapt_to = adapt_options(flags);
    if (feed.labels_input.empty()) {
      adapt_to.label = wanted_label(flags, data->info().label);
    } else {
      adapt_to.label = RowType{feed.labels.dtype, data->info().label.shape};
    }
    return adapt(std::move(data), {feed.input, feed.type}, adapt_to);
  }
};

void check_labels(const Dataset& data, const Feed& feed, const Flags& flags,
                  const TensorType& scores) {
  if (!feed.labels_input.empty()) return;
  if (takes_classes(flags)) {
    check_class_labels(data, label_shape(flags, scores), scores.dims[1].value, flags.ignore_index);
  } else if (const graph::Tensor* labels = data.labels()) {
    check_targets(*labels, data.size(), data.info().label.shape, data.info().name);
    if (flags.loss == "bce_with_logits") check_shares(*labels, data.info().name);
  }
}

}  // namespace

Feed find_feed(const Session& session, const Flags& flags) {
  std::vector<const graph::Value*> samples, labels;
  const auto& inputs = session.data_inputs();
  for (const graph::Value* input : inputs) {
    const bool fed_labels = !flags.loss_output.empty() && inputs.size() == 2 &&
                            (!graph::is_floating(input->type.dtype) || input->type.rank() < 2);
    (fed_labels ? labels : samples).push_back(input);
  }
  if (samples.size() != 1 || labels.size() > 1) {
    std::string advice = missing_weights(session);
    if (advice.empty() && !inputs.empty()) {
      advice =
          "\n  only one can be fed: make the others constants of the model, or export it with one "
          "input that it takes apart (docs/data.md)";
    }
    throw Error("a data set feeds one input with samples, but the model has {} inputs{}{}{}",
                inputs.size(), inputs.empty() ? "" : ":", list_inputs(session), advice);
  }
  Feed feed{samples[0]->name, samples[0]->type, "", {}};
  const bool any_batch = session.options().pipeline.set_batch;
  if (any_batch && feed.type.ranked && !feed.type.dims.empty()) feed.type.dims[0] = graph::Dim();
  if (!labels.empty()) {
    feed.labels_input = labels[0]->name;
    feed.labels = labels[0]->type;
  }
  return feed;
}

FedData open_data(Session& session, const Feed& feed, const Flags& flags, int64_t rows,
                  DataUse use) {
  if (flags.data.empty()) {
    throw UsageError(
        "--data is missing: fashion-mnist, mnist, cifar10, cifar100, idx:DIR, npz:FILE, "
        "folder:DIR or synthetic[:N]");
  }
  const passes::Mode mode = use == DataUse::kTraining ? passes::Mode::kTrain : passes::Mode::kEval;
  Source source{feed, flags, use, {}};
  source.options.data_dir = flags.data_dir;
  source.options.axes = flags.data_axes;
  if (flags.data.starts_with("synthetic")) {
    source.options.synthetic = synthetic_task(session, feed, flags, rows, mode);
  }
  if (flags.data.starts_with("folder:")) source.options.images = image_size(feed);
  FedData data;
  data.name = flags.data;
  if (use != DataUse::kEvaluateTest) data.train = source.open(Split::kTrain);
  if (use != DataUse::kEvaluateTrain) data.test = source.open(Split::kTest);
  if (use == DataUse::kEvaluateTest && data.test == nullptr) {
    data.train = source.open(Split::kTrain);
    support::notice("{} has no test part; evaluated is the part it has, {} samples", flags.data,
                    data.train->size());
  }
  const Dataset* any = data.train != nullptr ? data.train.get() : data.test.get();
  CHECK(any != nullptr, "every source has a training part");
  TensorType labels;
  if (feed.labels_input.empty()) {
    std::vector<graph::Dim> dims = graph::to_dims(any->info().label.shape);
    dims.insert(dims.begin(), graph::Dim::named("batch"));
    labels = TensorType(any->info().label.dtype, std::move(dims));
  }
  session.describe_data({{feed.input, any->info().sample.shape}}, labels);
  for (const std::string& note : any->info().notes) support::notice("{}", note);
  const Examination found = session.examine(rows, mode);
  if (!found.error.empty()) throw Error(found.error);
  for (const auto& part : {data.train, data.test}) {
    if (part != nullptr) check_labels(*part, feed, flags, found.scores);
  }
  for (const passes::ParameterRow& row : found.parameters) {
    if (row.role == passes::ParameterRow::Role::kTrainable) data.parameters += row.type.numel();
  }
  return data;
}

const char* sample_word(const Dataset& data) {
  const DatasetInfo& info = data.info();
  const bool images = info.axes != ImageAxes::kUnknown || info.sample.shape.size() == 3;
  return images ? "images" : "samples";
}

Batch session_batch(const Feed& feed, const Dataset& dataset, const LoadedBatch& loaded) {
  const auto borrow = [&](const RowType& row, std::span<const std::byte> bytes) {
    std::vector<int64_t> shape = row.shape;
    shape.insert(shape.begin(), loaded.slice.count);
    return graph::Tensor::borrow(row.dtype, std::move(shape), bytes, nullptr);
  };
  Batch batch;
  batch.inputs.emplace_back(feed.input, borrow(dataset.info().sample, loaded.samples));
  if (loaded.labels.empty()) return batch;
  graph::Tensor labels = borrow(dataset.info().label, loaded.labels);
  if (feed.labels_input.empty()) {
    batch.labels = std::move(labels);
  } else {
    batch.inputs.emplace_back(feed.labels_input, std::move(labels));
  }
  return batch;
}

}  // namespace sardonyx::runtime
