// Changes an ONNX model as a model: nodes, edges, attributes, shapes, weights, functions, external
// data. Most results are models that an importer reads and looks into, which random bytes hardly
// ever are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sardonyx::fuzz {

// One to four changes. "": the bytes are no model.
std::string mutate_model(std::span<const std::byte> model, uint64_t seed);

// `one` with a node of `other`, and the weights that it reads. "": one of them is no model.
std::string cross_models(std::span<const std::byte> one, std::span<const std::byte> other,
                         uint64_t seed);

}  // namespace sardonyx::fuzz
