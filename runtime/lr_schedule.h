// The learning rate as a function of the global step, and of nothing else: a resumed run continues
// exactly.
//
//   constant                    step:EVERY,GAMMA            lr * GAMMA^floor(t / EVERY)
//   multistep:T1,T2,...,GAMMA   lr * GAMMA^(number of Ti <= t)
//   exponential:GAMMA           lr * GAMMA^floor(epoch)
//   cosine[:MIN]                from lr to MIN along half a cosine, which ends with the run
//
// Times (EVERY, Ti) are epochs, or steps with the suffix "steps":
// multistep:1000steps,2000steps,0.1. The warm-up multiplies step s (from 0) of its N steps by (s +
// 1) / N; it moves no milestone, and a cosine begins behind it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sardonyx::runtime {

class LrSchedule {
 public:
  // "step:30,0.1" and so on, "" is constant; warm-up "500", "500steps", "5epochs"; "", "0" and
  // "none" are none.
  // Throws UsageError naming the flag, what was found and what is known.
  static LrSchedule parse(const std::string& schedule, const std::string& warmup);

  // Lengths that times in epochs and the cosine refer to. CHECK: both positive.
  void set_length(int64_t steps_per_epoch, int64_t total_steps);
  // What the learning rate of step `step` (from 0) is multiplied with; for cosine:MIN the floor is
  // MIN / base. CHECK: the length is set.
  double rate(double base, int64_t step) const;

  bool warms_up() const { return warmup_.count > 0; }
  // "cosine after 500 steps of warm-up": for the first line of a run.
  std::string str() const;

 private:
  enum class Kind : uint8_t { kConstant, kStep, kMultistep, kExponential, kCosine };
  enum class Unit : uint8_t { kSteps, kEpochs };
  struct Time {
    double count = 0;
    Unit unit = Unit::kEpochs;
  };

  // `unit`: of a bare number.
  static Time parse_time(const std::string& text, const char* flag, Unit unit);
  int64_t steps(const Time& time) const;
  double factor(double base, int64_t step, int64_t warmup_steps) const;

  Kind kind_ = Kind::kConstant;
  std::string text_ = "constant", warmup_text_;
  std::vector<Time> times_;
  double gamma_ = 1.0;
  double min_ = 0.0;
  Time warmup_;
  int64_t steps_per_epoch_ = 0, total_steps_ = 0;
};

}  // namespace sardonyx::runtime
