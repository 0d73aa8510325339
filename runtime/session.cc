#include "runtime/session.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include "graph/names.h"
#include "graph/onnx_export.h"
#include "graph/support/error.h"
#include "ops/core/inference_form.h"
#include "passes/pipelines.h"

namespace sardonyx::runtime {

using graph::Tensor;
using passes::MicroBatch;

int64_t Batch::rows() const {
  for (const auto& [name, tensor] : inputs) {
    if (tensor.rank() > 0) return tensor.shape()[0];
  }
  return labels.defined() && labels.rank() > 0 ? labels.shape()[0] : 0;
}

std::unique_ptr<Session> Session::open(const std::filesystem::path& model, SessionOptions options) {
  return std::make_unique<Session>(graph::Model::open(model), std::move(options));
}

Session::Session(std::shared_ptr<const graph::Model> model, SessionOptions options)
    : model_(std::move(model)), options_(std::move(options)) {
  imported_ = graph::import_model(model_);
  add_notices(imported_.notices);
  if (options_.pipeline.block < 0) options_.pipeline.block = options_.replay.block;
  if (options_.pipeline.lanes < 0) options_.pipeline.lanes = options_.replay.lanes;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  device_ = make_device(options_.device, options_.threads > 0 ? options_.threads : cores);
}

Session::~Session() = default;

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
// ------------------------------------------------------------------------------------------------------

passes::PassContext Session::context_for(const PlanKey& key) const {
  passes::PassContext context;
  context.options = options_.pipeline;
  context.options.micro_batch = key.micro_batch;
  context.options.batch = key.rows;
  context.target = device_.get();
  context.functions = &imported_.functions;
  if (key.kind == Kind::kTrain) {
    context.options.mode = passes::Mode::kTrain;
    context.options.kernels = replayed_kernels(key);
  }
  if (key.kind == Kind::kEval) context.options.mode = passes::Mode::kEval;
  if (key.kind == Kind::kForward || key.kind == Kind::kGradient) {
    context.options.mode = forward_mode_;
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
  add_notices(context.notices);
  return graph;
}

std::unique_ptr<Session::Loaded> Session::make_plan(const PlanKey& key,
                                                    passes::StateTable& states) {
  auto loaded = std::make_unique<Loaded>();
  loaded->context = context_for(key);
  std::unique_ptr<graph::Graph> graph = build(key, loaded->context);
  loaded->context.options.block = passes::choose_block(*graph, loaded->context);
  loaded->plan = passes::lower(std::move(graph), loaded->context, states);
  add_notices(loaded->plan->notices);
  return loaded;
}

Session::Loaded& Session::plan_for(const PlanKey& key) {
  auto& slot = plans_[key];
  if (slot != nullptr) return *slot;
  passes::StateTable states = states_;  // a plan that fails leaves no states without memory
  std::unique_ptr<Loaded> loaded = make_plan(key, states);
  states_ = std::move(states);
  // The first training plan decides for all: the same kernels whatever the size of the last batch.
  if (key.kind == Kind::kTrain) options_.pipeline.block = loaded->context.options.block;
  device_->reserve_states(states_.bytes());
  device_->reserve_arena(loaded->plan->arena_bytes);
  load_new_states();
  loaded->executor = device_->load(*loaded->plan);
  slot = std::move(loaded);
  return *slot;
}

void Session::load_new_states() {
  for (; loaded_states_ < states_.entries().size(); ++loaded_states_) {
    const auto& entry = states_.entries()[loaded_states_];
    if (!entry.initial.defined()) continue;  // fresh memory is zero
    const Tensor value = entry.initial.cast(entry.type.dtype);
    device_->write_state(entry.offset, value.aligned_data(), value.bytes().size());
  }
}

namespace {

// Which plan runs part `i` of a step of `count` micro-batches.
MicroBatch micro_batch_of(size_t i, size_t count) {
  if (count == 1) return MicroBatch::kOnly;
  if (i == 0) return MicroBatch::kFirst;
  return i + 1 == count ? MicroBatch::kLast : MicroBatch::kMiddle;
}

}  // namespace

void Session::prepare_training(const std::vector<Cut>& cuts) {
  for (const Cut& cut : cuts) {
    for (const std::vector<int64_t>& parts : cut) {
      for (size_t i = 0; i < parts.size(); ++i) {
        const MicroBatch micro_batch = micro_batch_of(i, parts.size());
        plan_for({Kind::kTrain, micro_batch, parts[i], ""});
      }
    }
  }
}

// --- feeding
// ----------------------------------------------------------------------------------------------------

namespace {

// Rows first to first + count, sharing the bytes of `tensor` without keeping them alive.
Tensor borrowed_rows(const Tensor& tensor, int64_t first, int64_t count) {
  std::vector<int64_t> shape = tensor.shape();
  const size_t row_bytes = shape[0] > 0 ? tensor.bytes().size() / static_cast<size_t>(shape[0]) : 0;
  shape[0] = count;
  const auto bytes = tensor.bytes().subspan(static_cast<size_t>(first) * row_bytes,
                                            static_cast<size_t>(count) * row_bytes);
  return Tensor::borrow(tensor.dtype(), std::move(shape), bytes, nullptr);
}

}  // namespace

RunArguments Session::bind(const passes::Plan& plan, const passes::PassContext& context,
                           const Batch& batch, int64_t first_row, int64_t rows, double lr) {
  RunArguments arguments;
  arguments.seed = options_.seed;
  arguments.step = static_cast<uint64_t>(step_);
  arguments.first_sample = first_row;
  for (const passes::PlanInput& input : plan.inputs) {
    const Tensor* tensor = nullptr;
    for (const auto& [name, value] : batch.inputs) {
      if (name == input.name || (name.empty() && batch.inputs.size() == 1)) tensor = &value;
    }
    if (input.name == context.labels) tensor = &batch.labels;
    if (input.name == context.learning_rate) {
      converted_.push_back(Tensor::scalar<double>(lr).cast(input.type.dtype));
      arguments.inputs.push_back(converted_.back().aligned_data());
      continue;
    }
    if (tensor == nullptr || !tensor->defined()) {
      throw Error("input '{}' of the model is not fed; it expects {}", input.name,
                  input.type.str());
    }
    const auto expected = input.type.shape();
    const bool cut = !expected.empty() && expected[0] == rows && tensor->rank() > 0 &&
                     tensor->shape()[0] == rows_of(batch);
    auto found = tensor->shape();
    if (cut) found[0] = rows;
    if (found != expected) {
      throw Error("input '{}' expects {}, but the data has shape {}", input.name, input.type.str(),
                  graph::shape_str(tensor->shape()));
    }
    if (tensor->dtype() != input.type.dtype) {
      const Tensor part = cut ? borrowed_rows(*tensor, first_row, rows) : *tensor;
      converted_.push_back(part.cast(input.type.dtype));
      arguments.inputs.push_back(converted_.back().aligned_data());
      continue;
    }
    const size_t row_bytes = rows > 0 && cut ? input.type.bytes() / static_cast<size_t>(rows) : 0;
    arguments.inputs.push_back(tensor->aligned_data() + static_cast<size_t>(first_row) * row_bytes);
  }
  return arguments;
}

void Session::run_micro_batch(Loaded& loaded, const Batch& batch, int64_t first_row, int64_t rows,
                              double lr) {
  converted_.clear();
  converted_.reserve(batch.inputs.size() + 4);
  loaded.executor->run(bind(*loaded.plan, loaded.context, batch, first_row, rows, lr));
}

// --- steps
// ------------------------------------------------------------------------------------------------------

namespace {

double scalar(const Executor& executor, const std::string& name) {
  const int i = name.empty() ? -1 : executor.plan().output_index(name);
  return i < 0 ? 0.0 : executor.output(i).as_double(0);
}

}  // namespace

StepResult Session::train_step(const Batch& batch, const Cut& cut, double lr) {
  CHECK(cut.size() == 1, "this session has one replica, the cut has {}", cut.size());
  if (!(lr >= 0) || !std::isfinite(lr)) {
    throw Error("the learning rate is {}, expected a number that is not negative", lr);
  }
  const std::vector<int64_t>& parts = cut[0];
  const int64_t total = std::accumulate(parts.begin(), parts.end(), int64_t{0});
  if (total != rows_of(batch)) {
    throw Error("the micro-batches have {} rows in all, the batch has {}", total, rows_of(batch));
  }
  if (parts.empty()) throw Error("a step needs at least one micro-batch, the cut has none");
  prepare_training({cut});
  int64_t row = 0;
  Loaded* last = nullptr;
  for (size_t i = 0; i < parts.size(); ++i) {
    const MicroBatch micro_batch = micro_batch_of(i, parts.size());
    last = &plan_for({Kind::kTrain, micro_batch, parts[i], ""});
    run_micro_batch(*last, batch, row, parts[i], lr);
    row += parts[i];
  }
  const auto read = [&](const std::string& name) { return scalar(*last->executor, name); };
  StepResult result;
  result.loss_sum = read(last->context.loss_sum);
  result.weight = read(last->context.loss_weight);
  result.correct = read(last->context.correct);
  result.grad_norm = read(last->context.grad_norm);
  result.rows = total;
  const bool mean = options_.pipeline.loss.mean;
  result.loss = !mean ? result.loss_sum : result.weight > 0 ? result.loss_sum / result.weight : 0.0;
  if (!std::isfinite(result.loss_sum) || !std::isfinite(result.grad_norm)) {
    report_non_finite(batch, cut, result);
  }
  ++step_;
  return result;
}

void Session::report_non_finite(const Batch& batch, const Cut& cut, const StepResult& result) {
  int64_t row = 0;
  std::string where;
  int micro_batch = 0;
  for (size_t i = 0; i < cut[0].size() && where.empty(); ++i) {
    where = first_non_finite_node(batch, row, cut[0][i]);
    micro_batch = static_cast<int>(i) + 1;
    row += cut[0][i];
  }
  if (where.empty()) where = "the sum over micro-batches";
  throw Error(
      "step {}: the {} is not finite ({}); stopped before the update, all parameters are those of "
      "step "
      "{}.\n  first non-finite value: {} (replica 0, micro-batch {} of {})\n  a smaller --lr, "
      "--warmup or "
      "clean data usually help",
      step_ + 1, std::isfinite(result.loss_sum) ? "gradient" : "loss",
      std::isfinite(result.loss_sum) ? result.grad_norm : result.loss_sum, step_, where,
      micro_batch, cut[0].size());
}

namespace {

bool all_finite(const void* data, const graph::TensorType& type) {
  bool finite = true;
  if (type.dtype != graph::DType::kFloat32 && type.dtype != graph::DType::kFloat64) return true;
  ops::dispatch_float(type.dtype, [&]<class T>() {
    const T* x = static_cast<const T*>(data);
    for (int64_t i = 0; i < type.numel(); ++i) finite = finite && std::isfinite(x[i]);
  });
  return finite;
}

}  // namespace

// Replays the micro-batch node by node. As the first of several it only writes accumulators: alone
// it may be finite, and an update would be taken.
std::string Session::first_non_finite_node(const Batch& batch, int64_t first_row, int64_t rows) {
  for (const auto& [name, tensor] : batch.inputs) {
    if (!graph::is_floating(tensor.dtype()) || tensor.numel() == 0) continue;
    const int64_t per_row = tensor.numel() / rows_of(batch);
    for (int64_t i = first_row * per_row; i < (first_row + rows) * per_row; ++i) {
      if (!std::isfinite(tensor.as_double(i))) {
        return fmt::format("the data: sample {} of the batch holds {}", i / per_row,
                           tensor.as_double(i));
      }
    }
  }
  for (const auto& entry : states_.entries()) {
    if (entry.role != graph::StateRole::kParameter) continue;
    const Tensor value = state(entry.name);
    if (!all_finite(value.aligned_data(), value.type())) return "parameter '" + entry.name + "'";
  }
  passes::PassContext context = context_for({Kind::kTrain, MicroBatch::kFirst, rows, ""});
  context.options.block = 0;
  context.options.lanes = 0;
  std::unique_ptr<graph::Graph> graph = imported_.graph->clone();
  passes::run_pipeline(*graph, context, passes::training_pipeline());
  const std::unique_ptr<passes::Plan> plan = passes::lower(std::move(graph), context, states_);
  device_->reserve_states(states_.bytes());
  device_->reserve_arena(plan->arena_bytes);
  load_new_states();
  const std::unique_ptr<Executor> executor = device_->load(*plan);
  std::string found;
  executor->set_observer([&](const passes::Step& step, const std::vector<const void*>& outputs) {
    for (size_t i = 0; i < outputs.size() && found.empty(); ++i) {
      if (outputs[i] != nullptr && !all_finite(outputs[i], step.output_types[i])) {
        found = fmt::format("output {} of node {}", i, step.node->label());
      }
    }
  });
  converted_.clear();
  converted_.reserve(batch.inputs.size() + 4);
  executor->run(bind(*plan, context, batch, first_row, rows, 0.0));
  return found;
}

EvalResult Session::evaluate(const Batch& batch, int64_t chunk) {
  EvalResult result;
  result.rows = rows_of(batch);
  for (int64_t row = 0; row < result.rows;) {
    const int64_t rows = std::min(std::max<int64_t>(chunk, 1), result.rows - row);
    Loaded& loaded = plan_for({Kind::kEval, MicroBatch::kOnly, rows, ""});
    run_micro_batch(loaded, batch, row, rows, 0.0);
    const auto read = [&](const std::string& name) { return scalar(*loaded.executor, name); };
    result.loss_sum += read(loaded.context.loss_sum);
    result.weight += read(loaded.context.loss_weight);
    result.correct += read(loaded.context.correct);
    result.correct_top5 += read(loaded.context.correct_top5);
    result.has_classes = !loaded.context.correct.empty();
    result.has_top5 = !loaded.context.correct_top5.empty();
    row += rows;
  }
  return result;
}

std::vector<std::pair<std::string, Tensor>> Session::forward(const Batch& batch,
                                                             passes::Mode mode) {
  forward_mode_ = mode;
  gradient_options_ = {};
  Loaded& loaded = plan_for({Kind::kForward, MicroBatch::kOnly, rows_of(batch),
                             mode == passes::Mode::kTrain ? "train" : ""});
  run_micro_batch(loaded, batch, 0, rows_of(batch), 0.0);
  std::vector<std::pair<std::string, Tensor>> outputs;
  for (size_t i = 0; i < loaded.plan->outputs.size(); ++i) {
    outputs.emplace_back(loaded.plan->outputs[i].name,
                         loaded.executor->output(static_cast<int>(i)));
  }
  return outputs;
}

std::vector<std::pair<std::string, Tensor>> Session::gradients(
    const Batch& batch, const std::vector<std::pair<std::string, Tensor>>& seeds,
    const std::vector<std::string>& wrt, passes::Mode mode) {
  forward_mode_ = mode;
  gradient_options_ = {};
  gradient_options_.wrt = wrt;
  std::string extra = mode == passes::Mode::kTrain ? "train" : "";
  Batch fed = batch;
  for (const auto& [name, seed] : seeds) {
    gradient_options_.seeds.push_back(name);
    fed.inputs.emplace_back("d" + name, seed);
    extra += "\n" + name;
  }
  for (const std::string& name : wrt) extra += "\r" + name;
  Loaded& loaded = plan_for({Kind::kGradient, MicroBatch::kOnly, rows_of(batch), extra});
  run_micro_batch(loaded, fed, 0, rows_of(batch), 0.0);
  std::vector<std::pair<std::string, Tensor>> result;
  for (const auto& [value, gradient] : loaded.context.gradients) {
    result.emplace_back(value, loaded.executor->output(loaded.plan->output_index(gradient)));
  }
  return result;
}

// --- states and files
// -------------------------------------------------------------------------------------------

std::vector<std::string> Session::state_names() const {
  std::vector<std::string> names;
  for (const auto& entry : states_.entries()) names.push_back(entry.name);
  return names;
}

Tensor Session::state(const std::string& name) const {
  const auto* entry = states_.find(name);
  if (entry == nullptr) throw Error("there is no state '{}'", name);
  Tensor tensor(entry->type.dtype, entry->type.shape());
  const auto bytes = tensor.mutable_bytes();
  device_->read_state(entry->offset, bytes.data(), bytes.size());
  return tensor;
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
  device_->write_state(entry->offset, value.aligned_data(), value.bytes().size());
  was_set_ = true;
}

std::vector<std::string> Session::save(const std::filesystem::path& path, SaveOptions how) const {
  std::vector<graph::NewValue> values;
  std::vector<std::string> lines;
  graph::SaveOptions options;
  options.notices = &lines;
  const bool changed = step_ > 0 || was_set_;
  if (changed && how.form == SaveForm::kInference) {
    ops::InferenceForm inference = ops::inference_form(imported_);
    options.node_edits = std::move(inference.edits);
    lines = std::move(inference.notices);
  }
  if (changed) {
    for (const auto& entry : states_.entries()) {
      const bool of_file =
          entry.role == graph::StateRole::kParameter || entry.role == graph::StateRole::kStatistic;
      if (of_file && entry.origin.kind != graph::Origin::Kind::kNone) {
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
  return lines;
}

void Session::describe_data(std::map<std::string, std::vector<int64_t>> sample_shapes,
                            graph::TensorType labels) {
  CHECK(plans_.empty(), "the data are described before the first plan");
  options_.pipeline.sample_shapes = std::move(sample_shapes);
  options_.pipeline.loss.labels = std::move(labels);
}

// nll of anything else trains too, towards minus infinity.
void Session::check_log_probabilities(const graph::Value& scores) {
  const graph::Node* node = scores.producer;
  while (node != nullptr && node->num_inputs() > 0 && node->input(0) != nullptr &&
         (node->is("", "Identity") || node->is("", "Reshape") || node->is("", "Flatten") ||
          node->is("", "Squeeze") || node->is("", "Transpose") || node->is("", "Cast"))) {
    node = node->input(0)->producer;
  }
  // Some exporters write LogSoftmax as Log of Softmax, or as a subtraction.
  for (const char* op : {"LogSoftmax", "Log", "Sub"}) {
    if (node == nullptr || node->is("", op)) return;
  }
  add_notices(
      {fmt::format("--loss nll takes log-probabilities, but '{}' comes from {}: end the model with "
                   "LogSoftmax, or use --loss cross_entropy",
                   scores.name, node->label())});
}

Examination Session::examine(int64_t rows, passes::Mode mode) {
  const Kind kind = mode == passes::Mode::kTrain ? Kind::kTrain : Kind::kEval;
  passes::PassContext context = context_for({kind, MicroBatch::kOnly, rows, ""});
  Examination result;
  result.graph = imported_.graph->clone();
  try {
    passes::run_pipeline(*result.graph, context, passes::preparation_pipeline(),
                         options_.instruments);
  } catch (const Error& error) {
    result.error = error.what();
  }
  add_notices(context.notices);
  if (const graph::Value* scores = result.graph->find(context.logits)) {
    result.scores = scores->type;
    if (options_.pipeline.loss.kind == "nll") check_log_probabilities(*scores);
  }
  result.parameters = std::move(context.parameters);
  result.unsupported = std::move(context.unsupported);
  return result;
}

std::vector<passes::ParameterRow> Session::parameters(int64_t rows) {
  passes::PassContext context = context_for({Kind::kTrain, MicroBatch::kOnly, rows, ""});
  std::unique_ptr<graph::Graph> graph = imported_.graph->clone();
  passes::run_pipeline(*graph, context, passes::preparation_pipeline(), options_.instruments);
  add_notices(context.notices);
  return context.parameters;
}

std::unique_ptr<graph::Graph> Session::training_graph(int64_t rows) {
  const PlanKey key{Kind::kTrain, MicroBatch::kOnly, rows, ""};
  passes::PassContext context = context_for(key);
  return build(key, context);
}

std::unique_ptr<graph::Graph> Session::evaluation_graph(int64_t rows) {
  const PlanKey key{Kind::kEval, MicroBatch::kOnly, rows, ""};
  passes::PassContext context = context_for(key);
  return build(key, context);
}

const passes::Plan& Session::training_plan(int64_t rows) {
  return *plan_for({Kind::kTrain, MicroBatch::kOnly, rows, ""}).plan;
}

std::unique_ptr<passes::Plan> Session::draft_plan(int64_t rows) {
  passes::StateTable states = states_;
  return std::move(make_plan({Kind::kTrain, MicroBatch::kOnly, rows, ""}, states)->plan);
}

passes::MemoryReport Session::memory() const {
  passes::MemoryReport report;
  for (const auto& [key, loaded] : plans_) {
    if (loaded == nullptr) continue;
    const passes::MemoryReport& own = loaded->plan->memory;
    report.arena_bytes = std::max(report.arena_bytes, own.arena_bytes);
    report.sum_bytes = std::max(report.sum_bytes, own.sum_bytes);
    if (own.liveness_bound_bytes <= report.liveness_bound_bytes) continue;
    report.liveness_bound_bytes = own.liveness_bound_bytes;
    report.peak_node = own.peak_node;
  }
  report.state_bytes = states_.bytes();
  return report;
}

size_t Session::planned_bytes() const {
  const passes::MemoryReport report = memory();
  return report.state_bytes + report.arena_bytes;
}

void Session::set_timing(Executor::Timing timing) {
  for (const auto& [key, loaded] : plans_) {
    if (key.kind == Kind::kTrain && loaded != nullptr) loaded->executor->set_timing(timing);
  }
}

std::vector<StepTime> Session::times() const {
  std::vector<StepTime> times;
  for (const auto& [key, loaded] : plans_) {
    if (key.kind != Kind::kTrain || loaded == nullptr) continue;
    const std::vector<StepTime> own = loaded->executor->times();
    times.insert(times.end(), own.begin(), own.end());
  }
  return times;
}

}  // namespace sardonyx::runtime
