#include "runtime/run_config.h"

#include <algorithm>
#include <functional>

#include "graph/support/error.h"
#include "graph/support/text.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

namespace {

// --- values as flags say them; nothing: not set

using Text = std::optional<std::string>;

Text to_text(const std::string& value) { return value.empty() ? Text() : value; }
Text to_text(bool value) { return value ? "true" : "false"; }
Text to_text(int value) { return value == 0 ? Text() : std::to_string(value); }
Text to_text(double value) { return fmt::format("{}", value); }
Text to_text(int64_t value) { return std::to_string(value); }
Text to_text(uint64_t value) { return std::to_string(value); }
Text to_text(ImageAxes value) {
  if (value == ImageAxes::kUnknown) return {};
  return value == ImageAxes::kChw ? "nchw" : "nhwc";
}
Text to_text(const std::vector<std::string>& value) { return to_text(join(value, ",")); }
template <class T>
Text to_text(const std::optional<T>& value) {
  return value ? to_text(*value) : Text();
}

// False: the text isn't such a value.
bool from_text(const std::string& text, std::string& value) {
  value = text;
  return true;
}
bool from_text(const std::string& text, bool& value) {
  value = text == "true";
  return value || text == "false";
}
bool from_text(const std::string& text, ImageAxes& value) {
  value = text == "nchw" ? ImageAxes::kChw : ImageAxes::kHwc;
  return text == "nchw" || text == "nhwc";
}
bool from_text(const std::string& text, std::vector<std::string>& value) {
  value = split(text, ',');
  return true;
}
template <class T>
bool assign(const std::optional<T>& parsed, auto& value) {
  if (parsed) value = static_cast<std::remove_reference_t<decltype(value)>>(*parsed);
  return parsed.has_value();
}
bool from_text(const std::string& text, double& value) { return assign(parse_number(text), value); }
bool from_text(const std::string& text, int& value) { return assign(parse_whole(text), value); }
bool from_text(const std::string& text, int64_t& value) { return assign(parse_whole(text), value); }
bool from_text(const std::string& text, uint64_t& value) {
  return assign(parse_unsigned(text), value);
}
template <class T>
bool from_text(const std::string& text, std::optional<T>& value) {
  return from_text(text, value.emplace());
}

// --- the table

// kRefused: the state of the run would mean something else. kNoticed: the steps that are left go
// another way. kRounds: they are the same but for rounding.
enum class Change : uint8_t { kRefused, kNoticed, kRounds };

struct Setting {
  const char* flag;
  Change change;
  std::function<Text(const Flags&)> get;
  std::function<bool(Flags&, const std::string&)> set;
};

// --- lists whose parts may hold any character: a backslash stands before a ; or \ of a part

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += ';';
    for (const char c : parts[i]) {
      if (c == ';' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text;
}

std::vector<std::string> parted(const std::string& text) {
  std::vector<std::string> parts(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ';') {
      parts.emplace_back();
    } else {
      if (text[i] == '\\' && i + 1 < text.size()) ++i;
      parts.back() += text[i];
    }
  }
  return parts;
}

Setting groups_setting(Change change) {
  return {"--group", change, [](const Flags& flags) { return to_text(joined(flags.groups)); },
          [](Flags& flags, const std::string& text) {
            flags.groups = parted(text);
            return true;
          }};
}

template <class T>
Setting setting(const char* flag, T Flags::*member, Change change) {
  return {
      flag, change, [member](const Flags& flags) { return to_text(flags.*member); },
      [member](Flags& flags, const std::string& text) { return from_text(text, flags.*member); }};
}

const std::vector<Setting>& settings() {
  using enum Change;
  static const std::vector<Setting> all = {
      setting("--data", &Flags::data, kNoticed),
      setting("--data-dir", &Flags::data_dir, kNoticed),
      setting("--data-layout", &Flags::data_axes, kNoticed),
      setting("--normalize", &Flags::normalize, kNoticed),
      setting("--raw-pixels", &Flags::raw_pixels, kNoticed),
      setting("--augment", &Flags::augment, kNoticed),
      setting("--drop-last", &Flags::drop_last, kRefused),
      setting("--shuffle", &Flags::shuffle, kRefused),
      setting("--epochs", &Flags::epochs, kNoticed),
      setting("--steps", &Flags::steps, kNoticed),
      setting("--batch", &Flags::batch, kRefused),
      setting("--accumulate", &Flags::accumulate, kRounds),
      setting("--micro-batch", &Flags::micro_batch, kRounds),
      setting("--replicas", &Flags::replicas, kRounds),
      setting("--devices", &Flags::devices, kRounds),
      setting("--shares", &Flags::shares, kRounds),
      setting("--threads", &Flags::threads, kRounds),
      setting("--reduce-dtype", &Flags::reduce_dtype, kNoticed),
      setting("--dtype", &Flags::dtype, kRefused),
      setting("--direct-only", &Flags::direct_only, kRounds),
      setting("--loss", &Flags::loss, kRefused),
      setting("--reduction", &Flags::reduction, kRefused),
      setting("--output", &Flags::output, kRefused),
      setting("--loss-output", &Flags::loss_output, kRefused),
      setting("--label-smoothing", &Flags::label_smoothing, kNoticed),
      setting("--ignore-index", &Flags::ignore_index, kNoticed),
      setting("--optimizer", &Flags::optimizer, kRefused),
      setting("--lr", &Flags::lr, kNoticed),
      setting("--momentum", &Flags::momentum, kNoticed),
      setting("--dampening", &Flags::dampening, kNoticed),
      setting("--nesterov", &Flags::nesterov, kNoticed),
      setting("--betas", &Flags::betas, kNoticed),
      setting("--eps", &Flags::eps, kNoticed),
      setting("--weight-decay", &Flags::weight_decay, kNoticed),
      groups_setting(kNoticed),
      setting("--no-decay", &Flags::no_decay, kNoticed),
      setting("--clip-norm", &Flags::clip_norm, kNoticed),
      setting("--clip-value", &Flags::clip_value, kNoticed),
      setting("--ema", &Flags::ema, kRefused),
      setting("--schedule", &Flags::schedule, kNoticed),
      setting("--warmup", &Flags::warmup, kNoticed),
      setting("--lr-scaling", &Flags::lr_scaling, kNoticed),
      setting("--base-batch", &Flags::base_batch, kNoticed),
      setting("--freeze", &Flags::freeze, kRefused),
      setting("--train", &Flags::train, kRefused),
      setting("--bn-variance", &Flags::bn_variance, kNoticed),
      setting("--respect-training-mode", &Flags::respect_training_mode, kNoticed),
      setting("--no-dropout", &Flags::no_dropout, kNoticed),
      setting("--seed", &Flags::seed, kRefused),
      setting("--skip-pass", &Flags::skip_passes, kRefused),
      setting("--on-nan", &Flags::on_nan, kNoticed),
      setting("--check-replicas", &Flags::check_replicas, kNoticed),
      setting("--eval-every", &Flags::eval_every, kNoticed),
      setting("--early-stop", &Flags::early_stop, kNoticed),
  };
  return all;
}

// Of these one is given at most: the one on the command line drives out the other one's old value.
constexpr const char* kEither[][2] = {{"--epochs", "--steps"},
                                      {"--accumulate", "--micro-batch"},
                                      {"--replicas", "--devices"},
                                      {"--clip-norm", "--clip-value"}};

bool is_given(const Flags& flags, const std::string& flag) {
  if (flags.given.contains(flag)) return true;
  return flag == "--shuffle" && flags.given.contains("--no-shuffle");
}

bool driven_out(const Flags& flags, const std::string& flag) {
  for (const auto& [a, b] : kEither) {
    if ((flag == a && is_given(flags, b)) || (flag == b && is_given(flags, a))) return true;
  }
  return false;
}

Text find(const RunConfig& config, const std::string& flag) {
  for (const auto& [name, value] : config) {
    if (name == flag) return value;
  }
  return {};
}

std::string difference(const Setting& setting, const Text& now, const Text& before) {
  const std::string was = before ? fmt::format("{} before", support::escaped(*before)) : "not set";
  return fmt::format(
      "{} is {} now, {}{}", setting.flag, now ? support::escaped(*now) : "not set", was,
      setting.change == Change::kRounds ? ": the steps are the same to rounding" : "");
}

void check_known(const RunConfig& config) {
  for (const auto& [flag, value] : config) {
    const auto known = [&, &f = flag](const Setting& setting) { return f == setting.flag; };
    if (std::any_of(settings().begin(), settings().end(), known)) continue;
    throw Error("the setting {} {} of the run is not known here: was it made by a later version?",
                support::escaped(flag), support::escaped(value));
  }
}

}  // namespace

RunConfig run_config(const Flags& flags) {
  RunConfig config;
  for (const Setting& setting : settings()) {
    if (Text text = setting.get(flags)) config.emplace_back(setting.flag, std::move(*text));
  }
  return config;
}

std::vector<std::string> take_over(Flags& flags, const RunConfig& config) {
  check_known(config);
  std::vector<std::string> noticed;
  std::string refused;
  for (const Setting& setting : settings()) {
    const Text before = find(config, setting.flag);
    if (is_given(flags, setting.flag)) {
      const Text now = setting.get(flags);
      if (now == before) continue;
      const std::string line = difference(setting, now, before);
      if (setting.change == Change::kRefused) {
        refused += "\n  " + line;
      } else {
        noticed.push_back(line);
      }
    } else if (before && !driven_out(flags, setting.flag) && !setting.set(flags, *before)) {
      throw Error("the setting {} of the run has the value {}, which it can't have", setting.flag,
                  support::in_quotes(*before));
    }
  }
  if (refused.empty()) return noticed;
  throw Error(
      "this can't change inside a run:{}\n  leave the flag out to go on as before, or begin "
      "another "
      "run in another folder",
      refused);
}

std::vector<std::string> run_config_flags() {
  std::vector<std::string> flags;
  for (const Setting& setting : settings()) flags.emplace_back(setting.flag);
  return flags;
}

}  // namespace sardonyx::runtime
