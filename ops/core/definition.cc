#include "ops/core/definition.h"

namespace sardonyx::ops {

OpDef standard_op(std::string name, std::string doc, std::vector<int> since,
                  std::vector<Port> inputs, std::vector<Port> outputs, InferRule infer) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.since = std::move(since);
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.infer = infer;
  return op;
}

OpDef own_op(std::string name, std::string doc, std::vector<Port> inputs, std::vector<Port> outputs,
             InferRule infer) {
  OpDef op = standard_op(std::move(name), std::move(doc), {}, std::move(inputs), std::move(outputs),
                         infer);
  op.domain = kDomain;
  return op;
}

OpDef gradient_op(std::string name, std::string doc, const std::string& forward,
                  std::vector<Port> inputs, std::vector<Port> outputs, InferRule infer) {
  OpDef op = own_op(std::move(name), std::move(doc), std::move(inputs), std::move(outputs), infer);
  op.gradient = not_differentiable("second derivative of " + forward);
  return op;
}

}  // namespace sardonyx::ops
