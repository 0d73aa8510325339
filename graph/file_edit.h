// Edits of a model file, by the place of the message they change, and the file that results:
// untouched bytes are taken over as they stand, lengths of the enclosing messages are corrected.
// Internal to saving.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "graph/tensor.h"
#include "graph/wire.h"

namespace sardonyx::graph {

// Where the new payload of an external tensor goes.
enum class Payload : uint8_t { kInPlace, kIntoTheModel };

struct TensorEdit {
  Tensor value;  // of the file's type and shape; undefined: the payload stays
  Payload payload = Payload::kInPlace;
  std::map<std::string, std::string> external_entries;  // entries of external_data to set
  bool drop_checksum = false;
};

struct NodeChange {
  std::map<int, std::string> inputs;  // slot -> name
  std::string op;                     // "" keeps it
  std::map<std::string, int64_t> int_attributes;
  int keep_inputs = -1, keep_outputs = -1;  // drops those behind; -1: all stay
};

// Keys are where the content of the message begins in the file.
class FileEdit {
 public:
  explicit FileEdit(std::span<const std::byte> file) : file_(file) {}

  TensorEdit& tensor(size_t message) { return note(message), tensors_[message]; }
  NodeChange& node(size_t message) { return note(message), nodes_[message]; }
  // value_float or value_floats of a Constant.
  void set_floats(size_t attribute, Tensor value) {
    note(attribute), floats_[attribute] = std::move(value);
  }
  void rename_function(size_t function, std::string name) {
    note(function), function_names_[function] = std::move(name);
  }
  void drop(size_t message) { note(message), dropped_.insert(message); }
  // Fields put behind the content of a message: new initializers behind a graph, new functions
  // behind the model.
  void append(size_t message, std::string fields) { note(message), additions_[message] += fields; }

  // The message with its edits. Borrows from the file and from the edit.
  wire::Rope apply(wire::Message kind, wire::Span message) const;

 private:
  void note(size_t place) { places_.insert(place); }
  bool touches(wire::Span span) const;
  void add_span(wire::Rope& out, size_t begin, size_t end) const;
  void add_child(wire::Rope& out, const wire::Field& field, wire::Message kind) const;
  wire::Rope tensor_with(const TensorEdit& edit, wire::Span message) const;
  wire::Rope attribute_with(const Tensor& floats, wire::Span message) const;
  wire::Rope node_with(const NodeChange& change, wire::Span message) const;
  wire::Rope function_with(const std::string& name, wire::Span message) const;

  std::span<const std::byte> file_;
  std::set<size_t> places_;
  std::map<size_t, TensorEdit> tensors_;
  std::map<size_t, NodeChange> nodes_;
  std::map<size_t, Tensor> floats_;
  std::map<size_t, std::string> function_names_;
  std::map<size_t, std::string> additions_;
  std::set<size_t> dropped_;
};

}  // namespace sardonyx::graph
