// What a node says about itself: typed access to its attributes and its name in messages.
#include <fmt/format.h>

#include "graph/graph.h"
#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::graph {
namespace {

// The attribute as kind T, nullptr when it is absent.
template <class T>
const T* get(const Node& node, std::string_view name, std::string_view expected) {
  const auto at = node.attributes.find(name);
  if (at == node.attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&at->second);
  if (value != nullptr) return value;
  throw Error("attribute '{}' of node {} has kind {}, expected {}", name, node.label(),
              attribute_kind(at->second), expected);
}

template <class T>
T get_or(const Node& node, std::string_view name, std::string_view expected, T fallback) {
  const T* value = get<T>(node, name, expected);
  return value != nullptr ? *value : std::move(fallback);
}

}  // namespace

int64_t Node::get_int(std::string_view attribute, int64_t fallback) const {
  return get_or(*this, attribute, "int", fallback);
}

double Node::get_float(std::string_view attribute, double fallback) const {
  return get_or(*this, attribute, "float", fallback);
}

std::string Node::get_string(std::string_view attribute, std::string fallback) const {
  return get_or(*this, attribute, "string", std::move(fallback));
}

std::vector<int64_t> Node::get_ints(std::string_view attribute,
                                    std::vector<int64_t> fallback) const {
  return get_or(*this, attribute, "ints", std::move(fallback));
}

std::vector<double> Node::get_floats(std::string_view attribute,
                                     std::vector<double> fallback) const {
  return get_or(*this, attribute, "floats", std::move(fallback));
}

const Tensor* Node::get_tensor(std::string_view attribute) const {
  return get<Tensor>(*this, attribute, "tensor");
}

std::string Node::label() const {
  const std::string kind = support::escaped(domain.empty() ? op : domain + "." + op);
  if (!name.empty()) return fmt::format("{} ({})", support::escaped(name), kind);
  for (const Value* value : outputs_) {
    if (value != nullptr) return fmt::format("{} -> {}", kind, support::escaped(value->name));
  }
  return kind;
}

}  // namespace sardonyx::graph
