#include "tools/flag_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "runtime/text.h"

namespace sardonyx::tools {

namespace {

struct Elsewhere {
  std::string_view theirs, ours;
};

constexpr Elsewhere kNames[] = {{"--learning-rate", "--lr"},
                                {"--lrate", "--lr"},
                                {"--batch-size", "--batch"},
                                {"--bs", "--batch"},
                                {"--train-batch-size", "--batch"},
                                {"--gradient-accumulation-steps", "--accumulate"},
                                {"--grad-accum", "--accumulate"},
                                {"--num-epochs", "--epochs"},
                                {"--iterations", "--steps"},
                                {"--max-steps", "--steps"},
                                {"--wd", "--weight-decay"},
                                {"--l2", "--weight-decay"},
                                {"--lr-scheduler", "--schedule"},
                                {"--scheduler", "--schedule"},
                                {"--criterion", "--loss"},
                                {"--gpu", "--devices"},
                                {"--gpus", "--devices"},
                                {"--cuda", "--devices"},
                                {"--workers", "--threads"},
                                {"--num-workers", "--threads"},
                                {"--num-threads", "--threads"},
                                {"--precision", "--dtype"},
                                {"--dataset", "--data"},
                                {"--out", "--save"},
                                {"--output-file", "--save"},
                                {"--save-model", "--save"},
                                {"--output-dir", "--checkpoint"},
                                {"--patience", "--early-stop"},
                                {"--max-grad-norm", "--clip-norm"},
                                {"--grad-clip", "--clip-norm"},
                                {"--random-seed", "--seed"},
                                {"--num-classes", "--classes"},
                                {"--input-shape", "--input"},
                                {"--shape", "--input"}};

}  // namespace

std::string flag_hint(const std::string& flag, const std::vector<std::string>& known) {
  std::string plain = flag;
  std::ranges::replace(plain, '_', '-');
  const auto is_known = [&](std::string_view name) {
    return std::ranges::find(known, name) != known.end();
  };
  if (is_known(plain)) return fmt::format(" (did you mean {}?)", plain);
  for (const auto& [theirs, ours] : kNames) {
    if (plain == theirs && is_known(ours)) return fmt::format(" (did you mean {}?)", ours);
  }
  return runtime::did_you_mean(plain, known);
}

}  // namespace sardonyx::tools
