// Graphs as ONNX files for viewers (`inspect --format onnx`): what graph/onnx_write.h needs to know
// about operators. Canonical nodes are those of the newest form of their operator, so the file
// declares the opset that has them.
#pragma once

#include <filesystem>
#include <vector>

#include "graph/graph.h"
#include "graph/model.h"
#include "graph/onnx_import.h"
#include "passes/plan.h"

namespace sardonyx::tools {

// Those beside the file: one where it would be too large with the values in it, else none.
using DataFiles = std::vector<std::filesystem::path>;

// Its metadata say what it is, so that nobody takes it for a trained model.
DataFiles write_training_graph(const graph::Model& model, const passes::Plan& plan,
                               const std::filesystem::path& path);
DataFiles write_imported(const graph::Model& model, const graph::ImportedModel& imported,
                         const std::filesystem::path& path);

}  // namespace sardonyx::tools
