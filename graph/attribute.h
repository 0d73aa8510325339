// A node's attribute. Floats are kept in double: a float32 from a file stays exactly representable,
// and Sardonyx's own operators (momentum 0.9 in a float64 run) need the full precision.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "graph/tensor.h"

namespace sardonyx::graph {

// A subgraph (body of If, Loop, Scan), kept as it stands in the file: nothing inside Sardonyx runs
// it.
struct GraphAttribute {
  std::string serialized;                 // GraphProto bytes
  std::vector<std::string> outer_values;  // names that the body reads from the enclosing graphs
  friend bool operator==(const GraphAttribute&, const GraphAttribute&) = default;
};

// Inside a function body: the value is the call's attribute of this name.
struct AttributeReference {
  std::string name;
  friend bool operator==(const AttributeReference&, const AttributeReference&) = default;
};

using Attribute =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, Tensor, GraphAttribute, AttributeReference>;

// "int", "float", "string", "ints", ...: for messages.
std::string_view attribute_kind(const Attribute& attribute);
// Same kind and value (tensors bit for bit).
bool same_attribute(const Attribute& a, const Attribute& b);

}  // namespace sardonyx::graph
