#include "tools/tuning_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/stop_signal.h"

namespace sardonyx::tools {

namespace {

using Json = nlohmann::ordered_json;
using runtime::MeasuringTuner;

std::vector<MeasuringTuner::Choice> choices_of(const MeasuringTuner& tuner, TuningRows rows) {
  return rows == TuningRows::kAll ? tuner.choices() : tuner.changed();
}

}  // namespace

runtime::SessionOptions tuning_until_signal(const runtime::Flags& flags) {
  runtime::SessionOptions options = runtime::session_options(flags);
  options.stop_tuning = [] { return runtime::StopSignal::received() != 0; };
  return options;
}

std::string tuning_text(const MeasuringTuner& tuner, TuningRows rows) {
  std::string text = tuner.summary();
  for (const MeasuringTuner::Choice& choice : choices_of(tuner, rows)) {
    const std::string alike =
        choice.nodes > 1 ? fmt::format(" and {} alike", choice.nodes - 1) : "";
    const std::string kernels =
        choice.chosen == choice.table
            ? fmt::format("{} ({:.3f} ms)", choice.chosen, 1e3 * choice.chosen_seconds)
            : fmt::format("{} -> {} ({:.3f} -> {:.3f} ms)", choice.table, choice.chosen,
                          1e3 * choice.table_seconds, 1e3 * choice.chosen_seconds);
    text += fmt::format("\n  {}: {}{}", kernels, choice.node, alike);
  }
  return text;
}

Json tuning_json(const MeasuringTuner& tuner, TuningRows rows) {
  Json list = Json::array();
  for (const MeasuringTuner::Choice& choice : choices_of(tuner, rows)) {
    list.push_back({{"node", choice.node},
                    {"nodes", choice.nodes},
                    {"table", choice.table},
                    {"chosen", choice.chosen},
                    {"table_ms", 1e3 * choice.table_seconds},
                    {"chosen_ms", 1e3 * choice.chosen_seconds}});
  }
  return {{"measured", tuner.measured()},
          {"known", tuner.known()},
          {"left", tuner.left()},
          {"unsteady", tuner.unsteady()},
          {"busy", tuner.busy()},
          {"seconds", tuner.seconds()},
          {rows == TuningRows::kAll ? "choices" : "changed", std::move(list)}};
}

std::string gain_text(const runtime::TuningGain& gain) {
  if (gain.nodes == 0) return "tuning: no node has a choice of kernels to be measured";
  return fmt::format(
      "tuning: {} of {} nodes with a choice take another kernel than by the static table, about "
      "{:.2f} ms less per step",
      gain.changed, gain.nodes, 1e3 * gain.seconds);
}

}  // namespace sardonyx::tools
