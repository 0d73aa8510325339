#include "models/image_model.h"

#include "graph/support/error.h"

namespace sardonyx::models {

using graph::Dim;

std::unique_ptr<graph::Graph> image_graph(const std::string& name, const ImageModel& options) {
  auto graph = std::make_unique<graph::Graph>();
  graph->name = name;
  graph->opsets[""] = 17;
  graph->add_input("input",
                   graph::TensorType(graph::DType::kFloat32, {Dim::named("N"), options.channels,
                                                              options.height, options.width}));
  return graph;
}

void finish(graph::Graph& graph, const ImageModel& options, graph::Value* scores) {
  scores->type = graph::TensorType(graph::DType::kFloat32, {Dim::named("N"), options.classes});
  graph.add_output(scores);
}

void check_image(const std::string& network, const ImageModel& options, int64_t least) {
  if (options.height >= least && options.width >= least) return;
  throw Error("{0} needs images of at least {1} x {1}, asked for {2} x {3}", network, least,
              options.height, options.width);
}

}  // namespace sardonyx::models
