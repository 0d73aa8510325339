// narrow_products: with Precision::kBFloat16, convolutions and matrix products compute in bfloat16,
// and so does what lies between them (OpDef::narrow). Cast nodes stand where the type changes.
//
// Parameters, statistics, outputs and the loss stay float: the gradient rule of the Cast in front
// of a parameter's reader gives the gradient back as float, before anything is added up. What is
// behind the last product isn't between any: a file's own loss consists of such operators, too. An
// operator that the device has no kernel for in bfloat16 stays float: the CPU, which may run it
// instead, has none.
#include <algorithm>
#include <map>
#include <unordered_set>

#include "graph/names.h"
#include "ops/core/infer.h"
#include "ops/core/op_builder.h"
#include "passes/pass.h"
#include "passes/requests.h"

namespace sardonyx::passes {

namespace {

using graph::DType;
using graph::Graph;
using graph::Node;
using graph::Value;

constexpr DType kWide = DType::kFloat32, kNarrow = DType::kBFloat16;

class Narrowing {
 public:
  Narrowing(Graph& graph, PassContext& context) : graph_(graph), context_(context) {}

  bool run() {
    std::vector<Node*> nodes;
    for (Node& node : graph_.nodes()) nodes.push_back(&node);
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) look_ahead(**node);
    for (Node* node : nodes) visit(*node);
    if (narrow_.empty()) return false;
    keep_what_leaves();
    context_.remarks.push_back(fmt::format("{} nodes compute in {}, {} Cast nodes", changed_,
                                           graph::dtype_name(kNarrow), casts_.size()));
    return true;
  }

 private:
  void look_ahead(const Node& node) {
    for (const Value* value : node.outputs()) {
      if (value == nullptr) continue;
      for (const graph::Use& use : value->uses()) {
        const ops::OpDef* op = ops::OpRegistry::get().find(*use.node);
        const bool product = op != nullptr && op->narrow == ops::Narrow::kProducts;
        if (product || feeds_product_.contains(use.node)) feeds_product_.insert(&node);
      }
    }
  }

  // Which inputs of the node become narrow; none: it computes in float.
  std::vector<bool> narrow_inputs(const Node& node) const {
    std::vector<bool> wanted(node.num_inputs(), false);
    const ops::OpDef* op = ops::OpRegistry::get().find(node);
    if (op == nullptr || op->narrow == ops::Narrow::kNo) return wanted;
    const bool product = op->narrow == ops::Narrow::kProducts;
    if (!product && !feeds_product_.contains(&node)) return wanted;
    bool any_narrow = product;
    for (int i = 0; i < node.num_inputs(); ++i) {
      const auto& slots = op->narrow_inputs;
      const bool takes = slots.empty() || std::find(slots.begin(), slots.end(), i) != slots.end();
      if (node.input(i) == nullptr || !takes) continue;
      const DType dtype = node.input(i)->type.dtype;
      // Of the file's own.
      if (graph::is_floating(dtype) && dtype != kWide && !narrow_.contains(node.input(i))) {
        return std::vector<bool>(wanted.size(), false);
      }
      wanted[i] = graph::is_floating(dtype);
      any_narrow = any_narrow || narrow_.contains(node.input(i));
    }
    if (!product && any_narrow) any_narrow = device_takes(node, wanted);
    return any_narrow ? wanted : std::vector<bool>(wanted.size(), false);
  }

  // Whether some kernel of a CUDA device does where these inputs are narrow. Of the CPU, where
  // plans are only looked at, nothing is asked.
  bool device_takes(const Node& node, const std::vector<bool>& narrow) const {
    const Target* target = context_.target;
    if (target == nullptr || target->device() == ops::Device::kCpu) return true;
    if (ops::OpRegistry::get().at(node).view) return true;
    ops::KernelRequest request = on_target(request_for(graph_, node, 0), context_);
    for (size_t i = 0; i < narrow.size(); ++i) {
      if (narrow[i]) request.in[i].dtype = kNarrow;
    }
    for (graph::TensorType& type : request.out) {
      if (type.dtype == kWide) type.dtype = kNarrow;
    }
    const auto kernels = ops::KernelRegistry::get(target->device()).find(node.domain, node.op);
    return std::ranges::any_of(
        kernels, [&](const ops::KernelDef* kernel) { return ops::can_serve(*kernel, request); });
  }

  void visit(Node& node) {
    const std::vector<bool> wanted = narrow_inputs(node);
    bool changes = false;
    for (int i = 0; i < node.num_inputs(); ++i) {
      Value* value = node.input(i);
      if (value == nullptr) continue;
      if (wanted[i]) {
        changes = true;
        if (value->type.dtype == kWide) graph_.set_input(&node, i, as(value, kNarrow, &node));
      } else if (narrow_.contains(value)) {
        graph_.set_input(&node, i, as(value, kWide, &node));
      }
    }
    if (!changes) return;
    ++changed_;
    ops::infer_node(node);
    for (const Value* value : node.outputs()) {
      if (value != nullptr && value->type.dtype == kNarrow) narrow_.insert(value);
    }
  }

  // The value in another type, made once, before its first reader.
  Value* as(Value* value, DType dtype, Node* before) {
    auto [it, fresh] = casts_.try_emplace({value, dtype}, nullptr);
    if (!fresh) return it->second;
    ops::OpBuilder b(graph_, before);
    const std::string name = fmt::format("{}@{}", value->name, graph::dtype_name(dtype));
    it->second = value->is_constant()
                     ? b.constant(value->data.cast(dtype), name)
                     : b.op("Cast", {value}, {{"to", static_cast<int64_t>(dtype)}}, name);
    return it->second;
  }

  // Outputs and what states hold next keep type and name.
  void keep_what_leaves() {
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      Value* value = graph_.outputs()[i];
      if (!narrow_.contains(value)) continue;
      Value* wide = as(value, kWide, nullptr);
      const std::string name = value->name;
      if (!graph_.is_output(wide)) {  // a file may list a value twice
        graph_.rename(value, graph::fresh_name(graph_, name + "@narrow"));
        graph_.rename(wide, name);
      }
      graph_.set_output(static_cast<int>(i), wide);
    }
    for (const graph::Binding& binding : std::vector<graph::Binding>(graph_.bindings())) {
      if (!narrow_.contains(binding.next)) continue;
      Value* wide = as(binding.next, kWide, nullptr);
      graph_.unbind(binding.state);
      graph_.bind(binding.state, wide);
    }
  }

  Graph& graph_;
  PassContext& context_;
  std::unordered_set<const Node*> feeds_product_;
  std::unordered_set<const Value*> narrow_;  // that were float
  std::map<std::pair<Value*, DType>, Value*> casts_;
  int64_t changed_ = 0;
};

}  // namespace

bool narrow_products(Graph& graph, PassContext& context) {
  if (context.options.precision != Precision::kBFloat16) return false;
  return Narrowing(graph, context).run();
}

}  // namespace sardonyx::passes
