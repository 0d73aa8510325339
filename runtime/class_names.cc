#include "runtime/class_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/support/text.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

namespace {

using graph::Node;
using graph::Value;
using Names = std::vector<std::string>;

constexpr const char* kDomain = "ai.onnx.ml";
constexpr int kLayers = 4;  // between the index and what picks by it: Cast, Reshape
constexpr size_t kShown = 6;

Names numbers(const std::vector<int64_t>& values) {
  Names names;
  for (const int64_t value : values) names.push_back(std::to_string(value));
  return names;
}

Names of_zip_map(const Node& node) {
  const auto strings = node.attributes.find("classlabels_strings");
  if (strings != node.attributes.end()) {
    const auto* list = std::get_if<Names>(&strings->second);
    if (list != nullptr && !list->empty()) return *list;
  }
  return numbers(node.get_ints("classlabels_int64s", {}));
}

bool is_index_of_best(const Value* value, int layers) {
  const Node* node = value == nullptr ? nullptr : value->producer;
  if (node == nullptr || node->is("", "ArgMax")) return node != nullptr;
  return layers > 0 && node->num_inputs() > 0 && is_index_of_best(node->input(0), layers - 1);
}

// The operand that ArgMax picks from.
Names of_picked_list(const Node& node) {
  const Value* list = node.input(0);
  if (list == nullptr || !list->is_constant() || !list->data.defined()) return {};
  if (!is_index_of_best(node.input(1), kLayers)) return {};
  if (list->type.dtype == graph::DType::kString) return list->data.strings();
  return graph::is_integer(list->type.dtype) ? numbers(list->data.to_ints()) : Names();
}

bool are_places(const Names& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != std::to_string(i)) return false;
  }
  return true;
}

}  // namespace

Names class_names(const graph::Graph& imported, int64_t classes) {
  for (const Node& node : imported.nodes()) {
    Names names;
    if (node.is(kDomain, "ZipMap")) names = of_zip_map(node);
    if (node.is(kDomain, "ArrayFeatureExtractor")) names = of_picked_list(node);
    if (std::ssize(names) == classes && !are_places(names)) return names;
  }
  return {};
}

std::string class_names_str(const Names& names) {
  Names shown;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    shown.push_back(support::escaped(names[i]));
  }
  if (names.size() > kShown) shown.emplace_back("...");
  return fmt::format("{}: labels are positions 0..{} in that list", join(shown), names.size() - 1);
}

}  // namespace sardonyx::runtime
