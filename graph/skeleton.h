// The messages of an ONNX file without their large payloads, parsed by the protobuf library.
//
// Each tensor of the skeleton (and each graph in an attribute) carries where it stands in the file,
// as an unknown field; a field of that number in the file itself is dropped, so a place can be
// trusted.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "graph/wire.h"

namespace onnx {
class GraphProto;
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace sardonyx::graph {

// Payload fields of tensors up to this size stay in the skeleton.
inline constexpr size_t kLargestKeptPayload = 1024;

// Throws Error: malformed, truncated, nested deeper than wire::kDeepestNesting.
std::string skeleton_bytes(std::span<const std::byte> file);
void parse_skeleton(std::span<const std::byte> file, onnx::ModelProto& model);

// Content of the message in the file; nothing when the message doesn't come from a skeleton.
std::optional<wire::Span> place_of(const onnx::TensorProto& tensor);
std::optional<wire::Span> place_of(const onnx::GraphProto& graph);

}  // namespace sardonyx::graph
