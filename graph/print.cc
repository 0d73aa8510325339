// Graphs and nodes in text; attributes and tensor data are in print_attribute.cc.
#include "graph/print.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/support/text.h"
#include "graph/text.h"

namespace sardonyx::graph {
namespace {

constexpr size_t kLineWidth = 100;
constexpr size_t kCommentColumn = 60;  // comments are aligned up to here

// A node's name stands bare in its brackets when it is words of these characters, none of them
// "of".
bool is_plain_words(std::string_view name) {
  std::string_view rest = name;
  while (true) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (word.empty() || word == "of") return false;
    for (const char c : word) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (!letter && !(c >= '0' && c <= '9') &&
          std::string_view("_./:-").find(c) == std::string_view::npos) {
        return false;
      }
    }
    if (word.size() == rest.size()) return true;
    rest.remove_prefix(word.size() + 1);
  }
}

std::string bracket_name(std::string_view name) {
  return is_plain_words(name) ? std::string(name) : quote(name);
}

std::string operand(const Value* value) {
  return value != nullptr ? quote_name(value->name) : "\"\"";
}

std::string operands(const std::vector<Value*>& values) {
  std::string out;
  for (const Value* value : values) {
    if (!out.empty()) out += ", ";
    out += operand(value);
  }
  return out;
}

std::string operator_name(const Node& node) {
  const bool plain = is_identifier(node.op) && node.op.find('.') == std::string::npos;
  if (plain && node.domain.empty()) return node.op;
  if (plain && is_identifier(node.domain)) return node.domain + "." + node.op;
  return quote(node.domain) + "." + quote(node.op);
}

// "float[2] x", or only the name while nothing is known about the type.
std::string typed_name(const Value& value) {
  const std::string name = quote_name(value.name);
  return value.type == TensorType{} ? name : value.type.str() + " " + name;
}

std::string origin_text(const Origin& origin) {
  std::string out = origin.path.empty() ? "" : origin.path + "/";
  out += origin.tensor;
  if (!origin.split_use.empty()) out += " split " + origin.split_use;
  return out;
}

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string graph(const Graph& graph) {
    header(graph);
    signature(graph);
    initializers(graph);
    body(graph);
    return std::move(out_);
  }

 private:
  struct Item {
    std::string text;
    std::string comment;
    std::string heading = {};
  };

  void header(const Graph& graph) {
    std::string opsets;
    for (const auto& [domain, version] : graph.opsets) {
      opsets += fmt::format("{}{} : {}", opsets.empty() ? "" : ", ", quote(domain), version);
    }
    out_ += fmt::format("<ir_version: {}, opset_import: [{}]", graph.ir_version, opsets);
    if (!graph.batch_symbol.empty()) out_ += ", batch: " + quote_name(graph.batch_symbol);
    out_ += ">\n";
  }

  // `items` between the brackets: on the current line if that is short enough, else one per line.
  void enclosed(char open, const std::vector<Item>& items, char close) {
    const size_t line_start = out_.rfind('\n') + 1;
    size_t width = out_.size() - line_start + 2;
    bool comments = false;
    for (const Item& item : items) {
      width += item.text.size() + 2;
      comments = comments || !item.comment.empty();
    }
    out_ += open;
    if (!comments && width <= kLineWidth) {
      for (size_t i = 0; i < items.size(); ++i) out_ += (i != 0 ? ", " : "") + items[i].text;
    } else {
      for (size_t i = 0; i < items.size(); ++i) {
        out_ += "\n  " + items[i].text + (i + 1 < items.size() ? "," : "");
        if (!items[i].comment.empty()) out_ += "  # " + items[i].comment;
      }
      out_ += "\n";
    }
    out_ += close;
  }

  void signature(const Graph& graph) {
    std::vector<Item> inputs;
    for (const Value* value : graph.inputs()) inputs.push_back({typed_name(*value), from({value})});
    std::vector<Item> outputs;
    for (const Value* value : graph.outputs()) outputs.push_back({typed_name(*value), ""});
    out_ += quote_name(graph.name) + " ";
    enclosed('(', inputs, ')');
    out_ += " => ";
    enclosed('(', outputs, ')');
  }

  void initializers(const Graph& graph) {
    std::vector<Item> items;
    for (const Value& value : graph.values()) {
      if (!value.is_constant() && !value.is_state()) continue;
      std::string text = typed_name(value);
      if (value.is_state()) text = fmt::format("state({}) {}", role_name(value.role), text);
      if (value.data.defined()) text += " = " + data_text(value.data, options_.max_elements);
      items.push_back({std::move(text), from({&value})});
    }
    if (items.empty()) {
      out_ += " {\n";
      return;
    }
    out_ += "\n";
    enclosed('<', items, '>');
    out_ += "\n{\n";
  }

  void body(const Graph& graph) {
    std::vector<Item> lines;
    size_t column = 0;
    for (const Node& node : graph.nodes()) {
      lines.push_back({"  " + print(node), comment(node), noted(options_.heading, node)});
      const size_t width = lines.back().text.size();
      if (width <= kCommentColumn) column = std::max(column, width);
    }
    for (const Item& line : lines) {
      if (!line.heading.empty()) out_ += "  # " + line.heading + "\n";
      out_ += line.text;
      if (!line.comment.empty()) {
        out_.append(std::max(column, line.text.size()) - line.text.size() + 2, ' ');
        out_ += "# " + line.comment;
      }
      out_ += "\n";
    }
    for (const auto& [state, next] : graph.bindings()) {
      out_ += fmt::format("  {} := {}\n", quote_name(state->name), quote_name(next->name));
    }
    out_ += "}\n";
  }

  // "float[N,4], int64[1]"; "" while no output has a type.
  std::string comment(const Node& node) const {
    std::string types;
    bool known = false;
    for (const Value* output : node.outputs()) {
      if (output == nullptr) continue;
      known = known || output->type != TensorType{};
      types += (types.empty() ? "" : ", ") + output->type.str();
    }
    if (!known || !options_.types) types.clear();
    std::string text = types;
    for (const std::string& more :
         {from({node.outputs().begin(), node.outputs().end()}), noted(options_.remark, node)}) {
      if (!more.empty()) text += (text.empty() ? "" : " # ") + more;
    }
    return text;
  }

  static std::string noted(const std::function<std::string(const Node&)>& note, const Node& node) {
    return note ? note(node) : "";
  }

  // "from conv1.weight": where the values stand in the file.
  std::string from(const std::vector<const Value*>& values) const {
    std::string out;
    if (!options_.origins) return out;
    for (const Value* value : values) {
      if (value == nullptr || value->origin.kind == Origin::Kind::kNone) continue;
      out += (out.empty() ? "from " : ", ") + origin_text(value->origin);
    }
    return support::printable(out);
  }

  const PrintOptions& options_;
  std::string out_;
};

}  // namespace

std::string print(const Graph& graph, const PrintOptions& options) {
  return Printer(options).graph(graph);
}

std::string print(const Node& node) {
  std::string out;
  if (!node.name.empty()) out += "[" + bracket_name(node.name);
  if (!node.forward_node.empty()) {
    out += (out.empty() ? "[of " : " of ") + bracket_name(node.forward_node);
  }
  if (!out.empty()) out += "] ";
  if (node.num_outputs() > 0) out += operands(node.outputs()) + " = ";
  out += operator_name(node);
  std::string attributes;
  for (const auto& [name, value] : node.attributes) {
    attributes += (attributes.empty() ? "<" : ", ") + quote_name(name) + " = " + print(value);
  }
  if (!attributes.empty()) out += attributes + ">";
  return out + "(" + operands(node.inputs()) + ")";
}

}  // namespace sardonyx::graph
