// What changes in the user's file so that it computes what evaluation does, whoever runs it: the
// nodes that have a training form say it themselves (OpDef::inference_form). Saving writes these
// edits; the training graph is not involved.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/onnx_export.h"
#include "graph/onnx_import.h"
#include "ops/core/op.h"

namespace sardonyx::ops {

// What `OpDef::inference_form` sees: a node as it stands in the file, before any normalization.
class InferenceFormContext {
 public:
  InferenceFormContext(const Node& node, int64_t opset) : node_(node), opset_(opset) {}

  const Node& node() const { return node_; }
  int64_t opset() const { return opset_; }
  // Inside a function an attribute may be the call's, and isn't known then: false.
  bool attribute_is(std::string_view name, int64_t value, int64_t fallback) const;
  // An initializer or the output of a Constant; undefined for anything else.
  Tensor constant(int input) const;
  // Left as it is for a node that is in inference form already.
  graph::NodeEdit& edit() { return edit_; }

 private:
  const Node& node_;
  int64_t opset_;
  graph::NodeEdit edit_;
};

struct InferenceForm {
  // The Constant nodes that only dropped inputs read are among them.
  std::vector<graph::NodeEdit> edits;
  // Of the main graph: likewise.
  std::vector<std::string> unread_initializers;
  // Nodes that keep their training form, because something reads an output that only it has.
  std::vector<std::string> notices;
};

// For the main graph and the local functions of a model as it was imported.
InferenceForm inference_form(const graph::ImportedModel& model,
                             const OpRegistry& registry = OpRegistry::get());

}  // namespace sardonyx::ops
