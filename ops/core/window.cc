#include "ops/core/window.h"
#include "ops/core/constraint.h"

#include <algorithm>
#include <limits>
#include <string>

#include "graph/support/error.h"

namespace sardonyx::ops {

namespace {

constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();

int64_t product(const std::vector<int64_t>& values) {
  int64_t result = 1;
  for (const int64_t v : values) result *= v;
  return result;
}

std::vector<int64_t> entries(const graph::Node& node, const char* attribute, size_t count,
                             int64_t fallback, const char* rule, int64_t smallest) {
  const auto values = node.get_ints(attribute, std::vector<int64_t>(count, fallback));
  if (values.size() != count) {
    throw ConstraintError("W1", "{} {} has {} entries, expected {} for {} spatial axes", attribute,
                          graph::shape_str(values), values.size(), count,
                          attribute == std::string("pads") ? count / 2 : count);
  }
  for (const int64_t v : values) {
    if (v < smallest || v > kLargest) {
      throw ConstraintError(rule, "{} {} has the entry {}, expected {} to {}", attribute,
                            graph::shape_str(values), v, smallest, kLargest);
    }
  }
  return values;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum class AutoPad : uint8_t { kNotSet, kValid, kSameUpper, kSameLower };

AutoPad auto_pad_of(const graph::Node& node) {
  const std::string name = node.get_string("auto_pad", "NOTSET");
  if (name == "NOTSET" || name.empty()) return AutoPad::kNotSet;
  if (name == "VALID") return AutoPad::kValid;
  if (name == "SAME_UPPER") return AutoPad::kSameUpper;
  if (name == "SAME_LOWER") return AutoPad::kSameLower;
  throw ConstraintError("W4", "auto_pad is '{}', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER",
                        name);
}

// Kernels count cells in 32 bits.
void require_positions(const Window& w, int axis) {
  const __int128 most =
      __int128{w.in[axis]} + w.pad_begin[axis] + w.pad_end[axis] + w.extent(axis) + w.stride[axis];
  if (most <= kLargest) return;
  throw ConstraintError("W7",
                        "spatial axis {} is too long: an input of {} with pads {} and {}, a window "
                        "over {} cells and a stride of {} come to more than {} together",
                        axis, w.in[axis], w.pad_begin[axis], w.pad_end[axis], w.extent(axis),
                        w.stride[axis], kLargest);
}

// SAME: as many outputs as steps fit into the input; an odd pad goes to the end (UPPER) or the
// start.
void pad_same(Window& w, int axis, AutoPad mode) {
  w.out[axis] = ceil_div(w.in[axis], w.stride[axis]);
  const int64_t reach = (w.out[axis] - 1) * w.stride[axis] + w.extent(axis);
  const int64_t pad = std::max<int64_t>(reach - w.in[axis], 0);
  w.pad_begin[axis] = mode == AutoPad::kSameUpper ? pad / 2 : pad - pad / 2;
  w.pad_end[axis] = pad - w.pad_begin[axis];
}

void count_outputs(Window& w, int axis, bool ceil) {
  const int64_t padded = w.in[axis] + w.pad_begin[axis] + w.pad_end[axis];
  const int64_t room = padded - w.extent(axis);
  const int64_t stride = w.stride[axis];
  if (room < 0) {
    w.out[axis] = 0;
    // A window that hangs over the end still counts when its first cells are inside.
    if (ceil && -room < stride) w.out[axis] = 1;
    return;
  }
  w.out[axis] = (ceil ? ceil_div(room, stride) : room / stride) + 1;
  if (ceil && (w.out[axis] - 1) * stride >= w.in[axis] + w.pad_begin[axis]) --w.out[axis];
}

}  // namespace

std::vector<int64_t> spatial(const graph::TensorType& type) {
  std::vector<int64_t> result;
  for (size_t i = 2; i < type.dims.size(); ++i) result.push_back(type.dims[i].value);
  return result;
}

int64_t Window::in_cells() const { return product(in); }
int64_t Window::out_cells() const { return product(out); }
int64_t Window::taps() const { return product(kernel); }

std::vector<int64_t> Window::pads() const {
  std::vector<int64_t> result = pad_begin;
  result.insert(result.end(), pad_end.begin(), pad_end.end());
  return result;
}

graph::Attributes Window::attributes() const {
  return {{"strides", stride}, {"dilations", dilation}, {"pads", pads()}};
}

Window window_of(const graph::Node& node, std::vector<int64_t> in, std::vector<int64_t> kernel) {
  Window w;
  const size_t axes = kernel.size();
  CHECK(in.size() == axes);
  w.in = std::move(in);
  w.kernel = std::move(kernel);
  w.stride = entries(node, "strides", axes, 1, "W2", 1);
  w.dilation = entries(node, "dilations", axes, 1, "W2", 1);
  const std::vector<int64_t> pads = entries(node, "pads", 2 * axes, 0, "W3", 0);
  const AutoPad mode = auto_pad_of(node);
  const bool ceil = node.get_int("ceil_mode", 0) != 0;
  w.out.assign(axes, -1);
  w.pad_begin.assign(axes, 0);
  w.pad_end.assign(axes, 0);
  for (size_t i = 0; i < axes; ++i) {
    const int axis = static_cast<int>(i);
    if (mode == AutoPad::kNotSet) {
      w.pad_begin[i] = pads[i];
      w.pad_end[i] = pads[axes + i];
    }
    if (w.kernel[i] == 0 || w.kernel[i] > kLargest) {
      throw ConstraintError("W5", "the kernel {} has the size {}, expected 1 to {}",
                            graph::shape_str(w.kernel), w.kernel[i], kLargest);
    }
    if (w.in[i] < 0 || w.kernel[i] < 0) continue;
    require_positions(w, axis);
    if (mode == AutoPad::kSameUpper || mode == AutoPad::kSameLower) {
      pad_same(w, axis, mode);
    } else {
      count_outputs(w, axis, ceil && mode == AutoPad::kNotSet);
    }
    if (w.out[i] < 1) {
      throw ConstraintError(
          "W6",
          "the output would be empty: spatial axis {} has size {} with pads {} and {}, but the "
          "kernel of {} taps at dilation {} spans {}",
          i, w.in[i], w.pad_begin[i], w.pad_end[i], w.kernel[i], w.dilation[i], w.extent(axis));
    }
  }
  if (std::all_of(w.kernel.begin(), w.kernel.end(), [](int64_t size) { return size > 0; })) {
    graph::checked_numel(w.kernel);
  }
  return w;
}

Meetings::Meetings(const Window& window, CellsOf walked) {
  for (int a = 0; a < window.axes(); ++a) {
    const int64_t in = window.in[a], out = window.out[a], taps = window.kernel[a];
    CHECK(in >= 0 && out >= 0 && taps >= 0);
    Axis axis;
    axis.first_size = walked == CellsOf::kInput ? out : in;
    axis.second_size = walked == CellsOf::kTaps ? out : taps;
    axis.at.resize(walked == CellsOf::kInput ? in : walked == CellsOf::kOutput ? out : taps);
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t o = 0; o < out; ++o) {
        const int64_t i = o * window.stride[a] - window.pad_begin[a] + t * window.dilation[a];
        if (i < 0 || i >= in) continue;
        if (walked == CellsOf::kInput) axis.at[i].push_back({o, t});
        if (walked == CellsOf::kOutput) axis.at[o].push_back({i, t});
        if (walked == CellsOf::kTaps) axis.at[t].push_back({i, o});
      }
    }
    cells_ *= static_cast<int64_t>(axis.at.size());
    axes_.push_back(std::move(axis));
  }
}

void Meetings::of(int64_t cell, std::vector<Meeting>& result) const {
  std::vector<int64_t> at(axes_.size());
  for (size_t a = axes_.size(); a-- > 0;) {
    const auto size = static_cast<int64_t>(axes_[a].at.size());
    at[a] = cell % size;
    cell /= size;
  }
  result.assign(1, {0, 0});
  std::vector<Meeting> longer;
  for (size_t a = 0; a < axes_.size(); ++a) {
    longer.clear();
    for (const Meeting& m : result) {
      for (const Meeting& next : axes_[a].at[at[a]]) {
        longer.push_back({m.first * axes_[a].first_size + next.first,
                          m.second * axes_[a].second_size + next.second});
      }
    }
    result.swap(longer);
  }
}

}  // namespace sardonyx::ops
