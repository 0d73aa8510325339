#include "tools/node_needs.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_set>

#include "graph/names.h"
#include "graph/values_behind.h"
#include "ops/core/gradient_flow.h"

namespace sardonyx::tools {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using Values = std::unordered_set<const Value*>;

constexpr size_t kNamedNodes = 3;

std::vector<const Value*> targets(const Graph& graph, const std::string& target) {
  if (const Value* named = target.empty() ? nullptr : graph.find(target)) return {named};
  return {graph.outputs().begin(), graph.outputs().end()};
}

// As a tensor that would be trained if all operators were known: no statistic, no single number.
bool may_be_trained(const Value& value) {
  if (!value.is_constant() && !value.is_state()) return false;
  if (value.role == graph::StateRole::kStatistic) return false;
  const graph::TensorType& type = value.type;
  return graph::is_floating(type.dtype) && type.is_static() && type.numel() > 1 &&
         value.origin.kind != graph::Origin::Kind::kNone;
}

bool reads_any(const Node& node, const Values& moved) {
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Value* value = node.input(i);
    if (!ops::gradient_flows(node, i)) continue;
    if (moved.contains(value) || may_be_trained(*value)) return true;
  }
  return false;
}

// What changes with a parameter.
Values moved_by_parameters(const Graph& graph) {
  Values moved;
  for (const Node& node : graph.nodes()) {
    if (!reads_any(node, moved)) continue;
    for (const Value* value : node.outputs()) moved.insert(value);
  }
  return moved;
}

std::vector<std::string> near_operators(const passes::UnsupportedNode& node) {
  if (node.kind != passes::UnsupportedNode::Kind::kUnknownOperator) return {};
  const size_t colons = node.op.rfind("::");
  const std::string name = colons == std::string::npos ? node.op : node.op.substr(colons + 2);
  std::vector<std::string> names, elsewhere;
  for (const ops::OpDef* op : ops::OpRegistry::get().all()) {
    if (op->domain == ops::kDomain) continue;
    names.push_back(op->name);
    if (op->name == name) elsewhere.push_back(ops::op_label(op->domain, op->name));
  }
  return elsewhere.empty() ? graph::misspelt(name, names) : elsewhere;
}

}  // namespace

const char* need_name(Need need) {
  static constexpr const char* kNames[] = {"side_outputs", "forward", "gradient"};
  return kNames[static_cast<int>(need)];
}

const char* need_text(Need need) {
  static constexpr const char* kTexts[] = {"feeds only side outputs", "forward only",
                                           "needs a gradient"};
  return kTexts[static_cast<int>(need)];
}

std::vector<Need> needs(const Graph& graph, const std::vector<passes::UnsupportedNode>& missing,
                        const std::string& target) {
  if (missing.empty()) return {};
  const std::vector<const Value*> behind = graph::values_behind(targets(graph, target));
  const Values needed(behind.begin(), behind.end());
  const Values moved = moved_by_parameters(graph);
  std::vector<Need> result;
  for (const passes::UnsupportedNode& entry : missing) {
    const Value* output = graph.find(entry.output);
    if (output == nullptr || output->producer == nullptr) {
      result.push_back(Need::kForward);
      continue;
    }
    const auto& outputs = output->producer->outputs();
    const bool wanted =
        std::ranges::any_of(outputs, [&](const Value* value) { return needed.contains(value); });
    result.push_back(!wanted                               ? Need::kSideOutputs
                     : reads_any(*output->producer, moved) ? Need::kGradient
                                                           : Need::kForward);
  }
  return result;
}

std::vector<UnsupportedGroup> grouped(const std::vector<passes::UnsupportedNode>& missing,
                                      const std::vector<Need>& needs) {
  std::map<std::tuple<Need, std::string, std::string>, size_t> index;
  std::vector<UnsupportedGroup> groups;
  for (size_t i = 0; i < missing.size(); ++i) {
    const auto [at, fresh] =
        index.try_emplace({needs[i], missing[i].op, missing[i].reason}, groups.size());
    if (fresh) {
      groups.push_back(
          {missing[i].op, missing[i].reason, needs[i], 0, {}, near_operators(missing[i])});
    }
    UnsupportedGroup& group = groups[at->second];
    ++group.count;
    if (group.nodes.size() < kNamedNodes) group.nodes.push_back(missing[i].node);
  }
  std::ranges::stable_sort(groups, [](const UnsupportedGroup& a, const UnsupportedGroup& b) {
    return std::pair(a.need, a.count) > std::pair(b.need, b.count);
  });
  return groups;
}

}  // namespace sardonyx::tools
