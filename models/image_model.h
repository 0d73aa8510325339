// What every network for images is asked for, and the frame around its layers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "graph/graph.h"
#include "graph/init.h"

namespace sardonyx::models {

struct ImageModel {
  int64_t channels = 1, height = 28, width = 28;
  int64_t classes = 10;
  graph::Init init = {};
};

// A graph of opset 17 with the input "input" float[N,C,H,W].
std::unique_ptr<graph::Graph> image_graph(const std::string& name, const ImageModel& options);
// Makes `scores` the output, float[N,classes].
void finish(graph::Graph& graph, const ImageModel& options, graph::Value* scores);
// Throws Error when an image is smaller than `least` x `least`: nothing would be left of it.
void check_image(const std::string& network, const ImageModel& options, int64_t least);

}  // namespace sardonyx::models
