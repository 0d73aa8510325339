// The call graph of a file's local functions: no recursion, and inlining must stay within limits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "graph/faults.h"

namespace onnx {
class ModelProto;
}

namespace sardonyx::graph {

// Nodes after inlining every call, and how deep calls may nest.
inline constexpr int64_t kMostExpandedNodes = 1'000'000;
inline constexpr int kDeepestCalls = 64;

// Functions by domain and name (with overload, as `callee_name` gives it).
using FunctionIndex = std::map<std::pair<std::string, std::string>, int>;
FunctionIndex index_functions(const onnx::ModelProto& model, Faults& faults);

// Counts, recursion and the size of it all.
void check_calls(const onnx::ModelProto& model, const FunctionIndex& functions, Faults& faults);

}  // namespace sardonyx::graph
