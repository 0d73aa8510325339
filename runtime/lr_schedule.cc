#include "runtime/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "graph/names.h"
#include "graph/support/error.h"
#include "runtime/text.h"
#include "runtime/usage.h"

namespace sardonyx::runtime {

namespace {

constexpr const char* kForms =
    "constant, step:EVERY,GAMMA, multistep:T1,T2,...,GAMMA, exponential:GAMMA, cosine[:MIN]";

double gamma_of(const std::string& text, const std::string& schedule) {
  const auto gamma = parse_number(text);
  if (!gamma || !(*gamma > 0.0)) {
    throw UsageError("--schedule '{}': '{}' is no factor; expected a number above 0", schedule,
                     text);
  }
  return *gamma;
}

void expect_parts(const std::string& schedule, size_t found, size_t least, size_t most) {
  if (found < least || found > most) {
    throw UsageError("--schedule '{}': wrong number of values; known: {}", schedule, kForms);
  }
}

}  // namespace

LrSchedule::Time LrSchedule::parse_time(const std::string& text, const char* flag, Unit unit) {
  std::string number = text;
  for (const auto& [suffix, said] : {std::pair{"steps", Unit::kSteps}, {"epochs", Unit::kEpochs}}) {
    if (!number.ends_with(suffix)) continue;
    number.resize(number.size() - std::string(suffix).size());
    unit = said;
    break;
  }
  const auto count = parse_number(number);
  const bool whole = unit == Unit::kEpochs || (count && *count == std::floor(*count));
  if (!count || !(*count > 0.0) || !whole) {
    throw UsageError(
        "{} '{}': expected a positive number of steps or epochs, such as 500steps or 5epochs", flag,
        text);
  }
  return {*count, unit};
}

LrSchedule LrSchedule::parse(const std::string& schedule, const std::string& warmup) {
  LrSchedule result;
  if (!warmup.empty() && warmup != "0" && warmup != "none") {
    result.warmup_ = parse_time(warmup, "--warmup", Unit::kSteps);
    result.warmup_text_ = warmup;
  }
  if (schedule.empty()) return result;
  result.text_ = schedule;
  const size_t colon = schedule.find(':');
  const std::string kind = schedule.substr(0, colon);
  const std::vector<std::string> values = colon == std::string::npos
                                              ? std::vector<std::string>{}
                                              : split(schedule.substr(colon + 1), ',');
  const auto take_times = [&] {
    for (size_t i = 0; i + 1 < values.size(); ++i) {
      result.times_.push_back(parse_time(values[i], "--schedule", Unit::kEpochs));
    }
    result.gamma_ = gamma_of(values.back(), schedule);
  };
  if (kind == "constant") {
    expect_parts(schedule, values.size(), 0, 0);
  } else if (kind == "step") {
    expect_parts(schedule, values.size(), 2, 2);
    result.kind_ = Kind::kStep;
    take_times();
  } else if (kind == "multistep") {
    expect_parts(schedule, values.size(), 2, 1000);
    result.kind_ = Kind::kMultistep;
    take_times();
  } else if (kind == "exponential") {
    expect_parts(schedule, values.size(), 1, 1);
    result.kind_ = Kind::kExponential;
    result.gamma_ = gamma_of(values[0], schedule);
  } else if (kind == "cosine") {
    expect_parts(schedule, values.size(), 0, 1);
    result.kind_ = Kind::kCosine;
    const auto min = values.empty() ? 0.0 : parse_number(values[0]);
    if (!min || *min < 0.0) throw UsageError("--schedule '{}': expected a rate >= 0", schedule);
    result.min_ = *min;
  } else {
    throw UsageError("--schedule '{}' is not known{}; known: {}", schedule,
                     did_you_mean(kind, {"constant", "step", "multistep", "exponential", "cosine"}),
                     kForms);
  }
  return result;
}

void LrSchedule::set_length(int64_t steps_per_epoch, int64_t total_steps) {
  CHECK(steps_per_epoch > 0 && total_steps >= 0, "{} steps per epoch, {} in all", steps_per_epoch,
        total_steps);
  steps_per_epoch_ = steps_per_epoch;
  total_steps_ = total_steps;
}

int64_t LrSchedule::steps(const Time& time) const {
  const double scale = time.unit == Unit::kEpochs ? static_cast<double>(steps_per_epoch_) : 1.0;
  return std::max<int64_t>(1, std::llround(time.count * scale));
}

double LrSchedule::rate(double base, int64_t step) const {
  CHECK(steps_per_epoch_ > 0, "the length of the run is not set");
  const int64_t warmup_steps = warms_up() ? steps(warmup_) : 0;
  const double rate = base * factor(base, step, warmup_steps);
  if (step >= warmup_steps) return rate;
  return rate * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
}

double LrSchedule::factor(double base, int64_t step, int64_t warmup_steps) const {
  switch (kind_) {
    case Kind::kConstant:
      return 1.0;
    case Kind::kStep:
      return std::pow(gamma_, static_cast<double>(step / steps(times_[0])));
    case Kind::kMultistep: {
      const auto reached = std::count_if(times_.begin(), times_.end(),
                                         [&](const Time& time) { return steps(time) <= step; });
      return std::pow(gamma_, static_cast<double>(reached));
    }
    case Kind::kExponential:
      return std::pow(gamma_, static_cast<double>(step / steps_per_epoch_));
    case Kind::kCosine: {
      const int64_t span = std::max<int64_t>(1, total_steps_ - warmup_steps);
      const int64_t done = std::clamp<int64_t>(step - warmup_steps, 0, span);
      const double angle = std::numbers::pi * static_cast<double>(done) / static_cast<double>(span);
      const double floor = base > 0.0 ? min_ / base : 0.0;
      return floor + (1.0 - floor) * 0.5 * (1.0 + std::cos(angle));
    }
  }
  return 1.0;
}

std::string LrSchedule::str() const {
  return warms_up() ? fmt::format("{} with warm-up {}", text_, warmup_text_) : text_;
}

}  // namespace sardonyx::runtime
