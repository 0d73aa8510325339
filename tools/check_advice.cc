#include "tools/check_advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/support/text.h"
#include "passes/options.h"
#include "runtime/text.h"
#include "tools/train_command.h"

namespace sardonyx::tools {

namespace {

using Kind = passes::UnsupportedNode::Kind;

// As numpy calls it. Reduced types are fed as float32.
std::string numpy_name(graph::DType dtype) {
  if (dtype == graph::DType::kFloat64) return "float64";
  return graph::is_floating(dtype) ? "float32" : std::string(graph::dtype_name(dtype));
}

// "[N,3,H,32]", with ? for what is open and has no name.
std::string rows_of(const std::vector<graph::Dim>& sample) {
  std::string text = "[N";
  for (const graph::Dim& dim : sample) {
    text += "," + (dim.known()          ? std::to_string(dim.value)
                   : dim.symbol.empty() ? "?"
                                        : support::escaped(dim.symbol));
  }
  return text + "]";
}

std::vector<graph::Dim> sizes_behind(const graph::TensorType& type, size_t axis) {
  if (type.dims.size() <= axis) return {};
  return {type.dims.begin() + static_cast<std::ptrdiff_t>(axis), type.dims.end()};
}

// "int64 [N,128]"
std::string array_text(const graph::TensorType& type) {
  return fmt::format("{} {}", numpy_name(type.dtype),
                     type.ranked ? rows_of(sizes_behind(type, 1)) : "[N,...]");
}

// "input_ids int64 [N,128], attention_mask int64 [N,128]"
std::string arrays_by_name(const std::vector<std::pair<std::string, graph::TensorType>>& inputs) {
  std::vector<std::string> arrays;
  for (const auto& [name, type] : inputs) {
    arrays.push_back(support::escaped(name) + " " + array_text(type));
  }
  return runtime::join(arrays);
}

// The output of the file that the scores come from. Behind a bypassed Softmax it is none of them by
// name, but has their sizes.
std::string scores_name(const CheckReport& report, const runtime::Flags& flags) {
  if (!flags.output.empty()) return flags.output;
  std::string name;
  for (const auto& [output, type] : report.output_types) {
    const bool floats = graph::is_floating(type.dtype);
    const bool fits =
        !type.ranked || rows_of(sizes_behind(type, 1)) == rows_of(sizes_behind(report.scores, 1));
    if (!floats || (!fits && report.output_types.size() > 1)) continue;
    if (!name.empty()) return "";
    name = output;
  }
  return name;
}

bool is_loop(const UnsupportedGroup& group) { return group.op == "Loop" || group.op == "Scan"; }

std::string about_operators(const std::vector<UnsupportedGroup>& groups) {
  std::string text;
  for (const UnsupportedGroup& group : groups) {
    if (group.near.empty()) continue;
    text += fmt::format("where {} means {}, write that in node {}\n  ", group.op,
                        runtime::join(group.near, " or "), group.nodes.front());
  }
  if (std::ranges::any_of(groups, is_loop)) {
    text += "export without control flow: unroll the loop, or trace instead of scripting\n  ";
  }
  return text +
         "`sardonyx ops` lists the operators there are; export the network without the missing "
         "ones";
}

}  // namespace

bool one_value_per_row(const graph::TensorType& scores) {
  return scores.rank() == 1 ||
         (scores.rank() == 2 && scores.dims[1].known() && scores.dims[1].value == 1);
}

DataNeeds data_needs(const CheckReport& report, const runtime::Flags& flags) {
  DataNeeds needs;
  needs.samples = fmt::format(
      "{} {}", numpy_name(report.sample_dtype),
      report.sample_ranked ? rows_of({report.sample_shape.begin(), report.sample_shape.end()})
                           : "[N,...]");
  if (report.fed.size() == 1) needs.samples = array_text(report.fed[0].second);
  if (report.fed.size() > 1) needs.samples = arrays_by_name(report.fed);
  if (!flags.loss_output.empty()) {
    needs.loss = fmt::format("the loss is {}", support::in_quotes(flags.loss_output));
    if (report.fed_labels.dtype != graph::DType::kUndefined) {
      needs.labels = array_text(report.fed_labels);
    }
    return needs;
  }
  needs.output = scores_name(report, flags);
  const std::string over = needs.output.empty() ? "" : " over " + support::in_quotes(needs.output);
  needs.loss = flags.loss + over;
  if (!report.scores.ranked || report.scores.rank() == 0) return needs;
  if (!passes::takes_classes(flags.loss)) {
    needs.labels = "float32 " + rows_of(sizes_behind(report.scores, 1));
    if (report.scores.rank() == 2 && one_value_per_row(report.scores)) needs.labels += " or [N]";
    return needs;
  }
  needs.classes = report.scores.rank() >= 2 ? report.scores.dims[1].value : -1;
  needs.labels = "int64 " + rows_of(sizes_behind(report.scores, 2));
  if (needs.classes > 0) needs.labels += fmt::format(" in 0..{}", needs.classes - 1);
  return needs;
}

namespace {

// "28x28", "3x32x32": what a row of so many pixels may have been; "": nothing usual.
std::string picture_of(const std::vector<int64_t>& sample) {
  constexpr int64_t kLeast = 28, kMost = 512;
  for (int64_t side = kLeast; sample.size() == 1 && side <= kMost; ++side) {
    if (sample[0] == side * side) return fmt::format("{0}x{0}", side);
    if (sample[0] == 3 * side * side) return fmt::format("3x{0}x{0}", side);
  }
  return "";
}

}  // namespace

std::vector<std::string> assumptions(const CheckReport& report, const runtime::Flags& flags) {
  const DataNeeds needs = data_needs(report, flags);
  std::string line = (report.fed.size() > 1 ? "" : "x ") + needs.samples;
  if (!needs.labels.empty()) line += ", y " + needs.labels;
  std::vector<std::string> lines{line + "; " + needs.loss};
  const std::string picture = picture_of(report.sample_shape);
  if (report.fed.size() == 1 && graph::is_floating(report.sample_dtype) && !picture.empty()) {
    lines.push_back(fmt::format(
        "images of {} go in as rows: save them as x.reshape(len(x), -1); IDX files as they are",
        picture));
  }
  if (!report.loss_assumed) return lines;
  if (flags.loss == "mse") {
    lines.push_back(
        "one column is taken for values, so the loss is mse (for a yes or no: bce_with_logits)");
  } else if (report.scores.rank() == 2) {
    lines.push_back("for values instead of classes: --loss mse");
  }
  return lines;
}

std::string sizes_step(const CheckReport& report, const runtime::Flags& flags) {
  return fmt::format(
      "{} depends on the open sizes; --input says those of one sample, without the batch\n  {}\n  "
      "{}",
      report.trainable() ? "the memory of a step" : "whether it can be trained",
      check_command(report, flags), runtime::made_up_str(report.open));
}

std::string next_step(const CheckReport& report, const runtime::Flags& flags) {
  if (report.trainable()) return report.open.empty() ? "" : sizes_step(report, flags);
  if (report.can_be_filled) {
    runtime::Flags filled = flags;
    filled.init = "pytorch";
    return "export the model with its weights, or give it new ones:\n  " +
           train_command(report, filled);
  }
  std::vector<UnsupportedGroup> groups = grouped(report.unsupported, report.needs);
  const bool operators = std::ranges::any_of(
      report.unsupported,
      [](const passes::UnsupportedNode& node) { return node.kind == Kind::kUnknownOperator; });
  if (operators) return about_operators(groups);
  return report.open.empty() ? "" : sizes_step(report, flags);
}

}  // namespace sardonyx::tools
