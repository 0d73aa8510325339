// What `OpDef::apply_mode` sees: the trainer's switch decides between training and evaluation form,
// not the file.
#pragma once

#include "ops/core/op_builder.h"

namespace sardonyx::ops {

class ModeContext {
 public:
  enum class Dropout : uint8_t { kActive, kOff };

  ModeContext(Node& node, bool training, Dropout dropout, bool respect_file)
      : node_(node),
        builder_(*node.graph(), &node),
        training_(training),
        dropout_(dropout),
        respect_file_(respect_file) {}

  Node& node() { return node_; }
  // Writes typed nodes in front of the node; outputs of the node may then be replaced
  // (Graph::replace_uses) and the node is left without uses for eliminate_dead.
  OpBuilder& b() { return builder_; }
  bool training() const { return training_; }
  bool dropout_active() const { return training_ && dropout_ == Dropout::kActive; }
  // --respect-training-mode: the node's own training_mode decides.
  bool respect_file() const { return respect_file_; }

 private:
  Node& node_;
  OpBuilder builder_;
  bool training_;
  Dropout dropout_;
  bool respect_file_;
};

}  // namespace sardonyx::ops
