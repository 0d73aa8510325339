#include "ops/core/broadcast.h"

#include <algorithm>

#include "ops/core/strided.h"

namespace sardonyx::ops {

namespace {

bool is_batch_dim(const Node& node, const Dim& dim) {
  const std::string& symbol = node.graph()->batch_symbol;
  return !symbol.empty() && dim.symbol == symbol;
}

// The common dimension of a and b; nullopt when they don't fit.
std::optional<Dim> join(const Node& node, const Dim& a, const Dim& b) {
  if (a.known() && b.known()) {
    if (a.value == b.value) return a.symbol.empty() || is_batch_dim(node, b) ? b : a;
    if (a.value == 1) return b;
    if (b.value == 1) return a;
    return std::nullopt;
  }
  // A known 1 gives way; another known number decides; of two unknown ones the named or batch one.
  if (a.known()) return a.value == 1 ? b : a;
  if (b.known()) return b.value == 1 ? a : b;
  if (a.symbol == b.symbol || b.symbol.empty() || is_batch_dim(node, a)) return a;
  if (a.symbol.empty() || is_batch_dim(node, b)) return b;
  return Dim();
}

// Where the dimensions of input `slot` start among `rank` axes.
int first_axis(const Node& node, int slot, int own_rank, int rank) {
  if (slot == 1 && node.has(kLegacyAxis)) {
    const int64_t axis = node.get_int(kLegacyAxis, 0);
    return static_cast<int>(axis < 0 ? axis + rank : axis);
  }
  return rank - own_rank;
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = shape[axis] == 1 ? 0 : step;
    step *= shape[axis];
  }
  return strides;
}

}  // namespace

std::vector<Dim> aligned_dims(const Node& node, int slot, const std::vector<Dim>& dims, int rank) {
  const int own = static_cast<int>(dims.size());
  const int first = first_axis(node, slot, own, rank);
  if (first < 0 || first + own > rank) {
    throw Error("input {} with shape {} does not fit at axis {} of {} axes", slot,
                graph::shape_str(dims), first, rank);
  }
  std::vector<Dim> result(rank, Dim(1));
  std::copy(dims.begin(), dims.end(), result.begin() + first);
  return result;
}

void normalize_broadcast(NormalizeContext& c) {
  Node& node = c.node();
  if (c.opset() >= 7 || node.get_int("broadcast", 0) == 0 || !node.has("axis")) return;
  node.attributes[kLegacyAxis] = node.get_int("axis", 0);
}

void infer_broadcast(InferContext& context, DType dtype, int first, int last,
                     const char* constraint) {
  int rank = 0;
  for (int i = first; i <= last; ++i) {
    if (!context.type(i).ranked) return context.set_unranked(0, dtype);
    rank = std::max(rank, context.rank(i));
  }
  TensorType result(dtype, std::vector<Dim>(rank, Dim(1)));
  result.layout = context.type(first).layout;
  for (int i = first; i <= last; ++i) {
    const std::vector<Dim> dims = aligned_dims(context.node(), i, context.dims(i), rank);
    for (int axis = 0; axis < rank; ++axis) {
      const std::optional<Dim> joined = join(context.node(), result.dims[axis], dims[axis]);
      if (!joined) {
        context.fail(constraint,
                     "input {} has shape {}, which does not broadcast against {}: axis {} has {} "
                     "and {}",
                     i, graph::shape_str(context.dims(i)), graph::shape_str(result.dims), axis,
                     dims[axis].value, result.dims[axis].value);
      }
      result.dims[axis] = *joined;
    }
  }
  context.set(0, std::move(result));
}

BatchRole broadcast_role(const Node& node, int slot) {
  const Value* y = node.output(slot);
  if (!carries_batch(node, y)) return BatchRole::kCouples;
  const int rank = y->type.rank();
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Value* x = node.input(i);
    if (x == nullptr) continue;
    if (!x->type.ranked) return BatchRole::kCouples;
    const int own = x->type.rank();
    const int first = first_axis(node, i, own, rank);
    if (carries_batch(node, x) ? first != 0 || own == 0
                               : first == 0 && own > 0 && x->type.dims[0].value != 1) {
      return BatchRole::kCouples;
    }
  }
  return BatchRole::kRows;
}

Value* reduce_to_input(GradientContext& context, Value* g, int slot) {
  const Value* x = context.x(slot);
  if (slot != 1 || !context.node().has(kLegacyAxis)) return context.reduce_to(g, x);
  const std::vector<int64_t> from = GradientContext::shape(g);
  const std::vector<Dim> dims =
      aligned_dims(context.node(), slot, x->type.dims, static_cast<int>(from.size()));
  std::vector<int64_t> axes;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (dims[axis].value == 1 && from[axis] != 1) axes.push_back(static_cast<int64_t>(axis));
  }
  OpBuilder& b = context.b();
  if (!axes.empty()) g = b.op("ReduceSum", {g, b.ints(axes)}, {{"keepdims", int64_t{0}}});
  const std::vector<int64_t> to = GradientContext::shape(x);
  return GradientContext::shape(g) == to ? g : b.op("Reshape", {g, b.ints(to)});
}

std::vector<Refusal> broadcast_lanes_refusals() {
  // f(slot, type) holds for some input.
  const auto any_input = [](const KernelRequest& request, auto&& f) {
    for (size_t i = 0; i < request.in.size(); ++i) {
      if (request.has_in(static_cast<int>(i)) && f(static_cast<int>(i), request.in[i])) return true;
    }
    return false;
  };
  return {{"the output must carry the batch",
           [](const KernelRequest& request) { return request.out.at(0).layout.plain(); }},
          {"an operand has rows but is not in lanes",
           [any_input](const KernelRequest& request) {
             return any_input(request, [&](int slot, const TensorType& x) {
               const Dim rows = aligned_dims(*request.node, slot, x.dims, request.out[0].rank())[0];
               return x.layout.plain() && (rows.value != 1 || is_batch_dim(*request.node, rows));
             });
           }},
          {"the rows of an operand are not the rows of the output",
           [any_input](const KernelRequest& request) {
             return any_input(request, [&](int slot, const TensorType& x) {
               return !x.layout.plain() &&
                      first_axis(*request.node, slot, x.rank(), request.out[0].rank()) != 0;
             });
           }}};
}

BroadcastOffset::BroadcastOffset(const KernelRequest& request, int input)
    : shape_(request.out_shape(0)) {
  std::vector<int64_t> own;
  for (const Dim& dim : aligned_dims(*request.node, input, request.in[input].dims,
                                     static_cast<int>(shape_.size()))) {
    own.push_back(dim.value);
  }
  strides_ = contiguous_strides(own);
}

Broadcast::Broadcast(const KernelRequest& request, int first, int last) {
  const TensorType& y = request.out.at(0);
  const int64_t lanes = y.layout.lane_count();
  const std::vector<int64_t> shape = stored_dims(y);
  numel_ = graph::checked_numel(shape);
  for (int i = first; i <= last; ++i) {
    const TensorType& x = request.in[i];
    const std::vector<Dim> dims = aligned_dims(*request.node, i, x.dims, y.rank());
    std::vector<int64_t> own;
    for (const Dim& dim : dims) own.push_back(dim.value);
    if (lanes > 0) {
      const bool blocked = !x.layout.plain();
      own[0] = blocked ? shape[0] : 1;
      own.push_back(blocked ? lanes : 1);
    }
    strides_.push_back(contiguous_strides(own));
  }
  // Merge axis by axis, from the innermost outwards; axes of one element vanish.
  std::vector<std::vector<int64_t>> merged(strides_.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 1) continue;
    bool fits = !sizes_.empty();
    for (size_t k = 0; fits && k < merged.size(); ++k) {
      fits = strides_[k][axis] == merged[k].back() * sizes_.back();
    }
    if (fits) {
      sizes_.back() *= shape[axis];
      continue;
    }
    sizes_.push_back(shape[axis]);
    for (size_t k = 0; k < merged.size(); ++k) merged[k].push_back(strides_[k][axis]);
  }
  while (sizes_.size() < 2) {
    sizes_.push_back(1);
    for (auto& strides : merged) strides.push_back(sizes_.size() == 1 ? 1 : 0);
  }
  std::reverse(sizes_.begin(), sizes_.end());
  for (auto& strides : merged) std::reverse(strides.begin(), strides.end());
  strides_ = std::move(merged);
}

bool Broadcast::same_shape() const {
  for (size_t k = 0; k < strides_.size(); ++k) {
    if (col_stride(static_cast<int>(k)) != 1) return false;
  }
  return sizes_[sizes_.size() - 2] == 1;
}

void Broadcast::locate(int64_t begin, int64_t end, int64_t* x, int64_t* rows, int64_t* cols) const {
  const size_t axes = sizes_.size();
  std::fill(x, x + strides_.size(), 0);
  int64_t rest = begin, row = 0, col = 0;
  for (size_t axis = axes; axis-- > 0;) {
    const int64_t at = rest % sizes_[axis];
    rest /= sizes_[axis];
    if (axis == axes - 1) col = at;
    if (axis == axes - 2) row = at;
    for (size_t k = 0; k < strides_.size(); ++k) x[k] += at * strides_[k][axis];
  }
  const int64_t width = sizes_[axes - 1], height = sizes_[axes - 2];
  const int64_t left = end - begin;
  if (col == 0 && left >= width) {
    *rows = std::min(height - row, left / width);
    *cols = width;
  } else {
    *rows = 1;
    *cols = std::min(width - col, left);
  }
}

}  // namespace sardonyx::ops
