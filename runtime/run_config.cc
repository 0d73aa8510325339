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

// kRefused: the state of the run would mean something else. kKeptOn: likewise when it is switched
// on or off, since states come or go with it; else as kNoticed. kNoticed: the steps that are left
// go another way. kRounds: they are the same but for rounding. kRecuts: likewise, but for
// statistics of a batch, which see one micro-batch at a time.
enum class Change : uint8_t { kRefused, kKeptOn, kNoticed, kRounds, kRecuts };

struct Setting {
  const char* flag;
  Change change;
  std::function<Text(const Flags&)> get;
  std::function<bool(Flags&, const std::string&)> set;
  std::function<void(Flags&)> reset;  // to what it is when nobody sets it
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
          },
          [](Flags& flags) { flags.groups.clear(); }};
}

template <class T>
Setting setting(const char* flag, T Flags::*member, Change change) {
  return {
      flag, change, [member](const Flags& flags) { return to_text(flags.*member); },
      [member](Flags& flags, const std::string& text) { return from_text(text, flags.*member); },
      [member](Flags& flags) { flags.*member = Flags().*member; }};
}

// One that can be switched off in words, --clip-norm 0 or --augment none, which is the same as not
// set.
Setting switched(Setting setting) {
  setting.get = [get = std::move(setting.get)](const Flags& flags) {
    Text text = get(flags);
    return text == "0" || text == "none" ? Text() : text;
  };
  return setting;
}

const std::vector<Setting>& settings() {
  using enum Change;
  static const std::vector<Setting> all = {
      setting("--data", &Flags::data, kNoticed),
      setting("--data-dir", &Flags::data_dir, kNoticed),
      setting("--data-layout", &Flags::data_axes, kNoticed),
      switched(setting("--normalize", &Flags::normalize, kNoticed)),
      setting("--raw-pixels", &Flags::raw_pixels, kNoticed),
      switched(setting("--augment", &Flags::augment, kNoticed)),
      setting("--drop-last", &Flags::drop_last, kRefused),
      setting("--shuffle", &Flags::shuffle, kRefused),
      setting("--epochs", &Flags::epochs, kNoticed),
      setting("--steps", &Flags::steps, kNoticed),
      setting("--batch", &Flags::batch, kRefused),
      setting("--accumulate", &Flags::accumulate, kRecuts),
      setting("--micro-batch", &Flags::micro_batch, kRecuts),
      setting("--set-batch", &Flags::set_batch, kRefused),
      setting("--replicas", &Flags::replicas, kRecuts),
      setting("--devices", &Flags::devices, kRecuts),
      setting("--shares", &Flags::shares, kRecuts),
      setting("--fallback", &Flags::fallback, kRounds),
      setting("--threads", &Flags::threads, kRounds),
      setting("--reduce-dtype", &Flags::reduce_dtype, kNoticed),
      setting("--dtype", &Flags::dtype, kRefused),
      setting("--direct-only", &Flags::direct_only, kRounds),
      setting("--memory-budget", &Flags::memory_budget, kRounds),
      setting("--tune", &Flags::tune, kRounds),
      setting("--loss", &Flags::loss, kRefused),
      setting("--reduction", &Flags::reduction, kRefused),
      setting("--output", &Flags::output, kRefused),
      setting("--loss-output", &Flags::loss_output, kRefused),
      setting("--label-smoothing", &Flags::label_smoothing, kNoticed),
      setting("--ignore-index", &Flags::ignore_index, kNoticed),
      setting("--class-weights", &Flags::class_weights, kRefused),
      setting("--optimizer", &Flags::optimizer, kRefused),
      setting("--lr", &Flags::lr, kNoticed),
      switched(setting("--momentum", &Flags::momentum, kKeptOn)),
      setting("--dampening", &Flags::dampening, kNoticed),
      setting("--nesterov", &Flags::nesterov, kNoticed),
      setting("--alpha", &Flags::alpha, kNoticed),
      setting("--centered", &Flags::centered, kRefused),
      setting("--trust", &Flags::trust, kNoticed),
      setting("--betas", &Flags::betas, kNoticed),
      setting("--eps", &Flags::eps, kNoticed),
      setting("--weight-decay", &Flags::weight_decay, kNoticed),
      switched(groups_setting(kNoticed)),
      switched(setting("--no-decay", &Flags::no_decay, kNoticed)),
      switched(setting("--clip-norm", &Flags::clip_norm, kNoticed)),
      switched(setting("--clip-value", &Flags::clip_value, kNoticed)),
      switched(setting("--ema", &Flags::ema, kKeptOn)),
      setting("--schedule", &Flags::schedule, kNoticed),
      switched(setting("--warmup", &Flags::warmup, kNoticed)),
      switched(setting("--lr-scaling", &Flags::lr_scaling, kNoticed)),
      setting("--base-batch", &Flags::base_batch, kNoticed),
      setting("--freeze", &Flags::freeze, kRefused),
      setting("--train", &Flags::train, kRefused),
      setting("--init", &Flags::init, kRefused),
      setting("--reinit", &Flags::reinit, kRefused),
      setting("--bn-variance", &Flags::bn_variance, kNoticed),
      setting("--sync-bn", &Flags::sync_bn, kNoticed),
      setting("--respect-training-mode", &Flags::respect_training_mode, kNoticed),
      setting("--no-dropout", &Flags::no_dropout, kNoticed),
      setting("--seed", &Flags::seed, kRefused),
      setting("--skip-pass", &Flags::skip_passes, kRefused),
      setting("--on-nan", &Flags::on_nan, kNoticed),
      setting("--check-replicas", &Flags::check_replicas, kNoticed),
      setting("--eval-every", &Flags::eval_every, kNoticed),
      switched(setting("--early-stop", &Flags::early_stop, kNoticed)),
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

const Setting& setting_of(const std::string& flag) {
  return *std::ranges::find_if(settings(), [&](const Setting& s) { return flag == s.flag; });
}

bool driven_out(const Flags& flags, const std::string& flag) {
  const auto takes_its_place = [&](const char* other) {
    return is_given(flags, other) && setting_of(other).get(flags);
  };
  for (const auto& [a, b] : kEither) {
    if ((flag == a && takes_its_place(b)) || (flag == b && takes_its_place(a))) return true;
  }
  return false;
}

// Old values that contradict a flag on the command line, or say nothing any more beside it. They
// fall: nobody typed them.
struct Fall {
  const char* flag;
  bool (*falls)(const Flags&);
  const char* reason;
};

int64_t replicas_of(const Flags& flags) {
  return flags.devices.empty() ? flags.replicas : static_cast<int64_t>(flags.devices.size());
}

bool has_cuda(const Flags& flags) {
  return std::ranges::any_of(flags.devices,
                             [](const std::string& device) { return device.starts_with("cuda"); });
}

constexpr Fall kFalls[] = {
    {"--fallback", [](const Flags& f) { return !f.fallback.empty() && !has_cuda(f); },
     "there is no CUDA device any more"},
    {"--tune", [](const Flags& f) { return f.tune && has_cuda(f); },
     "it measures kernels of the CPU"},
    {"--shares",
     [](const Flags& f) {
       return !f.shares.empty() && static_cast<int64_t>(f.shares.size()) != replicas_of(f);
     },
     "it was for another number of replicas"},
    {"--threads", [](const Flags& f) { return f.threads > 0 && f.threads < replicas_of(f); },
     "every replica needs one"},
    {"--base-batch", [](const Flags& f) { return f.base_batch && f.lr_scaling == "none"; },
     "there is no --lr-scaling any more"},
    {"--nesterov", [](const Flags& f) { return f.nesterov && f.dampening != 0; },
     "it doesn't go with --dampening"},
    {"--dampening", [](const Flags& f) { return f.nesterov && f.dampening != 0; },
     "it doesn't go with --nesterov"},
    {"--early-stop", [](const Flags& f) { return f.early_stop > 0 && f.eval_every == 0; },
     "there are no evaluations any more"},
};

void let_fall(Flags& flags, std::vector<std::string>& lines) {
  for (const Fall& fall : kFalls) {
    if (is_given(flags, fall.flag) || !fall.falls(flags)) continue;
    const Setting& setting = setting_of(fall.flag);
    lines.push_back(fmt::format("{} {} falls away: {}", fall.flag,
                                support::escaped(setting.get(flags).value_or("")), fall.reason));
    setting.reset(flags);
  }
}

// As `setting` would say it. Throws Error for a value that isn't one.
Text value_before(const Setting& setting, const RunConfig& config) {
  for (const auto& [name, value] : config) {
    if (name != setting.flag) continue;
    Flags before;
    if (setting.set(before, value)) return setting.get(before);
    throw Error("the setting {} of the run has the value {}, which it can't have", setting.flag,
                support::in_quotes(value));
  }
  return {};
}

bool is_refused(Change change, const Text& now, const Text& before) {
  return change == Change::kRefused ||
         (change == Change::kKeptOn && now.has_value() != before.has_value());
}

const char* meaning(Change change) {
  if (change == Change::kRounds) return ": the steps are the same to rounding";
  if (change != Change::kRecuts) return "";
  return ": the steps are the same to rounding, statistics of BatchNormalization apart";
}

std::string difference(const Setting& setting, const Text& now, const Text& before) {
  const std::string was = before ? fmt::format("{} before", support::escaped(*before)) : "not set";
  return fmt::format("{} is {} now, {}{}", setting.flag, now ? support::escaped(*now) : "not set",
                     was, meaning(setting.change));
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
    const Text before = value_before(setting, config);
    if (is_given(flags, setting.flag)) {
      const Text now = setting.get(flags);
      if (now == before) continue;
      const std::string line = difference(setting, now, before);
      if (is_refused(setting.change, now, before)) {
        refused += "\n  " + line;
      } else {
        noticed.push_back(line);
      }
    } else if (before && !driven_out(flags, setting.flag)) {
      setting.set(flags, *before);
    }
  }
  if (!refused.empty()) {
    throw Error(
        "this can't change inside a run:{}\n  leave the flag out to go on as before, or begin "
        "another run in another folder",
        refused);
  }
  let_fall(flags, noticed);
  return noticed;
}

std::vector<std::string> run_config_flags() {
  std::vector<std::string> flags;
  for (const Setting& setting : settings()) flags.emplace_back(setting.flag);
  return flags;
}

}  // namespace sardonyx::runtime
