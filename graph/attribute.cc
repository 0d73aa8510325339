#include "graph/attribute.h"

#include <array>
#include <cstring>

namespace sardonyx::graph {
namespace {

// Bit for bit: NaN equals the same NaN, 0 differs from -0.
bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

template <class T>
bool same_value(const T& a, const T& b) {
  return a == b;
}

bool same_value(double a, double b) { return same_bits(a, b); }

bool same_value(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

bool same_value(const Tensor& a, const Tensor& b) { return a.identical(b); }

}  // namespace

std::string_view attribute_kind(const Attribute& attribute) {
  constexpr std::array<std::string_view, std::variant_size_v<Attribute>> kNames{
      "int", "float", "string", "ints", "floats", "strings", "tensor", "graph", "reference"};
  return kNames[attribute.index()];
}

bool same_attribute(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&b](const auto& value) {
        return same_value(value, std::get<std::decay_t<decltype(value)>>(b));
      },
      a);
}

}  // namespace sardonyx::graph
