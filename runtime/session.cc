// Opening, planning, states and saving. What runs is in session_steps.cc.
#include "runtime/session.h"

#include <onnx/onnx_pb.h>
#include <algorithm>

#include "graph/names.h"
#include "graph/onnx_export.h"
#include "graph/onnx_write.h"
#include "graph/support/error.h"
#include "graph/support/text.h"
#include "ops/core/inference_form.h"
#include "passes/pipelines.h"
#include "passes/weight_inputs.h"
#include "runtime/finite.h"
#include "runtime/open_sizes.h"
#include "runtime/text.h"
#include "runtime/usage.h"

namespace sardonyx::runtime {

using graph::Tensor;
using passes::MicroBatch;

int64_t Batch::rows() const {
  for (const auto& [name, tensor] : inputs) {
    if (tensor.rank() > 0) return tensor.shape()[0];
  }
  return labels.defined() && labels.rank() > 0 ? labels.shape()[0] : 0;
}

namespace {

void refuse_training_graph(const graph::Model& model) {
  for (const auto& entry : model.skeleton().metadata_props()) {
    if (entry.key() != graph::kTrainingGraphOf) continue;
    throw Error(
        "{}: is the training graph of {} as sardonyx inspect wrote it to be looked at, with "
        "gradients and update in it; it can't be trained or run: give the model itself",
        support::escaped(model.path().string()), support::in_quotes(entry.value()));
  }
}

// What else is wrong comes first: it may be why sizes are open.
void require_sizes(const graph::Graph& imported, const passes::PassContext& context) {
  const std::string open = open_sizes(imported, context.options);
  if (open.empty()) return;
  passes::PassContext own = context;
  passes::run_pipeline(*imported.clone(), own, passes::preparation_pipeline());
  throw Error(open);
}

}  // namespace

std::unique_ptr<Session> Session::open(const std::filesystem::path& model, SessionOptions options) {
  return std::make_unique<Session>(graph::Model::open(model), std::move(options));
}

namespace {

// Said before anything is made on a device.
void check_precision(const SessionOptions& options) {
  if (options.pipeline.precision == passes::Precision::kAsStored) return;
  const auto on_cpu = std::ranges::count(options.devices, "cpu");
  if (on_cpu == 0) return;
  const char* dtype = options.pipeline.precision == passes::Precision::kTf32 ? "tf32" : "bf16";
  if (on_cpu < std::ssize(options.devices)) {
    throw UsageError(
        "--dtype {} is for CUDA devices, and --devices {} has the CPU among them; leave the CPU "
        "out, or --dtype: all replicas compute in one type",
        dtype, join(options.devices, ","));
  }
  throw UsageError(
      "--dtype {} is for CUDA devices, and this runs on the CPU; name them all (--devices "
      "cuda:0), or leave it out: the CPU computes in f32 and f64",
      dtype);
}

}  // namespace

Session::Session(std::shared_ptr<const graph::Model> model, SessionOptions options)
    : model_(std::move(model)), options_(std::move(options)) {
  refuse_training_graph(*model_);
  imported_ = graph::import_model(model_);
  add_notices(imported_.notices);
  if (options_.pipeline.init.how) make_weights_of_inputs();
  if (options_.pipeline.block < 0) options_.pipeline.block = options_.replay.block;
  if (options_.pipeline.lanes < 0) options_.pipeline.lanes = options_.replay.lanes;
  CHECK(!options_.devices.empty(), "a session needs a device");
  check_precision(options_);
  replicas_ = std::make_unique<Replicas>(options_.devices, options_.threads);
  if (!replicas_->notice().empty()) add_notices({replicas_->notice()});
  if (!options_.tune) return;
  Device& first = replicas_->device(0);
  KernelClock clock = options_.tuning_clock;
  if (!clock) {
    clock = [&first](const auto& kernels, const ops::KernelRequest& request,
                     passes::RunsOn runs_on) { return first.measure(kernels, request, runs_on); };
  }
  tuner_ = std::make_unique<MeasuringTuner>(
      std::move(clock), TuningCache(tuning_cache_file(), tuning_machine(first.threads())),
      options_.stop_tuning);
}

Session::~Session() = default;

// Their values are made by the pass init_parameters, which knows what each of them is.
void Session::make_weights_of_inputs() {
  const std::vector<graph::Value*> weights = passes::weight_inputs(*imported_.graph);
  for (graph::Value* input : weights) {
    imported_.graph->make_constant(input, Tensor(input->type.dtype, input->type.shape()));
  }
  if (weights.empty() && !options_.pipeline.init.all) {
    add_notices({"--init: the file holds a value for every weight; --reinit replaces them"});
  }
}

// As the pass bind_batch sees it: axis 0 of the model's first input that has one.
int64_t Session::rows_of(const Batch& batch) const {
  for (const graph::Value* input : data_inputs()) {
    for (const auto& [name, tensor] : batch.inputs) {
      const bool feeds = name == input->name || (name.empty() && batch.inputs.size() == 1);
      if (feeds && tensor.rank() > 0) return tensor.shape()[0];
    }
  }
  return batch.rows();
}

void Session::add_notices(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    if (std::find(notices_.begin(), notices_.end(), line) == notices_.end())
      notices_.push_back(line);
  }
}

// --- plans

passes::PassContext Session::context_for(const PlanKey& key) const {
  passes::PassContext context;
  context.options = options_.pipeline;
  context.options.micro_batch = key.micro_batch;
  context.options.batch = key.rows;
  context.target = &replicas_->device(key.place);
  context.functions = &imported_.functions;
  if (key.kind == Kind::kTrain) {
    context.options.mode = passes::Mode::kTrain;
    context.options.reduce.replicas = replicas();
    context.options.kernels = replayed_kernels(key);
    // The short last batch of an epoch takes what was chosen for the others: a step of it is rare,
    // and measuring for it would cost as much as all the rest.
    if (!has_larger_plan(key)) context.tuner = tuner_.get();
  }
  if (key.kind == Kind::kEval) context.options.mode = passes::Mode::kEval;
  if (key.kind == Kind::kForward || key.kind == Kind::kGradient) {
    context.options.mode = forward_mode_;
    context.options.update_statistics = key.kind == Kind::kGradient;
    context.options.loss.kind = "none";
    context.options.loss.loss_output.clear();
    context.options.gradient = gradient_options_;
  }
  return context;
}

std::unique_ptr<graph::Graph> Session::build(const PlanKey& key, passes::PassContext& context) {
  std::unique_ptr<graph::Graph> graph = imported_.graph->clone();
  const passes::Pipeline& pipeline = key.kind == Kind::kTrain      ? passes::training_pipeline()
                                     : key.kind == Kind::kGradient ? passes::gradient_pipeline()
                                                                   : passes::evaluation_pipeline();
  passes::run_pipeline(*graph, context, pipeline, options_.instruments);
  check_branches(context);
  add_notices(context.notices);
  return graph;
}

void Session::check_branches(const passes::PassContext& context) {
  const int64_t rows = context.options.batch;
  for (const auto& [result, taken] : context.branches) {
    const auto& [node, branch] = taken;
    const auto [known, fresh] = branches_.try_emplace(result, Taken{branch, rows});
    const Taken& before = known->second;
    if (fresh || before.branch == branch) continue;
    throw Error(
        "node {}: its condition depends on the size of the batch: it takes {} for a batch of {} "
        "and {} for one of {}, and a model can't be two; choose sizes that agree (--batch, "
        "--micro-batch, "
        "--drop-last), or put the branch to train in its place",
        node, before.branch, before.rows, branch, rows);
  }
}

std::unique_ptr<Session::Loaded> Session::make_plan(const PlanKey& key, passes::PassContext context,
                                                    passes::StateTable& states) {
  const bool bounded = options_.memory_budget > 0 && key.kind == Kind::kTrain;
  std::unique_ptr<Loaded> loaded =
      bounded ? plan_in_budget(key, context, states) : plan_once(key, std::move(context), states);
  add_notices(loaded->plan->notices);
  return loaded;
}

std::unique_ptr<Session::Loaded> Session::plan_once(const PlanKey& key, passes::PassContext context,
                                                    passes::StateTable& states) {
  require_sizes(*imported_.graph, context);
  auto loaded = std::make_unique<Loaded>();
  loaded->context = std::move(context);
  if (tuner_ != nullptr) tuner_->begin_plan();
  std::unique_ptr<graph::Graph> graph = build(key, loaded->context);
  loaded->context.options.block = passes::choose_block(*graph, loaded->context);
  loaded->plan = passes::lower(std::move(graph), loaded->context, states);
  if (tuner_ != nullptr) loaded->gain = tuner_->gain();
  return loaded;
}

Session::Loaded& Session::plan_for(const PlanKey& key) {
  auto& slot = plans_[key];
  if (slot != nullptr) return *slot;
  std::unique_ptr<Loaded> loaded = load(key, context_for(key));
  // The first training plan decides for all: the same kernels whatever the size of the last batch.
  if (key.kind == Kind::kTrain && key.place == 0) {
    options_.pipeline.block = loaded->context.options.block;
  }
  if (tuner_ != nullptr) tuner_->save();
  slot = std::move(loaded);
  return *slot;
}

// A plan that fails, or for which there is no memory, leaves no states behind. Each replica touches
// its memory first, so that it lies near the cores that will use it.
std::unique_ptr<Session::Loaded> Session::load(const PlanKey& key, passes::PassContext context) {
  passes::StateTable states = states_;
  const int place = key.place;
  std::unique_ptr<Loaded> made = make_plan(key, std::move(context), states);
  Loaded& loaded = *made;
  if (key.kind == Kind::kTrain) replicas_->join();  // takes memory that isn't there for plans
  require_room(place, *loaded.plan, states.bytes());
  loaded.executors.resize(static_cast<size_t>(replicas()));
  const auto& entries = states.entries();
  replicas_->run("loading", [&](int replica, const Links&) {
    Device& device = replicas_->device(replica);
    device.reserve_states(states.bytes());
    for (size_t i = loaded_states_; i < entries.size(); ++i) {
      if (!entries[i].initial.defined()) continue;  // fresh memory is zero
      const Tensor value = entries[i].initial.cast(entries[i].type.dtype);
      // As they lie in the file: an aligned copy would stay in memory.
      device.write_state(entries[i].offset, value.bytes().data(), value.bytes().size());
    }
    if (replicas_->place_of(replica) != place) return;
    device.reserve_arena(loaded.plan->arena_bytes);
    loaded.executors[static_cast<size_t>(replica)] = device.load(*loaded.plan);
  });
  loaded_states_ = entries.size();
  model_->release_pages();
  states_ = std::move(states);
  return made;
}

// --- states and files

std::vector<std::string> Session::state_names() const {
  std::vector<std::string> names;
  for (const auto& entry : states_.entries()) names.push_back(entry.name);
  return names;
}

Tensor Session::state(const std::string& name) const {
  const auto* entry = states_.find(name);
  if (entry == nullptr) throw Error("there is no state '{}'", name);
  return replicas_->read_state(*entry, 0);
}

void Session::set_state(const std::string& name, const Tensor& value) {
  const auto* entry = states_.find(name);
  if (entry == nullptr) {
    std::string hint;
    for (const std::string& near : graph::near_names(name, state_names())) hint += " " + near;
    throw Error("there is no state '{}'; near names:{}", name, hint);
  }
  if (value.dtype() != entry->type.dtype || value.shape() != entry->type.shape()) {
    throw Error("state '{}' has type {}, the value has type {}", name, entry->type.str(),
                value.type().str());
  }
  replicas_->write_state(*entry, value.aligned_data());
  was_set_ = true;
}

namespace {

bool is_of_file(graph::StateRole role, const graph::Origin& origin) {
  const bool kept = role == graph::StateRole::kParameter || role == graph::StateRole::kStatistic;
  return kept && origin.kind != graph::Origin::Kind::kNone;
}

graph::SaveOptions file_options(const SaveOptions& how, ops::InferenceForm inference) {
  graph::SaveOptions options;
  options.overwrite_input = how.onto_input == OntoInput::kReplace;
  options.node_edits = std::move(inference.edits);
  options.dropped_initializers = std::move(inference.unread_initializers);
  return options;
}

}  // namespace

void Session::check_save(const std::filesystem::path& path, SaveOptions how) const {
  std::vector<graph::NewValue> values;
  for (const auto& entry : states_.entries()) {
    if (!is_of_file(entry.role, entry.origin)) continue;
    values.push_back({entry.origin, Tensor(entry.type.dtype, entry.type.shape())});
  }
  const bool inference = how.form == SaveForm::kInference;
  graph::check_save(
      *model_, values, path,
      file_options(how, inference ? ops::inference_form(imported_) : ops::InferenceForm()));
}

void Session::check_save(const graph::Graph& examined) const {
  std::vector<graph::NewValue> values;
  for (const graph::Value* state : examined.states()) {
    if (!is_of_file(state->role, state->origin)) continue;
    values.push_back({state->origin, Tensor(state->type.dtype, state->type.shape())});
  }
  graph::check_save(*model_, values, "", file_options({}, ops::inference_form(imported_)));
}

SavedModel Session::save(const std::filesystem::path& path, SaveOptions how) const {
  std::vector<graph::NewValue> values;
  SavedModel saved;
  std::vector<std::filesystem::path> data_files;
  check_replicas_agree();
  const bool changed = step_ > 0 || was_set_ || options_.pipeline.init.how.has_value();
  ops::InferenceForm inference;
  if (changed && how.form == SaveForm::kInference) inference = ops::inference_form(imported_);
  saved.notices = std::move(inference.notices);
  graph::SaveOptions options = file_options(how, std::move(inference));
  options.notices = &saved.notices;
  options.data_files = &data_files;
  if (changed) {
    for (const auto& entry : states_.entries()) {
      if (is_of_file(entry.role, entry.origin)) {
        const std::string average = "ema/" + entry.name;
        const bool averaged = how.weights == SavedWeights::kAverages &&
                              options_.pipeline.optimizer.ema > 0 &&
                              states_.find(average) != nullptr;
        values.push_back({entry.origin, state(averaged ? average : entry.name)});
        const Tensor& value = values.back().value;
        if (!all_finite(value.aligned_data(), value.type())) {
          throw Error(
              "{} is not written: after step {} '{}' holds values that are not finite; a smaller "
              "--lr or --warmup usually helps",
              path.string(), step_, entry.name);
        }
      }
    }
  }
  graph::save_model(*model_, values, path, options);
  const std::filesystem::path folder = (path.parent_path() / ".").lexically_normal();
  for (const std::filesystem::path& file : data_files) {
    saved.data_files.push_back(file.lexically_normal().lexically_relative(folder).string());
  }
  return saved;
}

}  // namespace sardonyx::runtime
