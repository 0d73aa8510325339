// What --tune found, for `train`, `bench` and `inspect`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/config.h"
#include "runtime/measuring_tuner.h"
#include "runtime/session.h"

namespace sardonyx::tools {

enum class TuningRows : uint8_t { kChanged, kAll };

// The options of the flags; a signal that StopSignal catches ends the measuring.
runtime::SessionOptions tuning_until_signal(const runtime::Flags& flags);

// The summary, then a line per row: kernels, times, node.
std::string tuning_text(const runtime::MeasuringTuner& tuner, TuningRows rows);
nlohmann::ordered_json tuning_json(const runtime::MeasuringTuner& tuner, TuningRows rows);
// "tuning: 12 of 60 nodes with a choice take another kernel than by the static table, about 1.24 ms
// less per step"
std::string gain_text(const runtime::TuningGain& gain);

}  // namespace sardonyx::tools
