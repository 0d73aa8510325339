// Builds the registry of operators from ops.def.
#include "ops/registry.h"

#include "ops/core/op.h"

namespace sardonyx::ops {

const OpRegistry& OpRegistry::get() {
  static const OpRegistry registry = [] {
    OpRegistry r;
#define ROOM(name) register_##name(r);
#define VIEW_ROOM(name) register_##name(r);
#include "ops/ops.def"
#undef ROOM
#undef VIEW_ROOM
    return r;
  }();
  return registry;
}

}  // namespace sardonyx::ops
