#include "ops/core/step_op.h"

namespace sardonyx::ops {

OpDef step_op(const char* name, const char* doc) {
  OpDef op;
  op.domain = kDomain;
  op.name = name;
  op.doc = doc;
  op.gradient = not_differentiable("the step ends here");
  return op;
}

}  // namespace sardonyx::ops
