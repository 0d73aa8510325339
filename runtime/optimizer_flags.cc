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

// What an optimizer takes beside --lr and --weight-decay, and its defaults: those of torch.optim or
// of its paper.
struct Kind {
  std::string name;
  double lr = 0.001, weight_decay = 0;
  std::vector<std::string> flags;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {.name = "sgd", .lr = 0.01, .flags = {"--momentum", "--dampening", "--nesterov"}},
      {.name = "adam", .flags = {"--betas", "--eps"}},
      {.name = "adamw", .weight_decay = 0.01, .flags = {"--betas", "--eps"}},
      {.name = "adagrad", .lr = 0.01, .flags = {"--eps"}, .eps = 1e-10},
      {.name = "rmsprop", .lr = 0.01, .flags = {"--momentum", "--alpha", "--centered", "--eps"}},
      {.name = "lion", .lr = 0.0001, .flags = {"--betas"}, .beta2 = 0.99},
      {.name = "lamb", .weight_decay = 0.01, .flags = {"--betas", "--eps"}, .eps = 1e-6},
      {.name = "lars", .lr = 0.01, .flags = {"--momentum", "--trust"}},
  };
  return all;
}

bool takes(const Kind& kind, const std::string& flag) {
  return std::ranges::find(kind.flags, flag) != kind.flags.end();
}

const Kind& kind_of(const Flags& flags) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) names.push_back(kind.name);
  check_choice("--optimizer", flags.optimizer, names);
  return *std::ranges::find_if(kinds(),
                               [&](const Kind& kind) { return kind.name == flags.optimizer; });
}

// "adam, adamw or lion"
std::string takers(const std::string& flag) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) {
    if (takes(kind, flag)) names.push_back(kind.name);
  }
  const std::string last = names.back();
  names.pop_back();
  return names.empty() ? last : join(names) + " or " + last;
}

// Flags that only another optimizer reads would be ignored.
void check_kind(const Flags& flags, const Kind& kind) {
  const std::pair<const char*, bool> given[] = {
      {"--momentum", flags.momentum != 0}, {"--dampening", flags.dampening != 0},
      {"--nesterov", flags.nesterov},      {"--betas", !flags.betas.empty()},
      {"--eps", flags.eps.has_value()},    {"--alpha", flags.alpha.has_value()},
      {"--centered", flags.centered},      {"--trust", flags.trust.has_value()}};
  for (const auto& [flag, is_given] : given) {
    if (!is_given || takes(kind, flag)) continue;
    throw UsageError("{} goes with --optimizer {}, not {}", flag, takers(flag), kind.name);
  }
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

// Those of the kinds beside sgd.
void set_numbers(passes::OptimizerOptions& options, const Flags& flags, const Kind& kind) {
  options.beta1 = kind.beta1;
  options.beta2 = kind.beta2;
  if (!flags.betas.empty()) set_betas(options, flags.betas);
  options.eps = flags.eps.value_or(kind.eps);
  check_range("--eps", options.eps, 0.0, kAny);
  options.alpha = flags.alpha.value_or(options.alpha);
  check_share("--alpha", options.alpha);
  options.centered = flags.centered;
  options.trust = flags.trust.value_or(options.trust);
  check_range("--trust", options.trust, 0.0, kAny);
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

double learning_rate(const Flags& flags) { return flags.lr.value_or(kind_of(flags).lr); }

double weight_decay(const Flags& flags) {
  return flags.weight_decay.value_or(kind_of(flags).weight_decay);
}

passes::OptimizerOptions optimizer_options(const Flags& flags) {
  const Kind& kind = kind_of(flags);
  check_kind(flags, kind);
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
  set_numbers(options, flags, kind);
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
