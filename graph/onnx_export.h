// Saving: the user's own file with new values at the origins of trained values; and writing a graph
// as a new ONNX file (built-in models).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/model.h"

namespace sardonyx::graph {

struct NewValue {
  Origin origin;
  Tensor value;  // cast to the file's type when that differs
};

// A change of one node of the file, for the form in which the caller wants it saved (a
// BatchNormalization in inference form: training_mode 0, one output). Inside a local function it
// holds for all its calls.
struct NodeEdit {
  int32_t function = -1;  // index in the file; -1: the main graph
  std::string path;       // of a graph inside nodes there, as Origin::path spells it; "": none
  int32_t node = -1;      // index in that graph or body, in file order
  std::map<std::string, int64_t> ints;  // attributes to set, added when absent
  int keep_inputs = -1;                 // drops the inputs behind these; -1: all stay
  int keep_outputs = -1;                // the dropped ones must have no readers
  bool remove = false;                  // the whole node, whose outputs must have no readers
};

struct SaveOptions {
  bool overwrite_input = false;
  std::vector<NodeEdit> node_edits;
  // Initializers of the main graph that go, unless they are inputs of the file, too: nothing reads
  // them after the edits.
  std::vector<std::string> dropped_initializers;
  size_t protobuf_limit = INT32_MAX;            // bytes; a larger file gets a notice
  std::vector<std::string>* notices = nullptr;  // lines about what had to be done differently
  // The external data files that were written.
  std::vector<std::filesystem::path>* data_files = nullptr;
};

// Writes `model` to `path` with `values` at their origins: payload bytes are replaced where they
// stand (inline, typed field, Constant node, external file), everything else is copied byte for
// byte. With no values the result is identical to the file. Atomic: temporary name, fsync, rename;
// on any failure the old `path` stands and no temporary file stays. External data files are written
// next to `path`.
//  * A value of an origin with `split_use` becomes an initializer of that name, read by the input
//  it was split
//    for: `origin.node` and `origin.slot` if set, else as the text "NAME@NODE:INPUT" says.
//  * A value of a graph input becomes an initializer with the input's name.
//  * A value of one slice along an axis where the file's tensor has several is repeated over them.
//  * A value inside a local function that is called more than once goes into a copy of the
//  function, which
//    that call then uses.
// Throws Error: unwritable, disk full, `path` is the model itself (unless `overwrite_input`), an
// origin that the file doesn't have, a value of another shape.
//  * Where that value is external data, the copy holds it itself.
//  * A Constant that takes its value from an attribute of the function changes the attribute at the
//  call, or, when the call has none, the function's default.
void save_model(const Model& model, const std::vector<NewValue>& values,
                const std::filesystem::path& path, const SaveOptions& options = {});
// Throws what save_model would throw about the model, the values and the files that are there, and
// writes nothing. An empty path: wherever it will be.
void check_save(const Model& model, const std::vector<NewValue>& values,
                const std::filesystem::path& path, const SaveOptions& options = {});

// A graph of standard operators as a new ONNX file, with shapes and weights. For models/ and tests.
void write_onnx(const Graph& graph, const std::filesystem::path& path);
std::string to_onnx_bytes(const Graph& graph);

// Writes `bytes` under a temporary name beside `path`, then renames. Shared by everything that
// saves.
void write_file_atomically(const std::filesystem::path& path, std::string_view bytes);

}  // namespace sardonyx::graph
