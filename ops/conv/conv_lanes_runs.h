// Which kernel taps of a convolution fall inside the input, per axis, as arithmetic progressions.
// For *_isa.cc files only (see ops/core/lanes_vector.h).
#pragma once

#include "ops/core/lanes.h"

namespace sardonyx::ops::lanes::SARDONYX_ISA {

constexpr int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

inline int needed_rows(const ConvShape& shape) {
  return shape.p_needed > 0 ? shape.p_needed : shape.p;
}
inline int needed_cols(const ConvShape& shape) {
  return shape.q_needed > 0 ? shape.q_needed : shape.q;
}

// Output coordinate o reads input coordinate (o * scale + offset + tap * tap_in) / divide where
// that is a whole number in [0, inputs).
struct AxisMap {
  int outputs, inputs, taps;
  int scale, offset, tap_in, divide;
};

inline AxisMap forward_axis(int out, int in, int taps, int stride, int dilation, int pad) {
  return {out, in, taps, stride, -pad, dilation, 1};
}

// Roles exchanged: "outputs" are the cells of dx, "inputs" those of dy.
inline AxisMap gradient_axis(int dy, int dx, int taps, int stride, int dilation, int pad) {
  return {dx, dy, taps, 1, pad, -dilation, stride};
}

// Outputs first, first + step, ... (count) share their taps tap, tap + tap_step, ... (taps of
// them). The first output's first tap reads input `in`; the next tap reads in + in_step, the next
// output in + in_next. taps may be 0.
struct AxisRun {
  int first, step, count;
  int tap, tap_step, taps;
  int in, in_step, in_next;
};

// The runs of an axis, up to kMost of them or up to `band` outputs at a time.
struct AxisRuns {
  static constexpr int kMost = 64;

  AxisRuns(const AxisMap& axis, int outputs_at_once) : map(axis), band(outputs_at_once) {}

  // Fills `runs`; false when all outputs were handed out.
  bool next() {
    count = 0;
    for (int handed_out = 0; phase < map.divide && count < kMost && handed_out < band;) {
      if (output >= map.outputs) {
        output = ++phase;
        continue;
      }
      const AxisRun run = taps_of(output);
      AxisRun* last = count > 0 ? &runs[count - 1] : nullptr;
      if (last != nullptr && last->first % map.divide == phase && last->tap == run.tap &&
          last->taps == run.taps) {
        ++last->count;
      } else {
        runs[count++] = run;
      }
      output += map.divide;
      ++handed_out;
    }
    return count > 0;
  }

  AxisMap map;
  int band;
  AxisRun runs[kMost];
  int count = 0;

 private:
  AxisRun taps_of(int o) const {
    AxisRun run{o, map.divide, 1, 0, 1, 0, 0, 0, map.scale};
    for (int tap = 0; tap < map.taps; ++tap) {
      const int at = o * map.scale + map.offset + tap * map.tap_in;
      if (at < 0 || at % map.divide != 0 || at / map.divide >= map.inputs) continue;
      if (run.taps == 0) {
        run.tap = tap;
        run.in = at / map.divide;
      } else if (run.taps == 1) {
        run.tap_step = tap - run.tap;
        run.in_step = at / map.divide - run.in;
      }
      ++run.taps;
    }
    return run;
  }

  int phase = 0;
  int output = 0;
};

}  // namespace sardonyx::ops::lanes::SARDONYX_ISA
