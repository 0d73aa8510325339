// select_kernels: the fastest kernel that accepts, per node: by the static table, which is the
// order of the registry and what kernels decline, or by measurement where there is a tuner. What
// can't run is listed at once.
#include <algorithm>
#include <map>
#include <tuple>

#include "graph/support/text.h"
#include "passes/lower.h"
#include "passes/requests.h"

namespace sardonyx::passes {

namespace {

using graph::Node;

// How the nodes of a region run.
struct Manner {
  RunsOn runs_on = RunsOn::kAllThreads;
  int64_t turns = 1;  // one after another, on a thread
};

Manner manner_of(const RegionSpec& region, const PassContext& context) {
  if (region.block_rows == 0) return {};
  const int64_t blocks = (context.options.batch + region.block_rows - 1) / region.block_rows;
  const int64_t threads = std::max(context.target->threads(), 1);
  return {RunsOn::kOneThread, (blocks + threads - 1) / threads};
}

struct Choice {
  const ops::KernelDef* kernel = nullptr;
  std::string refusals;
};

bool can_serve(const ops::KernelDef& kernel, const std::vector<ops::KernelRequest>& requests) {
  return std::all_of(requests.begin(), requests.end(), [&](const ops::KernelRequest& request) {
    return ops::can_serve(kernel, request);
  });
}

// Those that the options allow.
std::vector<const ops::KernelDef*> kernels_of(const Node& node, ops::Device device,
                                              const PassContext& context) {
  std::vector<const ops::KernelDef*> kernels =
      ops::KernelRegistry::get(device).find(node.domain, node.op);
  std::erase_if(kernels, [&](const ops::KernelDef* kernel) {
    const bool plain_loops =
        kernel->speed == ops::Speed::kReference || kernel->layouts == ops::Layouts::kAny;
    return (context.options.reference_only && !plain_loops) ||
           (context.options.direct_only && kernel->rounding != ops::Rounding::kSum);
  });
  return kernels;
}

// The fastest by measurement, where the static table chose `first`. The plain loops are never
// faster.
const ops::KernelDef* tuned(const ops::KernelDef& first,
                            const std::vector<const ops::KernelDef*>& kernels,
                            const std::vector<ops::KernelRequest>& requests,
                            const PassContext& context, const Manner& manner) {
  if (context.tuner == nullptr || first.speed == ops::Speed::kReference) return &first;
  std::vector<const ops::KernelDef*> candidates{&first};
  for (const ops::KernelDef* kernel : kernels) {
    const bool other = kernel != &first && kernel->speed != ops::Speed::kReference;
    if (other && can_serve(*kernel, requests)) candidates.push_back(kernel);
  }
  if (candidates.size() == 1) return &first;
  return context.tuner->fastest(candidates, requests.front(), manner.runs_on, manner.turns);
}

Choice choose(const Node& node, ops::Device device, const std::vector<ops::KernelRequest>& requests,
              const PassContext& context, const ops::KernelDef* asked, const Manner& manner) {
  const bool rounds_wrongly =
      context.options.direct_only && asked != nullptr && asked->rounding != ops::Rounding::kSum;
  if (asked != nullptr && !rounds_wrongly && can_serve(*asked, requests)) return {asked, {}};
  Choice choice;
  const std::vector<const ops::KernelDef*> kernels = kernels_of(node, device, context);
  for (const ops::KernelDef* kernel : kernels) {
    std::optional<std::string> reason;
    for (const ops::KernelRequest& request : requests) {
      if (!reason) reason = ops::declines(*kernel, request);
    }
    if (!reason) {
      choice.kernel = tuned(*kernel, kernels, requests, context, manner);
      return choice;
    }
    choice.refusals += fmt::format("\n    {}: {}", kernel->name, *reason);
  }
  if (choice.refusals.empty()) choice.refusals = "\n    no kernel is registered for this device";
  return choice;
}

// Kernels are chosen by sizes.
void require_sizes(const Node& node) {
  const auto require = [&](const graph::Value* value, const char* what) {
    if (value == nullptr || value->type.is_static()) return;
    throw Error(
        "node {}: its {} {} has type {}, and no kernel can be chosen until all its sizes are "
        "known; "
        "bind_batch and infer_shapes find those that the file has",
        node.label(), what, support::in_quotes(value->name), value->type.str());
  };
  for (const graph::Value* value : node.inputs()) require(value, "input");
  for (const graph::Value* value : node.outputs()) require(value, "output");
}

// Nodes of a CUDA device that run on the CPU, and what is copied for them, by operator.
class FallenBack {
 public:
  void add(const ops::KernelRequest& request) {
    auto& [nodes, bytes] = operators_[ops::op_label(request.node->domain, request.node->op)];
    ++nodes;
    for (const auto* types : {&request.in, &request.out}) {
      for (const graph::TensorType& type : *types) {
        if (type.dtype != graph::DType::kUndefined) bytes += static_cast<double>(type.bytes());
      }
    }
  }

  void notice(Lowering& lowering, int64_t rows) const {
    for (const auto& [op, sums] : operators_) {
      const auto& [nodes, bytes] = sums;
      lowering.notices.push_back(fmt::format(
          "--fallback cpu: {} node{} of {} run{} on the CPU; each run of {} row{} waits there and "
          "copies {:.2f} MiB",
          nodes, nodes == 1 ? "" : "s", op, nodes == 1 ? "s" : "", rows, rows == 1 ? "" : "s",
          bytes / (1 << 20)));
    }
  }

 private:
  std::map<std::string, std::pair<int64_t, double>> operators_;
};

// Nodes that a library refuses, by operator, kernels and the words of the library.
class Refused {
 public:
  void add(const Node& node, const ops::KernelDef& chosen, const PassContext& context,
           const std::vector<ops::KernelRequest>& requests) {
    if (chosen.device != ops::Device::kCuda || chosen.speed != ops::Speed::kPlain) return;
    // Nobody expects engines for double.
    if (requests.front().out.at(0).dtype == graph::DType::kFloat64) return;
    for (const ops::KernelDef* kernel : kernels_of(node, chosen.device, context)) {
      if (kernel->speed <= chosen.speed) return;  // the fastest come first
      for (const ops::KernelRequest& request : requests) {
        const std::string words = ops::library_words(*kernel, request);
        if (words.empty()) continue;
        ++nodes_[{ops::op_label(node.domain, node.op), chosen.name, kernel->name, words}];
        return;
      }
    }
  }

  void notice(Lowering& lowering) const {
    for (const auto& [what, nodes] : nodes_) {
      const auto& [op, chosen, wanted, words] = what;
      lowering.notices.push_back(fmt::format("{} node{} of {} run{} on {}, far slower than {}: {}",
                                             nodes, nodes == 1 ? "" : "s", op,
                                             nodes == 1 ? "s" : "", chosen, wanted, words));
    }
  }

 private:
  std::map<std::tuple<std::string, std::string, std::string, std::string>, int64_t> nodes_;
};

// What to do where the device has no kernel, if anything.
const char* fallback_hint(const PassContext& context) {
  const bool asked = context.options.fallback == Fallback::kCpu;
  if (context.target->device() == ops::Device::kCpu || asked) return "";
  return "\n  --fallback cpu runs them on the CPU, with copies there and back in each step";
}

// An earlier run's kernel gave way to another. No node in the line: one line for all alike.
void notice_replaced(Lowering& lowering, const Node& node, const ops::KernelDef* kernel,
                     const PassContext& context) {
  const auto wanted = context.options.kernels.find(lowering.keys[&node]);
  if (kernel == nullptr || wanted == context.options.kernels.end()) return;
  if (wanted->second == kernel->name) return;
  lowering.notices.push_back(
      fmt::format("the kernel {} of the earlier run can't serve here, {} takes its place: results "
                  "may round differently",
                  wanted->second, kernel->name));
}

}  // namespace

const ops::KernelDef* asked_kernel(const Node& node, const std::string& key,
                                   const PassContext& context) {
  const auto wanted = context.options.kernels.find(key);
  if (wanted == context.options.kernels.end()) return nullptr;
  for (const ops::KernelDef* kernel :
       ops::KernelRegistry::get(context.target->device()).find(node.domain, node.op)) {
    if (kernel->name == wanted->second) return kernel;
  }
  return nullptr;
}

void select_kernels(Lowering& lowering, const PassContext& context) {
  const graph::Graph& graph = *lowering.graph;
  const ops::Device device = context.target->device();
  const bool may_fall_back =
      device != ops::Device::kCpu && context.options.fallback == Fallback::kCpu;
  FallenBack fallen_back;
  Refused refused;
  std::string missing;
  for (const RegionSpec& region : lowering.regions) {
    for (const Node* node : region.nodes) {
      if (ops::OpRegistry::get().at(*node).view) continue;
      require_sizes(*node);
      const auto request = [&](int64_t rows) {
        return on_target(request_for(graph, *node, rows), context);
      };
      std::vector<ops::KernelRequest> requests{request(region.block_rows)};
      const int64_t tail = region.block_rows > 0 ? context.options.batch % region.block_rows : 0;
      if (tail > 0) requests.push_back(request(tail));
      const ops::KernelDef* asked = asked_kernel(*node, lowering.keys[node], context);
      Choice choice = choose(*node, device, requests, context, asked, manner_of(region, context));
      if (choice.kernel == nullptr && may_fall_back) {
        const ops::KernelRequest on_host = request_for(graph, *node, 0);
        Choice other = choose(*node, ops::Device::kCpu, {on_host}, context, nullptr, {});
        if (other.kernel != nullptr) fallen_back.add(on_host);
        choice = {other.kernel, choice.refusals + other.refusals};
      }
      notice_replaced(lowering, *node, choice.kernel, context);
      if (choice.kernel != nullptr) refused.add(*node, *choice.kernel, context, requests);
      if (choice.kernel == nullptr) {
        missing += fmt::format("\n  node {}:{}", node->label(), choice.refusals);
      }
      lowering.kernels[node] = choice.kernel;
    }
  }
  if (!missing.empty()) {
    throw Error("no kernel runs these nodes:{}{}", missing, fallback_hint(context));
  }
  fallen_back.notice(lowering, context.options.batch);
  refused.notice(lowering);
}

}  // namespace sardonyx::passes
