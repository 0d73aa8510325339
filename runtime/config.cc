#include "runtime/config.h"

#include <algorithm>
#include <cmath>

#include "passes/pass_manager.h"
#include "runtime/optimizer_flags.h"
#include "runtime/text.h"
#include "runtime/usage.h"

namespace sardonyx::runtime {

namespace {

// One name per replica.
std::vector<std::string> devices_of(const Flags& flags) {
  for (const std::string& device : flags.devices) {
    // Which of them there are is known when they are asked for.
    if (device == "cuda" || (device.starts_with("cuda:") && parse_unsigned(device.substr(5)))) {
      continue;
    }
    check_choice("--devices", device, {"cpu", "cuda:0", "cuda:1"});
  }
  if (flags.replicas < 1) throw UsageError("--replicas {}: expected at least 1", flags.replicas);
  if (flags.devices.empty()) return {static_cast<size_t>(flags.replicas), "cpu"};
  if (flags.replicas > 1 && static_cast<int64_t>(flags.devices.size()) != flags.replicas) {
    throw UsageError("--replicas {} contradicts --devices, which names {}", flags.replicas,
                     flags.devices.size());
  }
  return flags.devices;
}

// What only CUDA devices take, and what they don't.
void check_device_flags(const Flags& flags, const std::vector<std::string>& devices) {
  const auto cuda = std::ranges::find_if(
      devices, [](const std::string& device) { return device.starts_with("cuda"); });
  if (flags.tune && cuda != devices.end()) {
    throw UsageError("--tune measures kernels of the CPU: leave it out with --devices {}", *cuda);
  }
  if (flags.fallback.empty()) return;
  check_choice("--fallback", flags.fallback, {"cpu"});
  if (cuda == devices.end()) {
    throw UsageError("--fallback cpu goes with a CUDA device, as --devices cuda:0");
  }
}

std::vector<double> shares_of(const Flags& flags) {
  std::vector<double> shares;
  for (const std::string& text : flags.shares) {
    const auto share = parse_number(text);
    if (!share) throw UsageError("--shares '{}': expected a number per replica, as 3,1", text);
    shares.push_back(*share);
  }
  return shares;
}

passes::ReduceOptions reduce_options(const Flags& flags) {
  check_choice("--reduce-dtype", flags.reduce_dtype, {"f32", "bf16"});
  passes::ReduceOptions options;
  if (flags.reduce_dtype == "f32") return options;
  if (flags.dtype == "f64") {
    throw UsageError("--reduce-dtype {} goes with --dtype f32, not {}", flags.reduce_dtype,
                     flags.dtype);
  }
  options.wire = graph::DType::kBFloat16;
  return options;
}

std::vector<double> class_weights_of(const Flags& flags) {
  std::vector<double> weights;
  for (const std::string& text : flags.class_weights) {
    const auto weight = parse_number(text);
    if (!weight || *weight < 0) {
      throw UsageError("--class-weights '{}': expected a number of at least 0 per class, as 1,0.5",
                       text);
    }
    weights.push_back(*weight);
  }
  return weights;
}

passes::LossOptions loss_options(const Flags& flags) {
  check_choice("--loss", flags.loss,
               {"cross_entropy", "nll", "mse", "l1", "smooth_l1", "bce_with_logits"});
  check_choice("--reduction", flags.reduction, {"mean", "sum"});
  check_range("--label-smoothing", flags.label_smoothing, 0.0, 1.0);
  if (flags.label_smoothing > 0 && flags.loss != "cross_entropy") {
    throw UsageError("--label-smoothing goes with --loss cross_entropy, not {}", flags.loss);
  }
  const bool classes = passes::takes_classes(flags.loss);
  if (flags.ignore_index && !classes) {
    throw UsageError("--ignore-index goes with class labels, not --loss {}", flags.loss);
  }
  if (!flags.class_weights.empty() && (!classes || !flags.loss_output.empty())) {
    throw UsageError("--class-weights goes with --loss cross_entropy or nll, not {}",
                     classes ? "--loss-output" : flags.loss);
  }
  passes::LossOptions loss;
  loss.kind = flags.loss;
  loss.output = flags.output;
  loss.loss_output = flags.loss_output;
  loss.mean = flags.reduction == "mean";
  loss.label_smoothing = flags.label_smoothing;
  loss.ignore_index = flags.ignore_index;
  loss.class_weights = class_weights_of(flags);
  return loss;
}

void check_counts(const Flags& flags) {
  for (const auto& [flag, value] : {std::pair{"--batch", flags.batch},
                                    {"--micro-batch", flags.micro_batch},
                                    {"--accumulate", flags.accumulate},
                                    {"--base-batch", flags.base_batch}}) {
    if (value) check_count(flag, *value);
  }
  if (flags.accumulate && flags.micro_batch) {
    throw UsageError("--accumulate {} and --micro-batch {}: give one of them", *flags.accumulate,
                     *flags.micro_batch);
  }
  if (!flags.data.starts_with("synthetic:")) return;
  const auto samples = parse_number(flags.data.substr(10));
  if (samples && *samples > 0x1p31) {
    throw UsageError("--data {}: expected at most {} samples", flags.data, int64_t{1} << 31);
  }
}

}  // namespace

void check_count(const std::string& flag, int64_t value) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (value > kMost) throw UsageError("{} {}: expected at most {}", flag, value, kMost);
}

namespace {

void check_skips(const Flags& flags) {
  std::vector<std::string> optional;
  for (const passes::Pass& pass : passes::all_passes()) {
    if (pass.need == passes::Need::kOptional) optional.emplace_back(pass.name);
  }
  for (const std::string& name : flags.skip_passes) {
    if (passes::find_pass(name) == nullptr) check_choice("--skip-pass", name, optional);
  }
  as_usage("--skip-pass", [&] { passes::check_skips(flags.skip_passes); });
}

}  // namespace

namespace {

passes::InitOptions init_options(const Flags& flags) {
  passes::InitOptions options;
  if (!flags.init.empty()) {
    options.how = as_usage("--init", [&] { return graph::parse_init(flags.init, flags.seed); });
  } else if (flags.reinit) {
    throw UsageError("--reinit goes with --init kaiming, xavier, normal:STD or pytorch");
  }
  options.all = flags.reinit;
  return options;
}

}  // namespace

SessionOptions session_options(const Flags& flags) {
  check_counts(flags);
  SessionOptions options;
  options.devices = devices_of(flags);
  check_device_flags(flags, options.devices);
  if (flags.threads < 0) throw UsageError("--threads {}: expected at least 1", flags.threads);
  const auto replicas = static_cast<int64_t>(options.devices.size());
  if (flags.threads > 0 && flags.threads < replicas) {
    throw UsageError("--threads {}: {} replicas need at least one each", flags.threads, replicas);
  }
  options.threads = flags.threads;
  options.seed = flags.seed;
  check_choice("--dtype", flags.dtype, {"f32", "f64", "tf32", "bf16"}, {"f16"});
  check_choice("--bn-variance", flags.bn_variance, {"population", "sample"});
  passes::PipelineOptions& pipeline = options.pipeline;
  pipeline.dtype = flags.dtype == "f64" ? graph::DType::kFloat64 : graph::DType::kFloat32;
  if (flags.dtype == "tf32") pipeline.precision = passes::Precision::kTf32;
  if (flags.dtype == "bf16") pipeline.precision = passes::Precision::kBFloat16;
  pipeline.set_batch = flags.set_batch;
  pipeline.dropout = !flags.no_dropout;
  pipeline.respect_training_mode = flags.respect_training_mode;
  pipeline.sample_variance = flags.bn_variance == "sample";
  pipeline.sync_statistics = flags.sync_bn;
  pipeline.loss = loss_options(flags);
  pipeline.optimizer = optimizer_options(flags);
  lr_schedule(flags);  // a command that makes no steps refuses what train would, too
  base_lr(flags, 1);
  pipeline.reduce = reduce_options(flags);
  pipeline.direct_only = flags.direct_only;
  if (flags.fallback == "cpu") pipeline.fallback = passes::Fallback::kCpu;
  options.tune = flags.tune;
  check_skips(flags);
  pipeline.skip = flags.skip_passes;
  options.memory_budget = flags.memory_budget.value_or(0);
  pipeline.trainable.freeze = flags.freeze;
  pipeline.trainable.train = flags.train;
  pipeline.init = init_options(flags);
  return options;
}

SaveOptions save_options(const Flags& flags) {
  SaveOptions options;
  if (flags.keep_training_form) options.form = SaveForm::kAsInFile;
  if (flags.overwrite) {
    if (flags.save.empty()) throw UsageError("--overwrite goes with --save, onto the model itself");
    options.onto_input = OntoInput::kReplace;
  }
  if (flags.save_weights.empty()) return options;
  check_choice("--save-weights", flags.save_weights, {"averages", "last"});
  if (flags.ema == 0) throw UsageError("--save-weights goes with --ema, which keeps averages");
  if (flags.save.empty() && flags.save_best.empty()) {
    throw UsageError("--save-weights goes with --save or --save-best");
  }
  if (flags.save_weights == "last") options.weights = SavedWeights::kLast;
  return options;
}

LrSchedule lr_schedule(const Flags& flags) {
  return LrSchedule::parse(flags.schedule, flags.warmup);
}

Augment augment_options(const Flags& flags) {
  if (flags.augment.empty() || flags.augment == "none") return {};
  return as_usage("--augment", [&] { return parse_augment(flags.augment); });
}

AdaptOptions adapt_options(const Flags& flags) {
  AdaptOptions options;
  if (!flags.normalize.empty() && flags.normalize != "none") {
    options.normalize = as_usage("--normalize", [&] { return parse_normalize(flags.normalize); });
  }
  options.scale = flags.raw_pixels ? PixelScale::kRaw : PixelScale::kUnit;
  return options;
}

BatchSetup batch_setup(const Flags& flags, int64_t baked) {
  const auto replicas = static_cast<int64_t>(devices_of(flags).size());
  BatchFlags given{flags.batch, flags.micro_batch, flags.accumulate, replicas, shares_of(flags)};
  if (!given.batch && !given.micro_batch) {
    if (baked > 0 && (given.accumulate || replicas > 1)) {
      given.micro_batch = baked;
    } else {
      given.batch = baked > 0 ? baked : kDefaultBatch;
    }
  }
  return as_usage("--batch", [&] {
    BatchSetup setup = resolve_batch(given);
    if (baked > 0 && setup.cut.micro_batch.value_or(baked) == baked) setup.cut.baked = baked;
    cut_batch(setup.batch, setup.cut);  // says what is wrong with the shares
    return setup;
  });
}

double base_lr(const Flags& flags, int64_t batch) {
  const double lr = learning_rate(flags);
  check_choice("--lr-scaling", flags.lr_scaling, {"none", "linear", "sqrt"});
  if (flags.lr_scaling == "none") {
    if (flags.base_batch) throw UsageError("--base-batch goes with --lr-scaling linear or sqrt");
    return lr;
  }
  if (!flags.base_batch || *flags.base_batch < 1) {
    throw UsageError("--lr-scaling {} needs --base-batch: the batch that --lr is meant for",
                     flags.lr_scaling);
  }
  const double ratio = static_cast<double>(batch) / static_cast<double>(*flags.base_batch);
  return lr * (flags.lr_scaling == "linear" ? ratio : std::sqrt(ratio));
}

}  // namespace sardonyx::runtime
