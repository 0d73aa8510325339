// Saving: the user's own file with new values at the origins of trained values; and writing a graph
// as a new ONNX file (built-in models).
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/model.h"

namespace sardonyx::graph {

struct NewValue {
  Origin origin;
  Tensor value;  // cast to the file's type when that differs
};

// Writes `model` to `path` with `values` at their origins: payload bytes are replaced where they
// stand (inline, typed field, Constant node, external file), everything else is copied byte for
// byte. With no values the result is identical to the file. Atomic: temporary name, fsync, rename;
// on any failure the old `path` stands and no temporary file stays. External data files are written
// next to `path`. Throws Error: unwritable, disk full, `path` is the model itself (unless
// `overwrite_input`).
struct SaveOptions {
  bool overwrite_input = false;
};
void save_model(const Model& model, const std::vector<NewValue>& values,
                const std::filesystem::path& path, const SaveOptions& options = {});

// A graph of standard operators as a new ONNX file, with shapes and weights. For models/ and tests.
void write_onnx(const Graph& graph, const std::filesystem::path& path);
std::string to_onnx_bytes(const Graph& graph);

// Writes `bytes` under a temporary name beside `path`, then renames. Shared by everything that
// saves.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

}  // namespace sardonyx::graph
