// bind_batch: gives numbers to the open dimensions of the inputs and names the batch axis.
//
// Axis 0 of the first input is the batch. Its symbol (the file's, or "batch" when the file has a
// number or nothing) names it from here on; every other input whose axis 0 has the same symbol or
// the same baked number carries it too, and so does one that is fed row by row. Other open
// dimensions take the sizes of the data, also those of another input with the same symbol.
#include "graph/support/error.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Dim;
using graph::Value;

void take_data_shape(Value* input, const PassContext& context) {
  const auto it = context.options.sample_shapes.find(input->name);
  if (it == context.options.sample_shapes.end()) return;
  const std::vector<int64_t>& sample = it->second;
  graph::TensorType& type = input->type;
  if (!type.ranked) {
    type.ranked = true;
    type.dims.assign(sample.size() + 1, Dim());
  }
  if (type.dims.size() != sample.size() + 1) {
    throw Error(
        "input '{}' expects {}, but one sample of the data has shape {} (rank {} with the batch "
        "axis)",
        input->name, type.str(), graph::shape_str(sample), sample.size() + 1);
  }
  for (size_t i = 0; i < sample.size(); ++i) {
    Dim& dim = type.dims[i + 1];
    if (dim.known() && dim.value != sample[i]) {
      throw Error("input '{}' expects {}, but one sample of the data has shape {}", input->name,
                  type.str(), graph::shape_str(sample));
    }
    dim.value = sample[i];
  }
}

// A symbol that the data give two sizes is no size: some exporters have one for all that is open.
void share_sizes(const std::vector<Value*>& inputs) {
  std::map<std::string, int64_t> sizes;
  const auto for_each_dim = [&](auto&& use) {
    for (Value* input : inputs) {
      for (int i = 1; i < input->type.rank(); ++i) use(input->type.dims[i]);
    }
  };
  for_each_dim([&](const Dim& dim) {
    if (!dim.known() || dim.symbol.empty()) return;
    const auto [known, fresh] = sizes.emplace(dim.symbol, dim.value);
    if (!fresh && known->second != dim.value) known->second = -1;
  });
  for_each_dim([&](Dim& dim) {
    const auto known = dim.known() ? sizes.end() : sizes.find(dim.symbol);
    if (known != sizes.end()) dim.value = known->second;
  });
}

void bind_axis0(Value* input, int64_t batch, const std::string& symbol) {
  Dim& dim = input->type.dims[0];
  if (dim.known() && dim.value != batch) {
    throw Error(
        "input '{}' has the batch size {} baked in, but {} rows were asked for; use --batch {}, or "
        "--micro-batch {} and a --batch that is a multiple of it, or --set-batch, or export with "
        "a dynamic batch axis",
        input->name, dim.value, batch, dim.value, dim.value);
  }
  dim = Dim(batch, symbol);
}

}  // namespace

bool bind_batch(graph::Graph& graph, PassContext& context) {
  if (graph.inputs().empty()) return false;
  for (Value* input : graph.inputs()) take_data_shape(input, context);
  share_sizes(graph.inputs());
  std::string symbol;
  Dim first;
  for (Value* input : graph.inputs()) {
    graph::TensorType& type = input->type;
    if (!type.ranked || type.dims.empty()) continue;
    const bool known_number = type.dims[0].known();
    if (symbol.empty()) {
      first = type.dims[0];
      symbol = first.symbol.empty() ? "batch" : first.symbol;
    } else {
      const bool same = known_number ? first.value == type.dims[0].value
                                     : first.symbol == type.dims[0].symbol || first.known();
      if (!same && !context.options.row_inputs.contains(input->name)) continue;
    }
    if (known_number && context.options.set_batch) type.dims[0].value = -1;
    bind_axis0(input, context.options.batch, symbol);
  }
  graph.batch_symbol = symbol;
  for (Value* input : graph.inputs()) {
    for (Dim& dim : input->type.dims) {
      if (!dim.known() && dim.symbol == symbol) dim.value = context.options.batch;
    }
  }
  return true;
}

}  // namespace sardonyx::passes
