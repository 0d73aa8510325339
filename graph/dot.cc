#include "graph/dot.h"

#include <fmt/format.h>

#include <unordered_map>

#include "graph/support/text.h"

namespace sardonyx::graph {
namespace {

// A quoted dot string, valid UTF-8 without control characters; `lines` are centred below one
// another.
std::string dot_string(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) {
    if (!out.empty()) out += "\\n";
    for (const char c : support::escaped(line)) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return "\"" + out + "\"";
}

struct Look {
  std::string_view shape, colour;
};

Look look_of(const Value& value) {
  switch (value.kind) {
    case ValueKind::kState:
      return {"cylinder", value.role == StateRole::kParameter ? "#ffe08a" : "#ffd0b0"};
    case ValueKind::kConstant:
      return {"note", "#eeeeee"};
    default:
      return {"ellipse", "#cfe8ff"};
  }
}

class DotWriter {
 public:
  explicit DotWriter(const Graph& graph) : graph_(graph) {}

  std::string write() {
    out_ = fmt::format("digraph {} {{\n", dot_string({graph_.name}));
    out_ += "  node [style=filled, fontname=\"sans-serif\", fontsize=10];\n";
    out_ += "  edge [fontname=\"sans-serif\", fontsize=9];\n";
    for (const Value& value : graph_.values()) {
      if (value.kind != ValueKind::kResult) leaf(value);
    }
    for (const Node& node : graph_.nodes()) box(node);
    for (const Node& node : graph_.nodes()) {
      for (const Value* input : node.inputs()) {
        if (input != nullptr) edge(*input, ids_.at(&node), "");
      }
    }
    outputs();
    for (const Binding& binding : graph_.bindings()) {
      edge(*binding.next, ids_.at(binding.state), ", style=dashed, constraint=false");
    }
    return out_ + "}\n";
  }

 private:
  std::string new_id(const void* of, char kind) {
    return ids_.emplace(of, fmt::format("{}{}", kind, ids_.size())).first->second;
  }

  void leaf(const Value& value) {
    const auto [shape, colour] = look_of(value);
    std::vector<std::string> lines{value.name, value.type.str()};
    if (value.is_state()) lines.emplace_back(role_name(value.role));
    out_ += fmt::format("  {} [label={}, shape={}, fillcolor=\"{}\"];\n", new_id(&value, 'v'),
                        dot_string(lines), shape, colour);
  }

  void box(const Node& node) {
    std::vector<std::string> lines{node.domain.empty() ? node.op : node.domain + "." + node.op};
    if (!node.name.empty()) lines.push_back(node.name);
    if (!node.forward_node.empty()) lines.push_back("of " + node.forward_node);
    out_ += fmt::format("  {} [label={}, shape=box, fillcolor=\"{}\"];\n", new_id(&node, 'n'),
                        dot_string(lines), node.forward_node.empty() ? "#ffffff" : "#f6c6d0");
  }

  void outputs() {
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Value& value = *graph_.outputs()[i];
      const std::string id = fmt::format("out{}", i);
      out_ += fmt::format("  {} [label={}, shape=ellipse, fillcolor=\"#cdeccd\"];\n", id,
                          dot_string({value.name, value.type.str()}));
      edge(value, id, "");
    }
  }

  void edge(const Value& from, const std::string& to, std::string_view style) {
    const void* source = &from;
    std::vector<std::string> label;
    if (from.producer != nullptr) {
      source = from.producer;
      label = {from.name, from.type.str()};
    }
    out_ +=
        fmt::format("  {} -> {} [label={}{}];\n", ids_.at(source), to, dot_string(label), style);
  }

  const Graph& graph_;
  std::unordered_map<const void*, std::string> ids_;
  std::string out_;
};

}  // namespace

std::string to_dot(const Graph& graph) { return DotWriter(graph).write(); }

}  // namespace sardonyx::graph
