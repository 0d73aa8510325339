#include "ops/core/normalize.h"

#include "graph/names.h"
#include "graph/support/error.h"

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

}  // namespace sardonyx::ops
