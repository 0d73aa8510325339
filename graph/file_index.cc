#include "graph/file_index.h"

#include <utility>

#include "graph/call_label.h"
#include "graph/onnx_proto.h"
#include "graph/support/error.h"
#include "graph/support/text.h"
#include "graph/tensor_message.h"

namespace sardonyx::graph {
namespace {

using support::in_quotes;
using wire::Message;
using wire::Reader;
using wire::Span;
using wire::Type;
namespace field = wire::field;

using FunctionKeys = std::map<std::pair<std::string, std::string>, int>;

std::string joined(std::string name, const std::string& overload) {
  return overload.empty() ? std::move(name) : name + ":" + overload;
}

std::pair<std::string, std::string> function_key(std::span<const std::byte> file, Span function) {
  std::string name, domain, overload;
  Reader reader(file, function);
  while (reader.next()) {
    if (reader.field().is(field::kFunctionName, Type::kBytes)) name = reader.text();
    if (reader.field().is(field::kFunctionDomain, Type::kBytes)) domain = reader.text();
    if (reader.field().is(field::kFunctionOverload, Type::kBytes)) overload = reader.text();
  }
  return {normal_domain(domain), joined(std::move(name), overload)};
}

std::string tensor_name(std::span<const std::byte> file, Span tensor) {
  std::string name;
  Reader reader(file, tensor);
  while (reader.next()) {
    if (reader.field().is(field::kTensorName, Type::kBytes)) name = reader.text();
  }
  return name;
}

class Indexer {
 public:
  Indexer(std::span<const std::byte> file, const FunctionKeys& functions, FileIndex& index)
      : file_(file), functions_(functions), index_(index) {}

  NodePlace read_node(Span span) {
    NodePlace node;
    node.span = span;
    std::string domain, overload;
    Reader reader(file_, span);
    while (reader.next()) {
      const wire::Field& f = reader.field();
      if (f.type != Type::kBytes) continue;
      if (f.number == field::kNodeInput) node.inputs.emplace_back(reader.text());
      if (f.number == field::kNodeName) node.name = reader.text();
      if (f.number == field::kNodeOpType) node.op = reader.text();
      if (f.number == field::kNodeDomain) domain = reader.text();
      if (f.number == field::kNodeOverload) overload = reader.text();
      if (f.number == field::kNodeAttribute) read_attribute(node, f.body);
    }
    node.op = joined(std::move(node.op), overload);
    const auto callee = functions_.find({normal_domain(domain), node.op});
    if (callee != functions_.end()) {
      node.callee = callee->second;
      ++index_.call_sites[callee->second];
    }
    return node;
  }

  // A graph may stand in pieces, which protobuf joins.
  void read_graph(BodyPlace& body, Span span) {
    body.span = span;
    Reader reader(file_, span);
    while (reader.next()) {
      const wire::Field& f = reader.field();
      if (f.is(field::kGraphNode, Type::kBytes)) body.nodes.push_back(read_node(f.body));
      if (f.is(field::kGraphInitializer, Type::kBytes)) {
        body.initializers.emplace(tensor_name(file_, f.body), f.body);
      }
    }
  }

  void label_calls(BodyPlace& body) {
    std::vector<CallSite> calls;
    for (size_t i = 0; i < body.nodes.size(); ++i) {
      const NodePlace& node = body.nodes[i];
      if (node.callee < 0 && node.graphs.empty()) continue;
      calls.push_back({node.name, node.op, static_cast<int32_t>(i)});
    }
    const std::vector<std::string> labels = call_labels(calls);
    for (size_t i = 0; i < calls.size(); ++i) {
      const NodePlace& node = body.nodes[calls[i].index];
      if (node.callee >= 0) body.calls.emplace(labels[i], calls[i].index);
      for (const auto& [attribute, graph] : node.graphs) {
        body.calls.emplace(labels[i] + "/" + attribute, ~graph);
      }
    }
  }

 private:
  void read_attribute(NodePlace& node, Span span) {
    std::string name;
    BodyPlace graph;
    bool has_graph = false;
    Reader reader(file_, span);
    while (reader.next()) {
      const wire::Field& f = reader.field();
      if (f.is(field::kAttributeName, Type::kBytes)) name = reader.text();
      if (f.type != Type::kBytes ||
          wire::child_of(Message::kAttribute, f.number) != Message::kGraph) {
        continue;
      }
      read_graph(graph, f.body);
      has_graph = true;
    }
    if (!has_graph) return;
    label_calls(graph);
    node.graphs.emplace(name, static_cast<int>(index_.subgraphs.size()));
    index_.subgraphs.push_back(std::move(graph));
  }

  std::span<const std::byte> file_;
  const FunctionKeys& functions_;
  FileIndex& index_;
};

struct Search {
  const FileIndex& index;
  std::vector<std::vector<int32_t>> found;
  std::vector<int32_t> calls;

  void visit(const BodyPlace& body, std::string_view rest) {
    // A label may hold slashes itself, so every prefix that ends at a slash is tried.
    for (size_t end = rest.find('/');; end = rest.find('/', end + 1)) {
      const std::string_view label = rest.substr(0, end);
      if (const auto call = body.calls.find(label); call != body.calls.end()) {
        calls.push_back(call->second);
        if (end == std::string_view::npos) {
          found.push_back(calls);
        } else {
          visit(index.body_behind(body, call->second), rest.substr(end + 1));
        }
        calls.pop_back();
      }
      if (end == std::string_view::npos) return;
    }
  }
};

}  // namespace

FileIndex::FileIndex(const Model& model) {
  const std::span<const std::byte> file = model.bytes();
  FunctionKeys keys;
  Reader top(file);
  while (top.next()) {
    if (!top.field().is(field::kModelFunctions, Type::kBytes)) continue;
    keys.emplace(function_key(file, top.field().body), static_cast<int>(functions.size()));
    functions.emplace_back().span = top.field().body;
  }
  call_sites.resize(functions.size(), 0);
  Indexer indexer(file, keys, *this);
  top = Reader(file);
  while (top.next()) {
    if (!top.field().is(field::kModelGraph, Type::kBytes)) continue;
    // Additions go behind the last piece.
    indexer.read_graph(main, top.field().body);
  }
  indexer.label_calls(main);
  for (BodyPlace& function : functions) {
    Reader reader(file, function.span);
    while (reader.next()) {
      if (!reader.field().is(field::kFunctionNode, Type::kBytes)) continue;
      function.nodes.push_back(indexer.read_node(reader.field().body));
    }
    indexer.label_calls(function);
  }
}

std::vector<int32_t> FileIndex::resolve(const BodyPlace& from, const std::string& path) const {
  if (path.empty()) return {};
  Search search{*this, {}, {}};
  search.visit(from, path);
  if (search.found.size() == 1) return search.found.front();
  throw Error("the calls {} of local functions {} in the file", in_quotes(path),
              search.found.empty() ? "don't stand" : "can be read in several ways");
}

const BodyPlace& FileIndex::body_of(const std::vector<int32_t>& calls) const {
  const BodyPlace* body = &main;
  for (int32_t call : calls) body = &body_behind(*body, call);
  return *body;
}

const BodyPlace& FileIndex::body_behind(const BodyPlace& body, int32_t call) const {
  return call < 0 ? subgraphs[~call] : functions[body.nodes[call].callee];
}

const NodePlace& FileIndex::node_at(const std::vector<int32_t>& calls, int32_t node) const {
  const BodyPlace& body = body_of(calls);
  CHECK(node >= 0 && node < static_cast<int32_t>(body.nodes.size()), "node {} of {}", node,
        body.nodes.size());
  return body.nodes[node];
}

}  // namespace sardonyx::graph
