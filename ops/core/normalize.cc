#include "ops/core/normalize.h"

#include <algorithm>

#include "graph/support/error.h"
#include "ops/core/flags.h"

namespace sardonyx::ops {

void NormalizeContext::attribute_to_input(const std::string& attribute, int slot) {
  const auto it = node_.attributes.find(attribute);
  if (it == node_.attributes.end()) return;
  Tensor data;
  if (const auto* i = std::get_if<int64_t>(&it->second)) {
    data = Tensor::of<int64_t>({1}, {*i});
  } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&it->second)) {
    data = Tensor::of<int64_t>({static_cast<int64_t>(ints->size())}, *ints);
  } else if (const auto* f = std::get_if<double>(&it->second)) {
    data = Tensor::scalar<float>(static_cast<float>(*f));
  } else if (const auto* floats = std::get_if<std::vector<double>>(&it->second)) {
    data =
        Tensor::of<double>({static_cast<int64_t>(floats->size())}, *floats).cast(DType::kFloat32);
  } else {
    throw Error("attribute '{}' of node {} has kind {}, expected numbers", attribute, node_.label(),
                graph::attribute_kind(it->second));
  }
  const std::string base = node_.output(0) != nullptr ? node_.output(0)->name : node_.op;
  Value* value = builder_.constant(base + "/" + attribute, std::move(data));
  node_.graph()->set_input(&node_, slot, value);
  node_.attributes.erase(it);
}

void NormalizeContext::refuse(const std::string& reason) const {
  throw Error("node {}: opset {} of {} is not supported: {}; re-export with opset 13 or later",
              node_.label(), opset_, op_label(node_.domain, node_.op), reason);
}

namespace {

// A file could make a kernel read past its operands there.
void drop_private(const OpDef& op, Node& node) {
  for (const AttributeDef& attribute : op.attributes) {
    if (attribute.writer == Writer::kRules) node.attributes.erase(attribute.name);
  }
}

void drop_unknown(const OpDef& op, Node& node) {
  std::erase_if(node.attributes, [&](const auto& entry) {
    return std::ranges::find(op.attributes, entry.first, &AttributeDef::name) ==
           op.attributes.end();
  });
}

void require_outputs(const OpDef& op, const Node& node) {
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const Port& port = op.outputs[i];
    if (port.presence != Presence::kRequired || node.output(static_cast<int>(i)) != nullptr) {
      continue;
    }
    throw Error("output {} ({}) of node {} is left out, but {} always has it", i, port.name,
                node.label(), op_label(node.domain, node.op));
  }
}

}  // namespace

void normalize_node(Node& node, int64_t opset) {
  const OpDef* op = OpRegistry::get().find(node);
  const auto there = [](const Value* value) { return value != nullptr; };
  if (op == nullptr || std::ranges::none_of(node.outputs(), there)) return;
  if (node.domain == kDomain) {
    throw Error("node {}: {} is an operator of Sardonyx itself, which a model can't use",
                node.label(), op_label(node.domain, node.op));
  }
  drop_private(*op, node);
  require_flags(*op, node);
  require_outputs(*op, node);
  if (op->normalize) {
    NormalizeContext context(node, opset);
    op->normalize(context);
    op = &OpRegistry::get().at(node);  // under its newest name
  }
  drop_unknown(*op, node);
}

}  // namespace sardonyx::ops
