// Checkpoints of a run on disk: DIR/step-00000123/ with state.safetensors and manifest.json.
//
// A folder step-* is always whole: it is written as .saving-*, flushed to the disk, and then gets
// its name in one rename; it is taken away by a rename to .removing-* first. So a process may die
// at any moment; what it leaves behind goes when the next one opens DIR. When to write is
// runtime/checkpointer.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/checkpoint_manifest.h"
#include "runtime/safetensors.h"

namespace sardonyx::runtime {

struct Checkpoint {
  std::filesystem::path path;
  Manifest manifest;
  NamedTensors states;  // borrow the mapped file
};

class CheckpointFolder {
 public:
  // Takes `folder` for this process, until it ends; makes it where its parent exists. Throws Error:
  // another process has it, it can't be made or written to.
  explicit CheckpointFolder(std::filesystem::path folder);
  // Takes the folder away again if it was made here and is empty.
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  // Steps of all that are there, whole or not, newest first.
  std::vector<int64_t> steps() const;
  // The newest that is whole; newer ones that are damaged get the name damaged-step-* and a warning
  // each. nullopt: there are none. Throws Error when all are damaged, or one is of a later format
  // or may not be read.
  std::optional<Checkpoint> newest();
  // Writes one and returns its path; manifest.files is filled in. `value` gives the state of a
  // name. Throws Error; those that were there stand then. CHECK: there is none of that step.
  std::filesystem::path write(Manifest manifest, const std::vector<SavedState>& states,
                              const std::function<graph::Tensor(const std::string&)>& value);
  // Removes all but the newest `count`. Throws Error.
  void keep_newest(int64_t count);

 private:
  std::filesystem::path place(const char* prefix, int64_t step) const;
  void try_write() const;
  void remove_leftovers() const;
  Checkpoint load(int64_t step) const;

  std::filesystem::path folder_;
  bool made_ = false;
  std::shared_ptr<const void> lock_;  // an open file; its last owner closes it
};

// Of the model's file, and of the weights that it keeps in other files.
FileSum sum_of(const Session& session);

}  // namespace sardonyx::runtime
