#include "graph/function_calls.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "graph/onnx_proto.h"
#include "graph/support/text.h"

namespace sardonyx::graph {
namespace {

using support::in_quotes;
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// What one graph or function body holds: its own nodes and the functions it calls, with repeats
// counted.
struct Body {
  int64_t nodes = 0;
  std::map<int, int64_t> calls;
};

void collect(const Nodes& nodes, const FunctionIndex& functions, Body& body) {
  for (const auto& node : nodes) {
    const auto callee = functions.find({normal_domain(node.domain()), callee_name(node)});
    if (callee != functions.end()) {
      ++body.calls[callee->second];
    } else {
      ++body.nodes;
    }
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) collect(attribute.g().node(), functions, body);
      for (const auto& graph : attribute.graphs()) collect(graph.node(), functions, body);
    }
  }
}

struct Size {
  int64_t nodes = 0;  // saturates just above the limit
  int depth = 0;
};

Size total(const Body& body, const std::vector<Size>& sizes) {
  constexpr int64_t kOver = kMostExpandedNodes + 1;
  Size result{std::min(body.nodes, kOver), 0};
  for (const auto& [callee, count] : body.calls) {
    const Size& inner = sizes[callee];
    result.depth = std::max(result.depth, inner.depth + 1);
    // A call counts as one node itself: functions without nodes expand, too.
    const bool over = count > kOver / (inner.nodes + 1);
    result.nodes = over ? kOver : std::min(kOver, result.nodes + (inner.nodes + 1) * count);
  }
  return result;
}

// Callees before callers, without recursion on the machine's stack. Returns false on a recursive
// function.
bool order_callees(const std::vector<Body>& bodies, std::vector<int>& order, int& culprit) {
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(bodies.size(), Mark::kNew);
  using Call = std::map<int, int64_t>::const_iterator;
  std::vector<std::pair<int, Call>> stack;
  const auto open = [&](int function) {
    marks[function] = Mark::kOpen;
    stack.emplace_back(function, bodies[function].calls.begin());
  };
  for (int start = 0; start < static_cast<int>(bodies.size()); ++start) {
    if (marks[start] == Mark::kNew) open(start);
    while (!stack.empty()) {
      auto& [function, call] = stack.back();
      if (call == bodies[function].calls.end()) {
        marks[function] = Mark::kDone;
        order.push_back(function);
        stack.pop_back();
        continue;
      }
      const int callee = (call++)->first;
      if (marks[callee] == Mark::kOpen) {
        culprit = callee;
        return false;
      }
      if (marks[callee] == Mark::kNew) open(callee);
    }
  }
  return true;
}

template <class Names>
int64_t count_given(const Names& names) {
  int64_t count = names.size();
  while (count > 0 && names.Get(static_cast<int>(count - 1)).empty()) --count;
  return count;
}

// Fewer than the function has is fine: they are optional. More go nowhere.
void check_counts(const onnx::ModelProto& model, const Nodes& nodes, const FunctionIndex& functions,
                  Faults& faults) {
  for (const auto& node : nodes) {
    const auto callee = functions.find({normal_domain(node.domain()), callee_name(node)});
    if (callee != functions.end()) {
      const auto& function = model.functions(callee->second);
      for (const auto& [what, given, known] :
           {std::tuple{"input", count_given(node.input()), function.input_size()},
            {"output", count_given(node.output()), function.output_size()}}) {
        if (given <= known) continue;
        faults.add("node {} has {} {}{}, but the function {} that it calls has {}",
                   node_label(node), given, what, given == 1 ? "" : "s", in_quotes(function.name()),
                   known);
      }
    }
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) check_counts(model, attribute.g().node(), functions, faults);
      for (const auto& graph : attribute.graphs()) {
        check_counts(model, graph.node(), functions, faults);
      }
    }
  }
}

}  // namespace

FunctionIndex index_functions(const onnx::ModelProto& model, Faults& faults) {
  FunctionIndex index;
  for (int i = 0; i < model.functions_size(); ++i) {
    const auto& function = model.functions(i);
    const bool fresh =
        index.emplace(std::pair(normal_domain(function.domain()), function_name(function)), i)
            .second;
    if (function.name().empty()) faults.add("function number {} has no name", i);
    if (!fresh) {
      faults.add("function {} of domain {} is defined twice", in_quotes(function.name()),
                 in_quotes(function.domain()));
    }
  }
  return index;
}

void check_calls(const onnx::ModelProto& model, const FunctionIndex& functions, Faults& faults) {
  if (functions.empty()) return;
  check_counts(model, model.graph().node(), functions, faults);
  for (const auto& function : model.functions()) {
    check_counts(model, function.node(), functions, faults);
  }
  std::vector<Body> bodies(static_cast<size_t>(model.functions_size()));
  for (int i = 0; i < model.functions_size(); ++i) {
    collect(model.functions(i).node(), functions, bodies[i]);
  }
  std::vector<int> order;
  int culprit = 0;
  if (!order_callees(bodies, order, culprit)) {
    faults.add("function {} calls itself, directly or through others (recursion)",
               in_quotes(model.functions(culprit).name()));
    return;
  }
  std::vector<Size> sizes(bodies.size());
  for (int function : order) sizes[function] = total(bodies[function], sizes);
  Body main;
  collect(model.graph().node(), functions, main);
  const Size size = total(main, sizes);
  if (size.depth > kDeepestCalls) {
    faults.add("calls of local functions nest {} deep; the limit is {}", size.depth, kDeepestCalls);
  }
  if (size.nodes > kMostExpandedNodes) {
    faults.add("the local functions expand to more than {} nodes, the limit of function inlining",
               kMostExpandedNodes);
  }
}

}  // namespace sardonyx::graph
