// The data files of a model on their way to the folder of a saved copy: new bytes at the offsets of
// edited tensors, everything else as it stands. Internal to saving.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/external_data.h"
#include "graph/file_edit.h"
#include "graph/model.h"
#include "graph/support/atomic_file.h"
#include "graph/tensor_message.h"

namespace sardonyx::graph {

class ExternalFiles {
 public:
  enum class Originals : uint8_t { kKeep, kOverwrite };

  // Finds every external tensor of the model, also in graphs inside nodes and in functions.
  explicit ExternalFiles(const Model& model);

  bool is_external(size_t tensor) const { return places_.contains(tensor); }
  // New bytes for the tensor whose message begins at `tensor`; of the file's type and shape.
  void set(size_t tensor, Tensor value) { values_[tensor] = std::move(value); }

  // Writes what the model saved at `target` needs beside it as temporary files, and notes changed
  // locations and offsets in all `edits`. Files that are there stay, except those of a model that
  // `target` replaces and, if `originals` says so, the model's own: a changed copy then gets a name
  // made from `target`'s.
  std::vector<std::unique_ptr<support::AtomicFile>> write(const std::filesystem::path& target,
                                                          Originals originals,
                                                          const std::vector<FileEdit*>& edits);
  // Throws what write() would throw about the files that are there, and writes nothing.
  void check(const std::filesystem::path& target, Originals originals) const;

 private:
  struct Place {
    TensorMessage message;
    ExternalRange range;
  };
  void collect(wire::Message kind, wire::Span message);
  struct Target {
    std::filesystem::path path;
    Originals originals = Originals::kKeep;
    std::vector<std::filesystem::path> replaced;  // data files of the model that is there now
  };
  using Edits = std::vector<FileEdit*>;
  enum class Fate : uint8_t { kIsThere, kKeepsName, kGetsName };
  Fate fate(const std::string& location, const std::vector<size_t>& tensors,
            const Target& target) const;
  Target target_at(const std::filesystem::path& path, Originals originals) const;
  // By location, not by file: two links to one file become two files, each with its own edits.
  std::map<std::string, std::vector<size_t>> by_location() const;
  bool is_changed(const std::vector<size_t>& tensors) const;
  std::unique_ptr<support::AtomicFile> write_one(const std::string& location,
                                                 const std::vector<size_t>& tensors,
                                                 const Target& target, const Edits& edits);
  wire::Rope new_content(const std::vector<size_t>& tensors, std::span<const std::byte> old,
                         const Edits& edits) const;
  bool may_write(const std::filesystem::path& path, const Target& target) const;
  std::string new_location(const std::string& location, const Target& target) const;
  std::vector<std::filesystem::path> files() const;

  const Model& model_;
  std::map<size_t, Place> places_;
  std::map<size_t, Tensor> values_;
};

}  // namespace sardonyx::graph
