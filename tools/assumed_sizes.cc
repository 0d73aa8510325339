#include "tools/assumed_sizes.h"

#include <fmt/format.h>

#include "graph/support/error.h"
#include "graph/support/text.h"
#include "passes/weight_inputs.h"

namespace sardonyx::tools {

namespace {

// None, where the samples that were given don't fit: the preparation says that.
std::vector<runtime::OpenInput> open_inputs(const runtime::Session& session, int guess) {
  try {
    return runtime::open_inputs(session.imported(), session.options().pipeline, guess);
  } catch (const Error&) {
    return {};
  }
}

runtime::SampleSizes with_given(const runtime::Session& session,
                                const std::vector<runtime::OpenInput>& open,
                                const runtime::SampleSizes& given) {
  runtime::SampleSizes sample;
  for (const runtime::OpenInput& input : open) sample.emplace(input.name, input.made_up);
  for (const auto& [name, sizes] : given) {
    sample[name.empty() ? session.data_inputs()[0]->name : name] = sizes;
  }
  return sample;
}

}  // namespace

AssumedSizes assume_sizes(const runtime::Session& session, const runtime::Flags& flags,
                          const runtime::SampleSizes& given, int64_t rows) {
  AssumedSizes result;
  for (int guess = 0; guess < runtime::kGuesses; ++guess) {
    result.open = open_inputs(session, guess);
    if (result.open.empty()) return result;
    result.sample = with_given(session, result.open, given);
    const auto tried = runtime::Session::open(flags.model, runtime::session_options(flags));
    tried->describe_sample(result.sample);
    const std::string error = tried->examine(rows).error;
    if (guess == 0) result.error = error;
    result.work = error.empty();
    if (result.work) return result;
  }
  for (runtime::OpenInput& input : result.open) input.made_up.clear();
  result.sample = given;
  return result;
}

std::string open_weight(const graph::Graph& imported,
                        const std::vector<runtime::OpenInput>& inputs) {
  for (const runtime::OpenInput& input : inputs) {
    const graph::Value& value = *imported.find(input.name);
    const graph::TensorType& data = imported.inputs()[0]->type;
    const bool fed = input.first || !graph::is_floating(value.type.dtype) || !value.type.ranked ||
                     value.type.dims.empty() || data.dims.empty() ||
                     value.type.dims[0] == data.dims[0];
    if (fed || !passes::fills_parameter_slot(value)) continue;
    return fmt::format(
        "input {} has type {}: {} reads it as a weight, which can't be given values while its "
        "sizes are open; export the model with its weights",
        support::in_quotes(input.name), input.type.str(),
        passes::defining_use(value).node->label());
  }
  return "";
}

void forget_sizes(graph::TensorType& scores, const std::vector<runtime::OpenInput>& open) {
  for (int axis = 2; axis < scores.rank(); ++axis) {
    graph::Dim& dim = scores.dims[static_cast<size_t>(axis)];
    std::string symbol;
    for (const runtime::OpenInput& input : open) {
      for (const int from : input.axes) {
        const bool same = from > 0 && input.made_up[static_cast<size_t>(from) - 1] == dim.value;
        if (same) symbol = input.type.dims[static_cast<size_t>(from)].symbol;
      }
    }
    dim = graph::Dim::named(symbol);
  }
}

}  // namespace sardonyx::tools
