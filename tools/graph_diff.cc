#include "tools/graph_diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <onnx/onnx_pb.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "graph/print.h"
#include "graph/support/error.h"
#include "graph/text.h"

namespace sardonyx::tools {

namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;
using graph::Value;

constexpr int64_t kListedElements = 16;

void note(std::vector<Change>& changes, std::string what, const std::optional<std::string>& a,
          const std::optional<std::string>& b) {
  if (a != b) changes.push_back({std::move(what), a, b});
}

// --- values

template <class T>
ValuesDiff diff_floats(std::span<const std::byte> a, std::span<const std::byte> b) {
  const size_t n = a.size() / sizeof(T);
  ValuesDiff found{static_cast<int64_t>(n), 0, 0.0};
  T most = 0;
  bool finite = true;
  for (size_t i = 0; i < n; ++i) {
    T x, y;  // bytes of a file stand at any address
    std::memcpy(&x, a.data() + i * sizeof(T), sizeof(T));
    std::memcpy(&y, b.data() + i * sizeof(T), sizeof(T));
    if (std::memcmp(&x, &y, sizeof(T)) == 0) continue;
    ++found.differ;
    const T distance = std::abs(x - y);
    finite = finite && std::isfinite(distance);
    most = std::max(most, distance);
  }
  if (finite) {
    found.max_abs = static_cast<double>(most);
  } else {
    found.max_abs.reset();
  }
  return found;
}

ValuesDiff diff_strings(const Tensor& a, const Tensor& b) {
  ValuesDiff found{a.numel(), 0, std::nullopt};
  for (size_t i = 0; i < a.strings().size(); ++i) found.differ += a.strings()[i] != b.strings()[i];
  return found;
}

bool is_complex(graph::DType dtype) {
  return dtype == graph::DType::kComplex64 || dtype == graph::DType::kComplex128;
}

// Any other element type, one by one.
ValuesDiff diff_elements(const Tensor& a, const Tensor& b) {
  ValuesDiff found{a.numel(), 0, 0.0};
  const size_t size = a.numel() == 0 ? 0 : a.bytes().size() / static_cast<size_t>(a.numel());
  for (int64_t i = 0; i < a.numel(); ++i) {
    const size_t at = static_cast<size_t>(i) * size;
    if (std::memcmp(a.bytes().data() + at, b.bytes().data() + at, size) == 0) continue;
    ++found.differ;
    const double distance = is_complex(a.dtype()) ? NAN : std::abs(a.as_double(i) - b.as_double(i));
    if (!found.max_abs || !std::isfinite(distance)) {
      found.max_abs.reset();
    } else {
      found.max_abs = std::max(*found.max_abs, distance);
    }
  }
  return found;
}

// --- nodes

std::string tensor_text(const Tensor& tensor) {
  return tensor.type().str() + " " + graph::data_text(tensor, kListedElements);
}

std::string attribute_text(const graph::Attribute& attribute) {
  if (const auto* tensor = std::get_if<Tensor>(&attribute)) {
    return tensor->defined() ? tensor_text(*tensor) : "undefined";
  }
  if (const auto* body = std::get_if<graph::GraphAttribute>(&attribute)) {
    return fmt::format("a graph of {} bytes", body->serialized.size());
  }
  return graph::print(attribute);
}

void diff_attributes(const Node& a, const Node& b, std::vector<Change>& changes) {
  std::set<std::string> names;
  for (const auto& [name, value] : a.attributes) names.insert(name);
  for (const auto& [name, value] : b.attributes) names.insert(name);
  for (const std::string& name : names) {
    const auto in_a = a.attributes.find(name), in_b = b.attributes.find(name);
    std::optional<std::string> text_a, text_b;
    if (in_a != a.attributes.end()) text_a = attribute_text(in_a->second);
    if (in_b != b.attributes.end()) text_b = attribute_text(in_b->second);
    if (text_a && text_b) {
      if (graph::same_attribute(in_a->second, in_b->second)) continue;
      if (text_a == text_b) *text_b += " with other contents";
    }
    note(changes, "attribute " + name, text_a, text_b);
  }
}

void diff_operands(const char* what, const std::vector<Value*>& a, const std::vector<Value*>& b,
                   std::vector<Change>& changes) {
  const auto name = [](const std::vector<Value*>& values, size_t i) -> std::optional<std::string> {
    if (i >= values.size() || values[i] == nullptr) return std::nullopt;
    return values[i]->name;
  };
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    note(changes, fmt::format("{} {}", what, i), name(a, i), name(b, i));
  }
}

std::optional<std::string> type_text(const Value& value) {
  if (value.type == graph::TensorType{}) return std::nullopt;
  return value.type.str();
}

EntryDiff diff_node(const Node& a, const Node& b) {
  EntryDiff entry{b.label(), {}, {}};
  note(entry.changes, "operator", a.op, b.op);
  note(entry.changes, "domain", a.domain, b.domain);
  note(entry.changes, "name", a.name, b.name);
  note(entry.changes, "gradient of", a.forward_node, b.forward_node);
  diff_operands("input", a.inputs(), b.inputs(), entry.changes);
  diff_operands("output", a.outputs(), b.outputs(), entry.changes);
  diff_attributes(a, b, entry.changes);
  for (int i = 0; i < std::min(a.num_outputs(), b.num_outputs()); ++i) {
    if (a.output(i) == nullptr || b.output(i) == nullptr) continue;
    note(entry.changes, fmt::format("type of output {}", i), type_text(*a.output(i)),
         type_text(*b.output(i)));
  }
  return entry;
}

std::string first_output(const Node& node) {
  for (const Value* output : node.outputs()) {
    if (output != nullptr) return output->name;
  }
  return "";
}

using NodesByKey = std::unordered_map<std::string, const Node*>;

// Without those whose key is empty or not theirs alone.
template <class Key>
NodesByKey nodes_by(const std::vector<const Node*>& nodes, Key&& key) {
  NodesByKey found;
  for (const Node* node : nodes) {
    const auto [at, fresh] = found.emplace(key(*node), node);
    if (!fresh) at->second = nullptr;
  }
  std::erase_if(found, [](const auto& entry) { return !entry.second || entry.first.empty(); });
  return found;
}

// Takes the pairs out of both lists.
template <class Key>
void pair_up(std::vector<const Node*>& a, std::vector<const Node*>& b, Key&& key,
             std::unordered_map<const Node*, const Node*>& partner_of_b) {
  const NodesByKey in_a = nodes_by(a, key), in_b = nodes_by(b, key);
  std::unordered_set<const Node*> paired;
  for (const auto& [name, node] : in_b) {
    const auto partner = in_a.find(name);
    if (partner == in_a.end()) continue;
    partner_of_b[node] = partner->second;
    paired.insert({node, partner->second});
  }
  const auto gone = [&](const Node* node) { return paired.contains(node); };
  std::erase_if(a, gone);
  std::erase_if(b, gone);
}

ListDiff diff_nodes(const Graph& a, const Graph& b) {
  std::vector<const Node*> left_a, left_b;
  for (const Node& node : a.nodes()) left_a.push_back(&node);
  for (const Node& node : b.nodes()) left_b.push_back(&node);
  ListDiff list{left_a.size(), left_b.size(), {}, {}, {}};
  std::unordered_map<const Node*, const Node*> partner_of_b;
  pair_up(
      left_a, left_b, [](const Node& node) { return node.name; }, partner_of_b);
  pair_up(left_a, left_b, first_output, partner_of_b);
  for (const Node* node : left_a) list.removed.push_back(node->label());
  for (const Node* node : left_b) list.added.push_back(node->label());
  for (const Node& node : b.nodes()) {
    const auto partner = partner_of_b.find(&node);
    if (partner == partner_of_b.end()) continue;
    EntryDiff entry = diff_node(*partner->second, node);
    if (!entry.changes.empty()) list.changed.push_back(std::move(entry));
  }
  return list;
}

// --- what has a name of its own

// `compare` fills the entry of two of one name.
template <class T, class Name, class Compare>
ListDiff diff_named(const std::vector<T*>& a, const std::vector<T*>& b, Name&& name_of,
                    Compare&& compare) {
  ListDiff list{a.size(), b.size(), {}, {}, {}};
  std::unordered_map<std::string, T*> in_a;
  for (T* entry : a) in_a.emplace(name_of(*entry), entry);
  std::unordered_set<std::string> in_b;
  for (T* entry : b) {
    const std::string name = name_of(*entry);
    in_b.insert(name);
    const auto partner = in_a.find(name);
    if (partner == in_a.end()) {
      list.added.push_back(name);
      continue;
    }
    EntryDiff found{name, {}, {}};
    compare(*partner->second, *entry, found);
    if (!found.changes.empty() || found.values) list.changed.push_back(std::move(found));
  }
  for (T* entry : a) {
    if (!in_b.contains(name_of(*entry))) list.removed.push_back(name_of(*entry));
  }
  return list;
}

const std::string& name_of_value(const Value& value) { return value.name; }

ListDiff diff_ports(const std::vector<Value*>& a, const std::vector<Value*>& b) {
  return diff_named(a, b, name_of_value, [](const Value& x, const Value& y, EntryDiff& entry) {
    note(entry.changes, "type", type_text(x), type_text(y));
  });
}

std::optional<std::string> role_text(const Value& value) {
  if (!value.is_state()) return "constant";
  return std::string(graph::role_name(value.role));
}

std::optional<std::string> next_text(const Graph& graph, const Value& value) {
  const Value* next = value.is_state() ? graph.bound(&value) : nullptr;
  return next == nullptr ? std::nullopt : std::optional(next->name);
}

ListDiff diff_initializers(const Graph& a, const Graph& b) {
  const auto all = [](const Graph& graph) {
    std::vector<Value*> values = graph.constants();
    const std::vector<Value*> states = graph.states();
    values.insert(values.end(), states.begin(), states.end());
    return values;
  };
  return diff_named(all(a), all(b), name_of_value,
                    [&](const Value& x, const Value& y, EntryDiff& entry) {
                      note(entry.changes, "role", role_text(x), role_text(y));
                      note(entry.changes, "type", type_text(x), type_text(y));
                      note(entry.changes, "after the step", next_text(a, x), next_text(b, y));
                      if (x.data.defined() != y.data.defined()) {
                        const auto text = [](const Value& value) {
                          return value.data.defined() ? tensor_text(value.data) : "zeros";
                        };
                        return note(entry.changes, "values", text(x), text(y));
                      }
                      if (x.data.dtype() != y.data.dtype() || x.data.shape() != y.data.shape())
                        return;
                      if (x.data.identical(y.data)) return;
                      entry.values = diff_values(x.data, y.data);
                    });
}

// --- functions

void diff_function(const graph::Function& a, const graph::Function& b, EntryDiff& entry) {
  const auto list = [](const std::vector<std::string>& names) {
    return fmt::format("{}", fmt::join(names, ", "));
  };
  note(entry.changes, "inputs", list(a.inputs), list(b.inputs));
  note(entry.changes, "outputs", list(a.outputs), list(b.outputs));
  note(entry.changes, "attributes", list(a.attributes), list(b.attributes));
  const GraphDiff body = diff(*a.body, *b.body);
  for (const std::string& node : body.nodes.added) note(entry.changes, node, {}, "a node");
  for (const std::string& node : body.nodes.removed) note(entry.changes, node, "a node", {});
  for (const EntryDiff& node : body.nodes.changed) {
    for (const Change& change : node.changes) {
      note(entry.changes, node.name + ", " + change.what, change.a, change.b);
    }
  }
}

ListDiff diff_functions(const std::vector<graph::Function>& a,
                        const std::vector<graph::Function>& b) {
  const auto pointers = [](const std::vector<graph::Function>& functions) {
    std::vector<const graph::Function*> list;
    for (const graph::Function& function : functions) list.push_back(&function);
    return list;
  };
  const auto name = [](const graph::Function& f) { return f.domain + "::" + f.name; };
  return diff_named(pointers(a), pointers(b), name, diff_function);
}

// --- around the graph

std::map<std::string, std::string> facts_of(const graph::Model& model) {
  const onnx::ModelProto& proto = model.skeleton();
  std::map<std::string, std::string> facts;
  const auto add = [&](const std::string& what, const std::string& text) {
    if (!text.empty()) facts[what] = text;
  };
  add("IR version", std::to_string(proto.ir_version()));
  add("producer", proto.producer_name());
  add("producer version", proto.producer_version());
  add("domain", proto.domain());
  if (proto.model_version() != 0) add("model version", std::to_string(proto.model_version()));
  add("doc string", proto.doc_string());
  for (const auto& opset : proto.opset_import()) {
    add("opset " + (opset.domain().empty() ? "ai.onnx" : opset.domain()),
        std::to_string(opset.version()));
  }
  for (const auto& entry : proto.metadata_props()) add("metadata " + entry.key(), entry.value());
  return facts;
}

void diff_facts(const graph::Model& a, const graph::Model& b, std::vector<Change>& changes) {
  const auto in_a = facts_of(a), in_b = facts_of(b);
  std::set<std::string> names;
  for (const auto& [name, text] : in_a) names.insert(name);
  for (const auto& [name, text] : in_b) names.insert(name);
  const auto find = [](const auto& facts, const std::string& name) -> std::optional<std::string> {
    const auto at = facts.find(name);
    return at == facts.end() ? std::nullopt : std::optional(at->second);
  };
  for (const std::string& name : names) note(changes, name, find(in_a, name), find(in_b, name));
}

}  // namespace

bool GraphDiff::equal() const {
  return facts.empty() && nodes.count() + initializers.count() + inputs.count() + outputs.count() +
                                  functions.count() ==
                              0;
}

ValuesDiff diff_values(const Tensor& a, const Tensor& b) {
  CHECK(a.dtype() == b.dtype() && a.shape() == b.shape(), "tensors of one type are compared");
  if (a.dtype() == graph::DType::kString) return diff_strings(a, b);
  if (a.dtype() == graph::DType::kFloat32) return diff_floats<float>(a.bytes(), b.bytes());
  if (a.dtype() == graph::DType::kFloat64) return diff_floats<double>(a.bytes(), b.bytes());
  return diff_elements(a, b);
}

GraphDiff diff(const Graph& a, const Graph& b) {
  GraphDiff found;
  note(found.facts, "graph name", a.name, b.name);
  note(found.facts, "batch axis", a.batch_symbol, b.batch_symbol);
  found.nodes = diff_nodes(a, b);
  found.initializers = diff_initializers(a, b);
  found.inputs = diff_ports(a.inputs(), b.inputs());
  found.outputs = diff_ports(a.outputs(), b.outputs());
  return found;
}

GraphDiff diff(const graph::Model& model_a, const graph::ImportedModel& a,
               const graph::Model& model_b, const graph::ImportedModel& b) {
  GraphDiff found = diff(*a.graph, *b.graph);
  diff_facts(model_a, model_b, found.facts);
  found.functions = diff_functions(a.functions, b.functions);
  return found;
}

}  // namespace sardonyx::tools
