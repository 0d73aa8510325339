#include "tools/train_command.h"

#include <fmt/format.h>

#include "runtime/optimizer_flags.h"
#include "runtime/text.h"

namespace sardonyx::tools {

namespace {

// As a shell reads it back.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// The named data set whose images these might be; "": none.
std::string named_data(const CheckReport& report) {
  const std::vector<int64_t>& shape = report.sample_shape;
  const int64_t classes =
      report.scores.rank() >= 2 && report.scores.dims[1].known() ? report.scores.dims[1].value : -1;
  const bool digits =
      shape == std::vector<int64_t>{1, 28, 28} || shape == std::vector<int64_t>{784};
  if (digits && classes == 10) return "fashion-mnist";
  if (shape == std::vector<int64_t>{3, 32, 32} && classes == 10) return "cifar10 --data-dir DIR";
  if (shape == std::vector<int64_t>{3, 32, 32} && classes == 100) return "cifar100 --data-dir DIR";
  return "";
}

class Words {
 public:
  explicit Words(std::string command) : text_(std::move(command)) {}

  void flag(const char* name, bool given) {
    if (given) text_ += fmt::format(" {}", name);
  }
  void word(const char* name, const std::string& value, const std::string& usual = "") {
    if (value != usual) text_ += fmt::format(" {} {}", name, quoted(value));
  }
  void list(const char* name, const std::vector<std::string>& values) {
    if (!values.empty()) word(name, runtime::join(values, ","));
  }
  void each(const char* name, const std::vector<std::string>& values) {
    for (const std::string& value : values) word(name, value);
  }
  void number(const char* name, double value, double usual = 0) {
    if (value != usual) text_ += fmt::format(" {} {}", name, runtime::number_str(value));
  }
  template <class T>
  void number(const char* name, const std::optional<T>& value) {
    if (value) text_ += fmt::format(" {} {}", name, *value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add_optimizer(Words& words, const runtime::Flags& flags) {
  words.word("--optimizer", flags.optimizer, "sgd");
  words.number("--momentum", flags.momentum);
  words.number("--dampening", flags.dampening);
  words.flag("--nesterov", flags.nesterov);
  words.number("--alpha", flags.alpha);
  words.flag("--centered", flags.centered);
  words.number("--trust", flags.trust);
  words.number("--weight-decay", flags.weight_decay);
  words.word("--betas", flags.betas);
  words.number("--eps", flags.eps);
  words.each("--group", flags.groups);
  words.list("--no-decay", flags.no_decay);
  words.number("--clip-norm", flags.clip_norm);
  words.number("--clip-value", flags.clip_value);
  words.number("--ema", flags.ema);
  words.word("--schedule", flags.schedule);
  words.word("--warmup", flags.warmup);
  words.word("--lr-scaling", flags.lr_scaling, "none");
  words.number("--base-batch", flags.base_batch);
  words.word("--dtype", flags.dtype, "f32");
}

void add_devices(Words& words, const runtime::Flags& flags) {
  if (flags.replicas > 1) words.number("--replicas", std::optional(flags.replicas));
  words.list("--devices", flags.devices);
  words.list("--shares", flags.shares);
  if (flags.threads > 0) words.number("--threads", std::optional(flags.threads));
  words.word("--reduce-dtype", flags.reduce_dtype, "f32");
  words.word("--fallback", flags.fallback);
  words.flag("--sync-bn", flags.sync_bn);
  words.flag("--direct-only", flags.direct_only);
  words.number("--memory-budget", flags.memory_budget);
}

void add_loss(Words& words, const runtime::Flags& flags) {
  words.word("--loss", flags.loss, "cross_entropy");
  words.word("--reduction", flags.reduction, "mean");
  words.number("--label-smoothing", flags.label_smoothing);
  words.number("--ignore-index", flags.ignore_index);
  words.list("--class-weights", flags.class_weights);
  words.word("--output", flags.output);
  words.word("--loss-output", flags.loss_output);
}

void add_parameters(Words& words, const runtime::Flags& flags) {
  words.each("--freeze", flags.freeze);
  words.each("--train", flags.train);
  words.word("--init", flags.init);
  words.flag("--reinit", flags.reinit);
  words.word("--bn-variance", flags.bn_variance, "population");
  words.flag("--respect-training-mode", flags.respect_training_mode);
  words.flag("--no-dropout", flags.no_dropout);
}

// Uncut, so that no gradients are kept beside it.
int64_t batch_that_fits(const CheckReport& report, const runtime::Flags& flags) {
  if (!report.too_large) return report.batch;
  return report.memory->largest->rows * (flags.shares.empty() ? report.replicas : 1);
}

}  // namespace

std::string train_command(const CheckReport& report, const runtime::Flags& flags) {
  Words words(fmt::format("sardonyx train {} --data npz:DATA.npz --epochs 10 --batch {} --lr {}",
                          quoted(report.model), batch_that_fits(report, flags),
                          runtime::number_str(runtime::learning_rate(flags))));
  add_optimizer(words, flags);
  words.flag("--set-batch", report.set_batch);
  words.flag("--drop-last", report.demands_rows());
  if (!report.too_large) {
    words.number("--accumulate", flags.accumulate);
    words.number("--micro-batch", flags.micro_batch);
  }
  add_devices(words, flags);
  add_loss(words, flags);
  add_parameters(words, flags);
  return words.text() + " --save trained.onnx";
}

std::string check_command(const CheckReport& report, const runtime::Flags& flags) {
  Words words("sardonyx check " + quoted(report.model));
  words.each("--input", runtime::sample_flags(report.sample));
  words.each("--input", runtime::sample_flags(report.open));
  words.number("--batch", flags.batch);
  words.number("--lr", flags.lr);
  add_optimizer(words, flags);
  words.flag("--set-batch", flags.set_batch);
  words.number("--accumulate", flags.accumulate);
  words.number("--micro-batch", flags.micro_batch);
  add_devices(words, flags);
  add_loss(words, flags);
  add_parameters(words, flags);
  return words.text();
}

std::string to_fill_in(const CheckReport& report) {
  const std::string named = named_data(report);
  return fmt::format(" (DATA.npz: your arrays, see docs/data.md{})",
                     named.empty() ? "" : "; or --data " + named);
}

}  // namespace sardonyx::tools
