// What the loss needs of nodes that can't be run: `sardonyx check` says how much each is in the
// way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace sardonyx::tools {

enum class Need : uint8_t {
  kSideOutputs,  // the loss is computed without it
  kForward,      // the loss is computed from it, but no parameter through it
  kGradient,     // a parameter reaches the loss through it
};

const char* need_name(Need need);  // "gradient": in JSON
const char* need_text(Need need);  // "on a path that needs a gradient"

// One per node of `missing`. `graph`: as far as the preparation came. `target`: name of the value
// that the loss reads, or is; "": any of the graph's outputs may be it.
std::vector<Need> needs(const graph::Graph& graph,
                        const std::vector<passes::UnsupportedNode>& missing,
                        const std::string& target);

// All nodes of one operator with one reason and one need.
struct UnsupportedGroup {
  std::string op, reason;
  Need need = Need::kForward;
  int64_t count = 0;
  std::vector<std::string> nodes;  // the first ones
  std::vector<std::string> near;   // operators that there are, of almost this name
};

// Those that are most in the way first, then by count.
std::vector<UnsupportedGroup> grouped(const std::vector<passes::UnsupportedNode>& missing,
                                      const std::vector<Need>& needs);

}  // namespace sardonyx::tools
