#include "runtime/open_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/support/text.h"
#include "passes/pass_manager.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

namespace {

using graph::Dim;
using graph::TensorType;
using support::in_quotes;

constexpr int64_t kPixels[kGuesses] = {224, 32, 28, 64};
constexpr int64_t kSteps[kGuesses] = {20, 128, 32, 8};

int64_t guess_size(const TensorType& type, int axis, int guess) {
  if (type.rank() != 4) return kSteps[guess];
  const bool channels = axis == 1 && !type.dims[3].known();
  return channels ? 3 : kPixels[guess];
}

// Sizes that were made up for symbols, so that one has one size everywhere.
using Symbols = std::map<std::string, int64_t>;

void make_up(OpenInput& input, Symbols& symbols, int guess) {
  const TensorType& type = input.type;
  if (!type.ranked) {
    input.made_up = {3, kPixels[guess], kPixels[guess]};
    return;
  }
  input.follows = !input.axes.empty() && input.axes.front() > 0 &&
                  std::ranges::all_of(input.axes, [&](int axis) {
                    return symbols.contains(type.dims[static_cast<size_t>(axis)].symbol);
                  });
  for (int axis = 1; axis < type.rank(); ++axis) {
    const Dim& dim = type.dims[static_cast<size_t>(axis)];
    if (dim.known()) {
      input.made_up.push_back(dim.value);
      continue;
    }
    int64_t size = guess_size(type, axis, guess);
    if (!dim.symbol.empty()) size = symbols.emplace(dim.symbol, size).first->second;
    input.made_up.push_back(size);
  }
}

std::string axis_str(const OpenInput& input, int axis) {
  const std::string& symbol = input.type.dims[static_cast<size_t>(axis)].symbol;
  return symbol.empty() ? fmt::format("axis {}", axis) : fmt::format("axis {} ({})", axis, symbol);
}

// "axis 2 (H), axis 3 (W)"
std::string axes_str(const OpenInput& input) {
  if (!input.type.ranked) return "all its axes";
  std::vector<std::string> axes;
  for (const int axis : input.axes) axes.push_back(axis_str(input, axis));
  return join(axes, ", ");
}

}  // namespace

std::vector<OpenInput> open_inputs(const graph::Graph& imported,
                                   const passes::PipelineOptions& options, int guess) {
  graph::Graph inputs;
  for (const graph::Value* input : imported.inputs()) inputs.add_input(input->name, input->type);
  passes::PassContext context;
  context.options = options;
  context.options.set_batch = true;  // any number of rows will do
  passes::find_pass("bind_batch")->run(inputs, context);
  std::vector<OpenInput> open;
  Symbols symbols;
  for (size_t i = 0; i < inputs.inputs().size(); ++i) {
    const graph::Value& input = *imported.inputs()[i];
    const bool read = !input.uses().empty() || imported.is_output(&input);
    const TensorType& bound = inputs.inputs()[i]->type;
    if (!read || bound.is_static()) continue;
    OpenInput found{input.name, input.type, {}, i == 0, false, {}};
    for (int axis = 0; axis < bound.rank(); ++axis) {
      if (!bound.dims[static_cast<size_t>(axis)].known()) found.axes.push_back(axis);
    }
    make_up(found, symbols, guess);
    open.push_back(std::move(found));
  }
  return open;
}

std::string open_axes_str(const OpenInput& input) {
  return fmt::format("{} of {}", input.type.ranked ? axes_str(input) : "all axes",
                     in_quotes(input.name));
}

namespace {

std::string sample_flag(const std::string& name, const std::string& sizes) {
  return name.empty() ? sizes : name + "=" + sizes;
}

// "3xHxW"
std::string sizes_by_name(const TensorType& type) {
  if (!type.ranked) return "SIZES";
  std::vector<std::string> sizes;
  for (int axis = 1; axis < type.rank(); ++axis) {
    const Dim& dim = type.dims[static_cast<size_t>(axis)];
    sizes.push_back(dim.known()          ? std::to_string(dim.value)
                    : dim.symbol.empty() ? "SIZE"
                                         : dim.symbol);
  }
  return join(sizes, "x");
}

std::string sizes_str(const std::vector<int64_t>& sizes) {
  return fmt::format("{}", fmt::join(sizes, "x"));
}

// "seq is 20", of those that no input before it has.
void add_sizes(const OpenInput& input, std::set<std::string>& told,
               std::vector<std::string>& sizes) {
  for (const int axis : input.axes) {
    if (axis == 0 || input.follows) continue;
    const std::string& symbol = input.type.dims[static_cast<size_t>(axis)].symbol;
    if (!symbol.empty() && !told.insert(symbol).second) continue;
    sizes.push_back(fmt::format(
        "{} is {}",
        symbol.empty() ? fmt::format("axis {} of {}", axis, in_quotes(input.name)) : symbol,
        input.made_up[static_cast<size_t>(axis) - 1]));
  }
}

}  // namespace

std::vector<std::string> sample_flags(const SampleSizes& sizes) {
  std::vector<std::string> flags;
  for (const auto& [name, sample] : sizes) flags.push_back(sample_flag(name, sizes_str(sample)));
  return flags;
}

std::vector<std::string> sample_flags(const std::vector<OpenInput>& inputs) {
  std::vector<std::string> flags;
  for (const OpenInput& input : inputs) {
    if (input.follows) continue;
    flags.push_back(sample_flag(input.first ? "" : input.name, input.made_up.empty()
                                                                   ? sizes_by_name(input.type)
                                                                   : sizes_str(input.made_up)));
  }
  return flags;
}

std::string made_up_str(const std::vector<OpenInput>& inputs) {
  std::vector<std::string> sizes, followers;
  std::set<std::string> told;
  bool known = true;
  for (const OpenInput& input : inputs) {
    known = known && input.type.ranked && !(input.made_up.empty() && input.type.rank() > 1);
    if (input.follows) followers.push_back(in_quotes(input.name));
    if (known) add_sizes(input, told, sizes);
  }
  std::string text = !known          ? "with the numbers of your samples"
                     : sizes.empty() ? "so that a row of it goes with each sample"
                                     : "if " + join(sizes, " and ");
  if (!followers.empty()) text += fmt::format("; that holds for {}, too", join(followers));
  return text;
}

std::string open_sizes(const graph::Graph& imported, const passes::PipelineOptions& options) {
  const std::vector<OpenInput> open = open_inputs(imported, options);
  if (open.empty()) return "";
  const OpenInput& input = open.front();
  return fmt::format(
      "input {} has type {}: it can't be planned until the size of {} is known; give the sizes of "
      "one sample, as --input {} {} (train takes them from the data)",
      in_quotes(input.name), input.type.str(), axes_str(input),
      join(sample_flags(open), " --input "), made_up_str(open));
}

}  // namespace sardonyx::runtime
