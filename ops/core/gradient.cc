#include "ops/core/gradient.h"

#include <algorithm>

#include "graph/support/error.h"

namespace sardonyx::ops {

GradientContext::GradientContext(Node& node, OpBuilder& builder,
                                 std::vector<Value*> output_gradients, std::vector<bool> wanted)
    : node_(node),
      b_(builder),
      dy_(std::move(output_gradients)),
      wanted_(std::move(wanted)),
      dx_(node.num_inputs(), nullptr) {}

Value* GradientContext::dy_or_zero(int i) {
  if (dy(i) != nullptr) return dy(i);
  CHECK(y(i) != nullptr, "output {} of {} is left out", i, node_.label());
  return dy_[i] = b_.filled_like(y(i), 0.0);
}

void GradientContext::set(int i, Value* dx) {
  CHECK(wants(i), "gradient of input {} of {} was not asked for", i, node_.label());
  CHECK(dx_[i] == nullptr, "gradient of input {} of {} is set twice", i, node_.label());
  CHECK(dx != nullptr);
  CHECK(!dx->type.is_static() || dx->type.shape() == shape(x(i)),
        "gradient of input {} of {} has shape {}, the input {}", i, node_.label(), dx->type.str(),
        x(i)->type.str());
  dx_[i] = dx;
}

Value* GradientContext::reduce_to(Value* g, const Value* like) {
  const std::vector<int64_t> from = shape(g);
  const std::vector<int64_t> to = shape(like);
  if (from == to) return g;
  CHECK(from.size() >= to.size());
  const size_t extra = from.size() - to.size();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < from.size(); ++i) {
    if (i < extra || (to[i - extra] == 1 && from[i] != 1)) axes.push_back(static_cast<int64_t>(i));
  }
  if (!axes.empty()) g = b_.op("ReduceSum", {g, b_.ints(axes)}, {{"keepdims", int64_t{0}}});
  if (shape(g) != to) {
    graph::Attributes attributes;  // a 0 in `to` is a size, not "copy"
    if (std::count(to.begin(), to.end(), 0) > 0) attributes["allowzero"] = int64_t{1};
    g = b_.op("Reshape", {g, b_.ints(to)}, std::move(attributes));
  }
  return g;
}

std::vector<int64_t> GradientContext::shape(const Value* value) {
  if (!value->type.is_static()) {
    throw Error("value '{}' has type {}: its shape must be known before gradients are built",
                value->name, value->type.str());
  }
  return value->type.shape();
}

}  // namespace sardonyx::ops
