// form_regions: cuts the node list into runs of nodes that don't couple rows.
//
// The node order is kept as far as possible, because it decides what is alive. Two kinds of nodes
// move: those that carry no batch and need nothing of the open region go in front of it (a
// transposed weight), those that need its sums go behind it (joining the gradients of a shared
// weight).
#include <deque>
#include <unordered_set>

#include "passes/lower.h"
#include "passes/requests.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

bool touches_batch(const Graph& graph, const Node& node) {
  for (const auto* values : {&node.inputs(), &node.outputs()}) {
    for (const Value* value : *values) {
      if (ops::carries_batch(graph, value)) return true;
    }
  }
  return false;
}

// The sums of the blocks are added up as floats (plan_kernels, the executor).
bool adds_up(const Value& value) {
  return value.type.dtype == graph::DType::kFloat32 || value.type.dtype == graph::DType::kFloat64;
}

bool couples_no_rows(const Graph& graph, const Node& node) {
  if (!touches_batch(graph, node)) return false;
  const ops::OpDef& op = ops::OpRegistry::get().at(node);
  for (int slot = 0; slot < node.num_outputs(); ++slot) {
    const Value* value = node.output(slot);
    if (value == nullptr) continue;
    const bool batch = ops::carries_batch(graph, value);
    const ops::BatchRole role =
        op.batch ? op.batch(node, slot)
                 : (op.view && batch ? ops::BatchRole::kRows : ops::BatchRole::kCouples);
    // A sum is kept once per thread; a row value must show its batch axis to be cut along it.
    if (role == ops::BatchRole::kSum ? batch || !adds_up(*value)
                                     : role != ops::BatchRole::kRows || !batch) {
      return false;
    }
  }
  return true;
}

// An update must not move in front of a region that still reads the old value.
bool overwrites(const Node& node) { return !ops::aliases_of(node).empty(); }

class RegionFormer {
 public:
  RegionFormer(Lowering& lowering, int64_t block_rows)
      : lowering_(lowering), graph_(*lowering.graph), block_rows_(block_rows) {}

  void run() {
    std::deque<Node*> rest;
    for (Node& node : graph_.nodes()) rest.push_back(&node);
    while (!rest.empty()) one_round(rest);
  }

 private:
  // Emits nodes up to and including one blocked region, and takes them off the list.
  void one_round(std::deque<Node*>& nodes) {
    const size_t before = nodes.size();
    std::vector<Node*> open, deferred;
    std::unordered_set<const Node*> in_open, behind;
    for (; !nodes.empty(); nodes.pop_front()) {
      Node* node = nodes.front();
      bool needs_open = false, needs_sum = false, needs_behind = false;
      for (const Value* value : node->inputs()) {
        if (value == nullptr || value->producer == nullptr) continue;
        needs_behind |= behind.contains(value->producer);
        if (in_open.contains(value->producer)) {
          needs_open = true;
          needs_sum |= !ops::carries_batch(graph_, value);
        }
      }
      if (couples_no_rows(graph_, *node)) {
        if (needs_sum || needs_behind) break;
        open.push_back(node);
        in_open.insert(node);
      } else if (!needs_open && !needs_behind && (open.empty() || !overwrites(*node))) {
        plain(node);
      } else if (touches_batch(graph_, *node)) {
        break;
      } else {
        deferred.push_back(node);
        behind.insert(node);
      }
    }
    if (!open.empty()) lowering_.regions.push_back({open, block_rows_});
    nodes.insert(nodes.begin(), deferred.begin(), deferred.end());
    CHECK(nodes.size() < before, "no region can be formed at {}", nodes.front()->label());
  }

  void plain(Node* node) {
    if (lowering_.regions.empty() || lowering_.regions.back().block_rows != 0) {
      lowering_.regions.push_back({});
    }
    lowering_.regions.back().nodes.push_back(node);
  }

  Lowering& lowering_;
  Graph& graph_;
  int64_t block_rows_;
};

// What the lanes kernel of a node is expected to gain; 1: it has none, or none with an expectation.
double lanes_gain(const Node& node, const ops::KernelRequest& request) {
  for (const ops::KernelDef* kernel : ops::KernelRegistry::get().find(node.domain, node.op)) {
    if (kernel->layouts != ops::Layouts::kLanes || !kernel->lanes_gain) continue;
    if (!ops::declines(*kernel, request)) return kernel->lanes_gain(request);
  }
  return 1.0;
}

// What blocks cost beside products: the nodes in between are read and written in lanes, some are
// turned around, sums are kept per thread.
constexpr double kCostOfBlocks = 1.03;

// Whether blocks of 16 images pay: the nodes of the step together are expected to take less time,
// counted in the operations of their plain kernels.
bool lanes_pay(const Graph& graph, int64_t rows) {
  double plain = 0, lanes = 0;
  for (const Node& node : graph.nodes()) {
    const ops::OpDef& op = ops::OpRegistry::get().at(node);
    if (!op.flops || !couples_no_rows(graph, node)) continue;
    const ops::KernelRequest request = request_in(graph, node, rows, InnerLayout::kLanes);
    const double flops = op.flops(request);
    plain += flops;
    lanes += flops / lanes_gain(node, request);
  }
  return lanes * kCostOfBlocks < plain;
}

}  // namespace

int64_t choose_block(const Graph& graph, const PassContext& context) {
  if (context.target->device() != ops::Device::kCpu) return 0;
  if (context.options.block >= 0) return context.options.block;
  if (context.options.reference_only) return 0;
  // Below half a block per thread too many lanes and threads would stay empty.
  const int64_t batch = context.options.batch;
  if (batch < 8 * context.target->threads()) return 0;
  return lanes_pay(graph, 16) ? 16 : 0;
}

void form_regions(Lowering& lowering, const PassContext& context) {
  const int64_t block = choose_block(*lowering.graph, context);
  lowering.regions.clear();
  if (block == 0) {
    RegionSpec all;
    for (Node& node : lowering.graph->nodes()) all.nodes.push_back(&node);
    if (!all.nodes.empty()) lowering.regions.push_back(std::move(all));
    return;
  }
  RegionFormer(lowering, block).run();
  // The node list follows the regions, so that print, verify and later passes see the order that
  // runs.
  for (const RegionSpec& region : lowering.regions) {
    for (Node* node : region.nodes) lowering.graph->move_before(node, nullptr);
  }
}

}  // namespace sardonyx::passes
