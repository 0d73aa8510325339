// What a node test of the ONNX backend needs, so that known_limits.txt can name operators and types
// instead of tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sardonyx::cases {

// Sorted: "operator:NAME", "operator:DOMAIN::NAME" for each operator, also of graphs inside nodes;
// "type:float8e4m3fn", "type:sequence" for each type of an input, output or initializer. Of a file
// that can't be read: nothing. `folder` holds model.onnx.
std::vector<std::string> needs_of(const std::filesystem::path& folder);

}  // namespace sardonyx::cases
