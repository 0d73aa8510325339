#include "runtime/feed.h"

#include <algorithm>
#include <array>
#include <map>

#include "graph/support/error.h"
#include "graph/support/log.h"
#include "graph/support/text.h"
#include "ops/core/op.h"
#include "passes/weight_inputs.h"
#include "runtime/class_names.h"
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

int64_t Feed::baked_rows() const { return rows_of(first().type); }

int64_t rows_in_file(const Session& session) {
  return session.data_inputs().empty() ? -1 : rows_of(session.data_inputs()[0]->type);
}

int64_t baked_rows(const Session& session) {
  return session.options().pipeline.set_batch ? -1 : rows_in_file(session);
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

// Through what only shows the numbers again.
constexpr int kLayers = 8;

// Classes that an operator tells apart which reads `labels`; 0: none is found.
int64_t classes_read_by(const graph::Value& labels, int layers) {
  for (const graph::Use& use : labels.uses()) {
    const ops::OpDef* op = ops::OpRegistry::get().find(*use.node);
    if (op == nullptr) continue;
    const graph::Value* scores = use.node->input(0);
    const bool checks = op->value_check.input == use.index && scores != nullptr;
    if (checks && scores->type.rank() >= 2 && scores->type.dims[1].known()) {
      return scores->type.dims[1].value;
    }
    const bool shows = op->view || !op->dtype_attributes.empty();
    if (!shows || use.index != 0 || layers == 0 || use.node->output(0) == nullptr) continue;
    const int64_t behind = classes_read_by(*use.node->output(0), layers - 1);
    if (behind > 0) return behind;
  }
  return 0;
}

std::vector<int64_t> synthetic_shape(const Feed::Input& input) {
  std::vector<int64_t> shape = sizes(input.type, 1);
  if (input.type.ranked && std::ranges::all_of(shape, [](int64_t size) { return size >= 0; })) {
    return shape;
  }
  throw Error("--data synthetic needs an input of known size, but '{}' has type {}", input.name,
              input.type.str());
}

// Beside others integers are token ids, masks and types of tokens, whose ranges nobody says: 0 and
// 1 are in all of them.
SyntheticTask::Values synthetic_values(const Feed& feed, const Feed::Input& input) {
  using enum SyntheticTask::Values;
  const bool several = feed.inputs.size() > 1 && graph::is_integer(input.type.dtype);
  return several || input.type.dtype == DType::kBool ? kBits : kPixels;
}

void set_synthetic_label(SyntheticTask& task, Session& session, const Feed& feed,
                         const Flags& flags, int64_t rows, passes::Mode mode) {
  task.label = {};
  if (!feed.wants_labels) return;
  const Examination found = session.examine(rows, mode);
  if (!feed.labels_input.empty()) {
    task.label = {feed.labels.dtype, sizes(feed.labels, 1)};
    const graph::Value* labels = found.graph->find(feed.labels_input);
    const int64_t classes = labels == nullptr ? 0 : classes_read_by(*labels, kLayers);
    task.classes = std::max<int64_t>(classes, 2);
    return;
  }
  if (!found.error.empty()) throw Error(found.error);
  task.label = {takes_classes(flags) ? DType::kInt64 : DType::kFloat32,
                label_shape(flags, found.scores)};
  if (takes_classes(flags)) task.classes = found.scores.dims[1].value;
}

void set_synthetic(OpenOptions& options, Session& session, const Feed& feed, const Flags& flags,
                   int64_t rows, passes::Mode mode) {
  for (const Feed::Input& input : feed.inputs) {
    const bool first = &input == &feed.first();
    if (!first) options.synthetic_companions.emplace_back();
    SyntheticTask& task = first ? options.synthetic : options.synthetic_companions.back();
    task.seed = flags.seed + options.synthetic_companions.size();
    task.sample_shape = synthetic_shape(input);
    task.values = synthetic_values(feed, input);
  }
  set_synthetic_label(options.synthetic, session, feed, flags, rows, mode);
  for (SyntheticTask& task : options.synthetic_companions) {
    task.label = {};
    task.classes = options.synthetic.classes;
  }
}

// What pictures become: the axis of 1 or 3 is the channels, the first one where both are.
ImageSize image_size(const Feed::Input& input) {
  const std::vector<int64_t> s = input.type.ranked ? sizes(input.type, 1) : std::vector<int64_t>();
  const bool known = std::all_of(s.begin(), s.end(), [](int64_t size) { return size > 0; });
  const auto is_channels = [](int64_t size) { return size == 1 || size == 3; };
  if (known && s.size() == 3 && is_channels(s[0])) return {s[0], s[1], s[2]};
  if (known && s.size() == 3 && is_channels(s[2])) return {s[2], s[0], s[1]};
  if (known && s.size() == 2) return {1, s[0], s[1]};
  throw Error(
      "--data folder needs an input for images of known size, [N,C,H,W] or [N,H,W,C] with 1 or 3 "
      "channels, but '{}' has type {}",
      input.name, input.type.str());
}

// A class number per sample may come as a column.
RowType wanted_label(const Flags& flags, const RowType& stored) {
  RowType wanted{takes_classes(flags) ? DType::kInt64 : DType::kFloat32, stored.shape};
  if (takes_classes(flags) && wanted.shape == std::vector<int64_t>{1}) wanted.shape.clear();
  return wanted;
}

// Arrays for several inputs were made for each of them.
void check_one_input(const Feed& feed, const Flags& flags) {
  const auto given = [](const std::string& text) { return !text.empty() && text != "none"; };
  for (const auto& [flag, value] :
       {std::pair{"--augment", flags.augment}, {"--normalize", flags.normalize}}) {
    if (feed.inputs.size() == 1 || !given(value)) continue;
    throw UsageError("{} is for models of one input, and this one has {}; prepare the arrays", flag,
                     feed.inputs.size());
  }
}

struct Source {
  const Feed& feed;
  const Flags& flags;
  DataUse use;
  OpenOptions options;

  std::shared_ptr<const Dataset> open(Split split) const {
    auto data = open_dataset(flags.data, split, options);
    if (data == nullptr) return nullptr;
    check_inputs(*data);
    const std::vector<Companion> stored(data->companions().begin(), data->companions().end());
    if (split == Split::kTrain && augment_options(flags).any() && use == DataUse::kTraining) {
      data = augment(std::move(data), augment_options(flags), flags.seed);
    }
    AdaptOptions adapt_to = adapt_options(flags);
    if (feed.wants_labels) adapt_to.label = label_of(data->info().label);
    data = adapt(std::move(data), {feed.first().name, feed.first().type}, adapt_to);
    if (stored.empty()) return data;
    std::vector<Companion> fitting;
    adapt_to.label.reset();
    for (size_t i = 0; i < stored.size(); ++i) {
      const auto& [name, type] = feed.inputs[i + 1];
      fitting.push_back({name, adapt(stored[i].data, {name, type}, adapt_to)});
    }
    return std::make_shared<JoinedDataset>(std::move(data), std::move(fitting));
  }

 private:
  RowType label_of(const RowType& stored) const {
    if (feed.labels_input.empty()) return wanted_label(flags, stored);
    return {feed.labels.dtype, stored.shape};
  }

  void check_inputs(const Dataset& data) const {
    if (data.companions().size() + 1 == feed.inputs.size()) return;
    std::vector<std::string> names;
    for (const Feed::Input& input : feed.inputs) names.push_back(support::in_quotes(input.name));
    throw Error(
        "--data {} has one array of samples, but the model has {} inputs: {}; give npz:FILE or "
        "npy:DIR with an array of each name",
        flags.data, names.size(), join(names));
  }
};

void check_labels(const Dataset& data, const Feed& feed, const Flags& flags,
                  const TensorType& scores, const std::vector<std::string>& names) {
  if (!feed.wants_labels || !feed.labels_input.empty()) return;
  if (takes_classes(flags)) {
    check_class_labels(
        data, {0, label_shape(flags, scores), scores.dims[1].value, flags.ignore_index, names});
  } else if (const graph::Tensor* labels = data.labels()) {
    check_targets(*labels, data.size(), data.info().label.shape, data.info().name);
    if (flags.loss == "bce_with_logits") check_shares(*labels, data.info().name);
  }
}

}  // namespace

namespace {

// The input that takes the labels of a loss inside the file: by its name, or, of two inputs, the
// one that looks like it. nullptr: none does.
const graph::Value* find_labels(const std::vector<graph::Value*>& inputs) {
  static constexpr std::array kNames = {"labels", "label", "targets", "target", "y", "Y"};
  std::vector<const graph::Value*> named, fitting;
  for (const graph::Value* input : inputs) {
    if (std::ranges::find(kNames, input->name) != kNames.end()) named.push_back(input);
    if (!graph::is_floating(input->type.dtype) || input->type.rank() < 2) fitting.push_back(input);
  }
  if (inputs.size() > 1 && named.size() == 1) return named[0];
  return inputs.size() == 2 && fitting.size() == 1 ? fitting[0] : nullptr;
}

[[noreturn]] void refuse_inputs(const Session& session, const std::string& advice) {
  const size_t count = session.data_inputs().size();
  throw Error("a data set feeds the model's inputs with samples, and the model has {}{}{}",
              count == 0 ? std::string("none") : fmt::format("{}:", count), list_inputs(session),
              advice);
}

// One number for all samples comes from no data set.
void check_batch_axes(const Session& session, const Feed& feed) {
  for (const auto& [name, type] : feed.inputs) {
    if (!type.ranked || !type.dims.empty()) continue;
    refuse_inputs(session,
                  fmt::format("\n  '{}' has no batch axis: make it a constant of the model", name));
  }
}

}  // namespace

Feed find_feed(const Session& session, const Flags& flags) {
  const auto& inputs = session.data_inputs();
  const std::string weights = missing_weights(session);
  if (inputs.empty() || !weights.empty()) refuse_inputs(session, weights);
  Feed feed;
  feed.wants_labels = flags.loss_output.empty();
  const graph::Value* labels = feed.wants_labels ? nullptr : find_labels(inputs);
  for (const graph::Value* input : inputs) {
    if (input != labels) feed.inputs.push_back({input->name, input->type});
  }
  check_batch_axes(session, feed);
  for (auto& [name, type] : feed.inputs) {
    const bool any_batch = session.options().pipeline.set_batch;
    if (any_batch && type.ranked) type.dims[0] = graph::Dim();
  }
  if (labels != nullptr) {
    feed.wants_labels = true;
    feed.labels_input = labels->name;
    feed.labels = labels->type;
  }
  return feed;
}

std::vector<std::string> names_of_classes(const Session& session, const Flags& flags,
                                          const TensorType& scores) {
  if (!flags.loss_output.empty() || !takes_classes(flags) || scores.rank() < 2) return {};
  return class_names(session.imported(), scores.dims[1].value);
}

FedData open_data(Session& session, const Feed& feed, const Flags& flags, int64_t rows,
                  DataUse use) {
  if (flags.data.empty()) {
    throw UsageError(
        "--data is missing: fashion-mnist, mnist, cifar10, cifar100, idx:DIR, npz:FILE, npy:DIR, "
        "folder:DIR or synthetic[:N]");
  }
  check_one_input(feed, flags);
  const passes::Mode mode = use == DataUse::kTraining ? passes::Mode::kTrain : passes::Mode::kEval;
  Source source{feed, flags, use, {}};
  source.options.data_dir = flags.data_dir;
  source.options.axes = flags.data_axes;
  source.options.labels = feed.wants_labels ? LabelUse::kNeeded : LabelUse::kNone;
  for (const Feed::Input& input : feed.inputs) source.options.inputs.push_back(input.name);
  if (flags.data.starts_with("synthetic")) {
    set_synthetic(source.options, session, feed, flags, rows, mode);
  }
  if (flags.data.starts_with("folder:")) source.options.images = image_size(feed.first());
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
  if (feed.wants_labels && feed.labels_input.empty()) {
    std::vector<graph::Dim> dims = graph::to_dims(any->info().label.shape);
    dims.insert(dims.begin(), graph::Dim::named("batch"));
    labels = TensorType(any->info().label.dtype, std::move(dims));
  }
  std::map<std::string, std::vector<int64_t>> shapes{{feed.first().name, any->info().sample.shape}};
  for (const Companion& other : any->companions()) {
    shapes.emplace(other.input, other.data->info().sample.shape);
  }
  if (!feed.labels_input.empty() && !feed.labels.is_static()) {
    shapes.emplace(feed.labels_input, any->info().label.shape);
  }
  session.describe_data(std::move(shapes), labels);
  for (const std::string& note : any->info().notes) support::notice("{}", note);
  const Examination found = session.examine(rows, mode);
  if (!found.error.empty()) throw Error(found.error);
  const std::vector<std::string> names = names_of_classes(session, flags, found.scores);
  if (!names.empty()) session.add_notices({"the model's classes: " + class_names_str(names)});
  for (const auto& part : {data.train, data.test}) {
    if (part != nullptr) check_labels(*part, feed, flags, found.scores, names);
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
  const auto numbers = loaded.indices.subspan(static_cast<size_t>(loaded.slice.begin),
                                              static_cast<size_t>(loaded.slice.count));
  batch.samples.assign(numbers.begin(), numbers.end());
  batch.inputs.emplace_back(feed.first().name, borrow(dataset.info().sample, loaded.samples));
  for (size_t i = 0; i < loaded.companions.size(); ++i) {
    const auto& [input, data] = dataset.companions()[i];
    batch.inputs.emplace_back(input, borrow(data->info().sample, loaded.companions[i]));
  }
  if (loaded.labels.empty() || !feed.wants_labels) return batch;
  graph::Tensor labels = borrow(dataset.info().label, loaded.labels);
  if (feed.labels_input.empty()) {
    batch.labels = std::move(labels);
  } else {
    batch.inputs.emplace_back(feed.labels_input, std::move(labels));
  }
  return batch;
}

}  // namespace sardonyx::runtime
