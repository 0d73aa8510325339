#include "graph/body_import.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <utility>

#include "graph/names.h"
#include "graph/node_order.h"
#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::graph {

using support::escaped;
using support::in_quotes;
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

namespace {

Origin origin_of(Origin::Kind kind, int32_t node, int32_t slot, const std::string& tensor) {
  Origin origin;
  origin.kind = kind;
  origin.node = node;
  origin.slot = slot;
  origin.tensor = tensor;
  return origin;
}

using Sees = std::function<bool(std::string_view)>;

// Names that a graph inside a node, or one inside that, gives to its own values although it sees
// another value of that name around it. `use(name)` is told each.
void visit_shadows(const onnx::GraphProto& graph, const Sees& sees_outside,
                   const std::function<void(const std::string&)>& use) {
  std::unordered_set<std::string_view> own;
  const auto define = [&](const std::string& name) {
    const bool fresh = !name.empty() && own.insert(name).second;
    if (fresh && sees_outside(name)) use(name);
  };
  const Sees sees = [&](std::string_view name) { return own.contains(name) || sees_outside(name); };
  for (const auto& input : graph.input()) define(input.name());
  for (const auto& tensor : graph.initializer()) define(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) define(tensor.values().name());
  for (const auto& node : graph.node()) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) visit_shadows(attribute.g(), sees, use);
      for (const auto& body : attribute.graphs()) visit_shadows(body, sees, use);
    }
    for (const std::string& name : node.output()) define(name);
  }
}

}  // namespace

bool BodyImporter::define(const std::string& name, std::string_view what) {
  if (name.empty()) {
    faults_.add("{}one {} has no name", where_, what);
    return false;
  }
  if (!producers_.emplace(name, -1).second) {
    faults_.add("{}the {} {} has the name of another value", where_, what, in_quotes(name));
    return false;
  }
  return true;
}

void BodyImporter::define_outputs(const onnx::NodeProto& node, int32_t index) {
  for (const std::string& name : node.output()) {
    if (name.empty()) continue;
    const auto [at, fresh] = producers_.emplace(name, index);
    if (fresh) continue;
    if (at->second == index) {
      faults_.add("{}node {} makes {} twice", where_, node_label(node), in_quotes(name));
    } else {
      faults_.add("{}node {} makes {}, which is already {}", where_, node_label(node),
                  in_quotes(name),
                  at->second < 0 ? "an input or initializer" : "made by another node");
    }
  }
}

void BodyImporter::check_domain(const onnx::NodeProto& node) {
  const std::string domain = normal_domain(node.domain());
  if (graph_.opsets.contains(domain) || functions_.contains({domain, callee_name(node)})) return;
  missing_domains_.emplace(domain, node_label(node));
}

void BodyImporter::read_attributes(const onnx::NodeProto& node, Attributes& attributes) {
  for (const auto& proto : node.attribute()) {
    const auto fault = [&](const std::string& text) {
      // A Constant is known by what it makes.
      const bool constant = node.op_type() == "Constant" && node.output_size() == 1;
      faults_.add("{}node {}{}: {}", where_, node_label(node),
                  constant ? ", output " + in_quotes(node.output(0)) : "", text);
    };
    if (proto.name().empty()) {
      fault("an attribute has no name");
      continue;
    }
    if (attributes.contains(proto.name())) {
      fault("attribute " + in_quotes(proto.name()) + " stands twice");
      continue;
    }
    if (!proto.ref_attr_name().empty() && place_ == Place::kMainGraph) {
      fault("attribute " + in_quotes(proto.name()) + " refers to the function attribute " +
            in_quotes(proto.ref_attr_name()) + ", but the node is in no function");
      continue;
    }
    try {
      attributes.emplace(proto.name(), import_attribute(model_, proto));
    } catch (const Error& error) {
      fault(error.what());
    }
  }
}

void BodyImporter::report_undefined(const onnx::NodeProto& node, const std::string& name,
                                    std::string_view how) {
  std::string hint;
  // Comparing with every name of a large graph is slow, and the first hints say enough.
  if (++suggestions_ <= 5 && producers_.size() < 10'000) {
    std::vector<std::string> candidates;
    for (const auto& [candidate, producer] : producers_) candidates.emplace_back(candidate);
    std::sort(candidates.begin(), candidates.end());
    for (const std::string& near : near_names(name, candidates)) {
      hint += (hint.empty() ? "; did you mean " : ", ") + in_quotes(near);
    }
  }
  faults_.add("{}node {} {} {}, which nothing defines{}", where_, node_label(node), how,
              in_quotes(name), hint);
}

std::vector<int32_t> BodyImporter::find_reads(const onnx::NodeProto& node,
                                              const Attributes& attributes) {
  std::vector<int32_t> reads;
  const auto read = [&](const std::string& name, std::string_view how) {
    if (name.empty()) return;
    const auto producer = producers_.find(name);
    if (producer == producers_.end()) {
      report_undefined(node, name, how);
    } else if (producer->second >= 0) {
      reads.push_back(producer->second);
    }
  };
  for (const std::string& name : node.input()) read(name, "reads");
  for (const auto& [name, attribute] : attributes) {
    if (const auto* body = std::get_if<GraphAttribute>(&attribute)) {
      for (const std::string& outer : body->outer_values)
        read(outer, "reads (in a graph inside it)");
    }
  }
  return reads;
}

// ONNX's IR ("Names Within a Graph") wants them distinct: two readers of such a file could take two
// values. What later nodes make isn't seen yet: a branch may name its result as its node does.
void BodyImporter::tell_shadows(const onnx::NodeProto& node, int32_t index) {
  const Sees sees = [&](std::string_view name) {
    const auto producer = producers_.find(name);
    return producer != producers_.end() && producer->second < index;
  };
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    visit_shadows(attribute.g(), sees, [&](const std::string& name) {
      notices_.push_back(
          fmt::format("{}node {}: its {} has a value {} of its own where it sees one of that name, "
                      "which ONNX forbids; inside, its own is taken",
                      where_, node_label(node), escaped(attribute.name()), in_quotes(name)));
    });
  }
}

void BodyImporter::report_cycle(const Nodes& nodes, const std::vector<int32_t>& cycle) {
  constexpr size_t kMostShown = 10;
  std::string text;
  for (size_t i = 0; i < std::min(cycle.size(), kMostShown); ++i) {
    text += (i == 0 ? "" : ", ") + node_label(nodes[cycle[i]]);
  }
  if (cycle.size() > kMostShown) text += fmt::format(", ... ({} nodes)", cycle.size());
  faults_.add(
      "{}a cycle: each of these nodes needs the one before it, the first needs the last: {}",
      where_, text);
}

void BodyImporter::check(const Nodes& nodes) {
  for (int i = 0; i < nodes.size(); ++i) define_outputs(nodes[i], i);
  attributes_.resize(static_cast<size_t>(nodes.size()));
  std::vector<std::vector<int32_t>> reads(static_cast<size_t>(nodes.size()));
  for (int i = 0; i < nodes.size(); ++i) {
    const onnx::NodeProto& node = nodes[i];
    if (node.op_type().empty()) faults_.add("{}node {} has no operator", where_, node_label(node));
    check_domain(node);
    read_attributes(node, attributes_[i]);
    reads[i] = find_reads(node, attributes_[i]);
    tell_shadows(node, i);
  }
  for (const auto& [domain, node] : missing_domains_) {
    faults_.add("{}no opset import for domain {}, which node {} needs", where_,
                domain.empty() ? "'' (ai.onnx)" : in_quotes(domain), node);
  }
  NodeOrder sorted = order_nodes(reads);
  if (!sorted.cycle.empty()) report_cycle(nodes, sorted.cycle);
  order_ = std::move(sorted.order);
  was_sorted_ = sorted.was_sorted;
}

void BodyImporter::build(const Nodes& nodes) {
  for (const int32_t index : order_) {
    const onnx::NodeProto& proto = nodes[index];
    std::vector<Value*> inputs;
    inputs.reserve(static_cast<size_t>(proto.input_size()));
    for (const std::string& name : proto.input()) {
      inputs.push_back(name.empty() ? nullptr : graph_.find(name));
    }
    const std::vector<std::string> outputs(proto.output().begin(), proto.output().end());
    Node* node = graph_.add_node(normal_domain(proto.domain()), callee_name(proto),
                                 std::move(inputs), outputs);
    node->name = proto.name();
    node->attributes = std::move(attributes_[index]);
    node->origin = origin_of(Origin::Kind::kNodeOutput, index, -1, proto.name());
    const bool constant = node->is("", "Constant");
    for (int32_t slot = 0; slot < node->num_outputs(); ++slot) {
      Value* value = node->output(slot);
      if (value == nullptr) continue;
      const auto kind = constant ? Origin::Kind::kConstantNode : Origin::Kind::kNodeOutput;
      value->origin = origin_of(kind, index, slot, value->name);
    }
  }
}

}  // namespace sardonyx::graph
