#include "runtime/optimizer_flags.h"

#include <algorithm>
#include <cmath>

#include "runtime/text.h"
#include "runtime/usage.h"

namespace sardonyx::runtime {

namespace {

// Decays and averages keep a share below 1.
void check_share(const char* flag, double value) {
  if (value >= 0.0 && value < 1.0) return;
  throw UsageError("{} {}: expected a number from 0 and below 1", flag, value);
}

void check_bound(const char* flag, double value) {
  if (std::isfinite(value) && value >= 0.0) return;
  throw UsageError("{} {}: expected a number above 0, or 0 for none", flag, value);
}

// Flags that only another optimizer reads would be ignored.
void check_kind(const Flags& flags) {
  check_choice("--optimizer", flags.optimizer, {"sgd", "adam", "adamw"}, {"adagrad", "rmsprop"});
  const bool sgd = flags.optimizer == "sgd";
  const auto refuse = [&](bool given, const char* flag, const char* kinds) {
    if (!given) return;
    throw UsageError("{} goes with --optimizer {}, not {}", flag, kinds, flags.optimizer);
  };
  refuse(!sgd && flags.momentum != 0, "--momentum", "sgd");
  refuse(!sgd && flags.dampening != 0, "--dampening", "sgd");
  refuse(!sgd && flags.nesterov, "--nesterov", "sgd");
  refuse(sgd && !flags.betas.empty(), "--betas", "adam or adamw");
  refuse(sgd && flags.eps.has_value(), "--eps", "adam or adamw");
}

void set_betas(passes::OptimizerOptions& options, const std::string& text) {
  const std::vector<std::string> parts = split(text, ',');
  const auto beta = [&](size_t i) {
    const auto value = parts.size() == 2 ? parse_number(parts[i]) : std::nullopt;
    if (!value) throw UsageError("--betas '{}': expected two numbers, such as 0.9,0.999", text);
    check_share("--betas", *value);
    return *value;
  };
  options.beta1 = beta(0);
  options.beta2 = beta(1);
}

// One of the values in GLOB:lr=X,wd=Y.
void set_value(passes::OptimizerGroup& group, const std::string& part, const std::string& text,
               double lr) {
  const size_t equals = std::min(part.find('='), part.size());
  const std::string key = part.substr(0, equals);
  const double value =
      equals < part.size() ? parse_number(part.substr(equals + 1)).value_or(-1.0) : -1.0;
  if ((key != "lr" && key != "wd") || value < 0.0) {
    throw UsageError("--group '{}': '{}' is none of lr=X, wd=X with a number of at least 0", text,
                     part);
  }
  if (key == "wd") {
    group.weight_decay = value;
  } else if (lr > 0.0) {
    group.lr_factor = value / lr;
  } else {
    throw UsageError(
        "--group '{}': its rate follows the schedule of --lr, which is 0; give a --lr above 0, and "
        "lr=0 to the groups that shall not move",
        text);
  }
}

// Names of tensors may hold colons, values don't.
passes::OptimizerGroup parse_group(const std::string& text, double lr) {
  const size_t colon = std::min(text.rfind(':'), text.size());
  passes::OptimizerGroup group;
  group.glob = text.substr(0, colon);
  const std::vector<std::string> parts =
      colon < text.size() ? split(text.substr(colon + 1), ',') : std::vector<std::string>{};
  if (group.glob.empty() || parts.empty()) {
    throw UsageError("--group '{}': expected GLOB:lr=X,wd=Y with one or both of the two", text);
  }
  for (const std::string& part : parts) set_value(group, part, text, lr);
  return group;
}

// "none" takes back what a resumed run had.
std::vector<std::string> given(const std::vector<std::string>& values) {
  return values == std::vector<std::string>{"none"} ? std::vector<std::string>{} : values;
}

void set_no_decay(passes::OptimizerOptions& options, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    check_choice("--no-decay", part, {"norm", "bias"});
    (part == "norm" ? options.decay_norms : options.decay_biases) = false;
  }
}

}  // namespace

double learning_rate(const Flags& flags) {
  return flags.lr.value_or(flags.optimizer == "sgd" ? 0.01 : 0.001);
}

double weight_decay(const Flags& flags) {
  return flags.weight_decay.value_or(flags.optimizer == "adamw" ? 0.01 : 0.0);
}

passes::OptimizerOptions optimizer_options(const Flags& flags) {
  check_kind(flags);
  const double lr = learning_rate(flags);
  check_range("--lr", lr, 0.0, kAny);
  check_range("--momentum", flags.momentum, 0.0, 1.0);
  check_range("--dampening", flags.dampening, 0.0, 1.0);
  check_range("--weight-decay", weight_decay(flags), 0.0, kAny);
  if (flags.nesterov && (flags.momentum == 0 || flags.dampening != 0)) {
    throw UsageError("--nesterov needs a --momentum above 0 and no --dampening");
  }
  check_bound("--clip-norm", flags.clip_norm);
  check_bound("--clip-value", flags.clip_value);
  if (flags.clip_norm != 0 && flags.clip_value != 0) {
    throw UsageError("--clip-norm {} and --clip-value {}: give one of them", flags.clip_norm,
                     flags.clip_value);
  }
  check_share("--ema", flags.ema);
  passes::OptimizerOptions options;
  options.kind = flags.optimizer;
  options.momentum = flags.momentum;
  options.dampening = flags.dampening;
  options.nesterov = flags.nesterov;
  options.weight_decay = weight_decay(flags);
  if (!flags.betas.empty()) set_betas(options, flags.betas);
  options.eps = flags.eps.value_or(options.eps);
  check_range("--eps", options.eps, 0.0, kAny);
  options.clip_norm = flags.clip_norm;
  options.clip_value = flags.clip_value;
  for (const std::string& group : given(flags.groups)) {
    options.groups.push_back(parse_group(group, lr));
  }
  set_no_decay(options, given(flags.no_decay));
  options.ema = flags.ema;
  return options;
}

}  // namespace sardonyx::runtime
