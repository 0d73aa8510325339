#include "runtime/open_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/support/text.h"
#include "passes/pass_manager.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

namespace {

using graph::TensorType;
using support::in_quotes;

constexpr int64_t kExampleSize = 20;

// "3x224x224", of as many axes as the input has.
std::string example(const TensorType& type) {
  if (!type.ranked || type.rank() == 4) return "3x224x224";
  std::string text;
  for (int axis = 1; axis < type.rank(); ++axis) {
    const graph::Dim& dim = type.dims[static_cast<size_t>(axis)];
    text += fmt::format("{}{}", axis > 1 ? "x" : "", dim.known() ? dim.value : kExampleSize);
  }
  return text;
}

// "axis 2 (H), axis 3 (W)"
std::string open_axes(const TensorType& type) {
  if (!type.ranked) return "all its axes";
  std::vector<std::string> axes;
  for (size_t axis = 0; axis < type.dims.size(); ++axis) {
    const graph::Dim& dim = type.dims[axis];
    if (dim.known()) continue;
    axes.push_back(dim.symbol.empty() ? fmt::format("axis {}", axis)
                                      : fmt::format("axis {} ({})", axis, dim.symbol));
  }
  return join(axes, ", ");
}

std::string explain(const graph::Value& input, const TensorType& bound, bool first) {
  const std::string open =
      fmt::format("input {} has type {}: it can't be planned until the size of {} is known",
                  in_quotes(input.name), input.type.str(), open_axes(bound));
  if (!first) {
    return open + "; export the model with it (--input gives the sizes of the first input only)";
  }
  return fmt::format(
      "{}; give the sizes of one sample, as --input {} (train takes them from the data)", open,
      example(input.type));
}

}  // namespace

std::string open_sizes(const graph::Graph& imported, const passes::PipelineOptions& options) {
  graph::Graph inputs;
  for (const graph::Value* input : imported.inputs()) inputs.add_input(input->name, input->type);
  passes::PassContext context;
  context.options = options;
  context.options.set_batch = true;  // any number of rows will do
  passes::find_pass("bind_batch")->run(inputs, context);
  for (size_t i = 0; i < inputs.inputs().size(); ++i) {
    const graph::Value& input = *imported.inputs()[i];
    const bool read = !input.uses().empty() || imported.is_output(&input);
    const TensorType& bound = inputs.inputs()[i]->type;
    if (read && !bound.is_static()) return explain(input, bound, i == 0);
  }
  return "";
}

}  // namespace sardonyx::runtime
