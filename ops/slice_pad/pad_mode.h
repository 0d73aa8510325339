// What Pad puts around x; private to the room.
#pragma once

#include <cstdint>

namespace sardonyx::ops {

enum class PadMode : uint8_t { kConstant, kReflect, kEdge, kWrap };

}  // namespace sardonyx::ops
