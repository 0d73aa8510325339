// The nodes that an Einsum consists of.
//
// Of two operands an index is either kept by both (batch), summed over both (inner) or of one of
// them (rows, columns): [batch.., rows.., inner] times [batch.., inner, columns]. An index that the
// output doesn't have and only one operand has is summed away first. Axes keep their place where it
// doesn't matter, so that the batch of the graph stays in front.
#include <algorithm>

#include "ops/einsum/einsum.h"

namespace sardonyx::ops::einsum {

namespace {

struct Operand {
  Value* value = nullptr;
  Labels labels;

  bool has(Label label) const { return std::ranges::count(labels, label) > 0; }
  int64_t axis(Label label) const { return std::ranges::find(labels, label) - labels.begin(); }
  int64_t size(Label label) const { return value->type.dims[axis(label)].value; }
};

Labels operator+(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Parts {
 public:
  explicit Parts(ComposeContext& c) : c_(c), b_(c.b()) {}

  void write() {
    std::vector<int> ranks;
    for (const Value* x : c_.inputs()) ranks.push_back(x->type.rank());
    const Equation equation = read_equation(c_.node().get_string("equation", ""), ranks);
    std::vector<Operand> operands;
    for (size_t i = 0; i < ranks.size(); ++i) {
      operands.push_back(diagonal({c_.x(static_cast<int>(i)), equation.inputs[i]}));
    }
    Operand y = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) {
      Labels kept = equation.output;
      for (size_t later = i + 1; later < operands.size(); ++later) {
        kept = kept + operands[later].labels;
      }
      y = product(std::move(y), std::move(operands[i]), kept);
    }
    y = summed(std::move(y), equation.output);
    c_.set(0, ordered(y, equation.output).value);
  }

 private:
  Value* reshape(Value* x, std::vector<int64_t> shape) {
    const std::vector<int64_t> from = x->type.shape();
    if (shape == from) return x;
    // 0 copies: no size of a batch is written down.
    for (size_t i = 0; i < std::min(shape.size(), from.size()) && shape[i] == from[i]; ++i) {
      shape[i] = 0;
    }
    return b_.op("Reshape", {x, b_.ints(shape)});
  }

  Operand ordered(Operand x, const Labels& order) {
    if (x.labels == order) return x;
    std::vector<int64_t> perm;
    for (const Label label : order) perm.push_back(x.axis(label));
    return {b_.op("Transpose", {x.value}, {{"perm", perm}}), order};
  }

  // One axis for each index that a term repeats: of [.., n, n], flattened, every (n+1)th element.
  Operand diagonal(Operand x) {
    for (size_t i = 0; i < x.labels.size(); ++i) {
      const Label label = x.labels[i];
      const auto second = std::find(x.labels.begin() + i + 1, x.labels.end(), label);
      if (second == x.labels.end()) continue;
      std::vector<int64_t> perm, shape;
      Labels others;
      for (size_t axis = 0; axis < x.labels.size(); ++axis) {
        if (axis == i || axis == static_cast<size_t>(second - x.labels.begin())) continue;
        perm.push_back(static_cast<int64_t>(axis));
        shape.push_back(x.value->type.dims[axis].value);
        others.push_back(x.labels[axis]);
      }
      const int64_t n = x.size(label);
      perm.insert(perm.end(), {static_cast<int64_t>(i), second - x.labels.begin()});
      shape.push_back(n * n);
      Value* flat = reshape(b_.op("Transpose", {x.value}, {{"perm", perm}}), shape);
      Value* line =
          b_.op("Slice", {flat, b_.ints({0}), b_.ints({n * n}), b_.ints({-1}), b_.ints({n + 1})});
      return diagonal({line, others + Labels{label}});
    }
    return x;
  }

  Operand summed(Operand x, const Labels& kept) {
    std::vector<int64_t> axes;
    Labels rest;
    for (const Label label : x.labels) {
      if (std::ranges::count(kept, label) > 0) {
        rest.push_back(label);
      } else {
        axes.push_back(x.axis(label));
      }
    }
    if (axes.empty()) return x;
    return {b_.op("ReduceSum", {x.value, b_.ints(axes)}, {{"keepdims", int64_t{0}}}), rest};
  }

  // Without the axes of size 1 that are larger in the other operand.
  Operand unspread(Operand x, const Operand& other) {
    std::vector<int64_t> axes;
    Labels rest;
    for (const Label label : x.labels) {
      if (other.has(label) && x.size(label) == 1 && other.size(label) != 1) {
        axes.push_back(x.axis(label));
      } else {
        rest.push_back(label);
      }
    }
    if (axes.empty()) return x;
    return {b_.op("Squeeze", {x.value, b_.ints(axes)}), rest};
  }

  // What happens to the indices of two operands.
  struct Roles {
    Labels batch, inner, rows, columns;
  };

  static Roles roles_of(const Operand& a, const Operand& b, const Labels& kept) {
    Roles roles;
    for (const Label label : a.labels) {
      const bool stays = std::ranges::count(kept, label) > 0;
      (!b.has(label) ? roles.rows : stays ? roles.batch : roles.inner).push_back(label);
    }
    for (const Label label : b.labels) {
      if (!a.has(label)) roles.columns.push_back(label);
    }
    return roles;
  }

  Operand product(Operand a, Operand b, const Labels& kept) {
    const Operand first = a;
    a = unspread(std::move(a), b);
    b = unspread(std::move(b), first);
    a = summed(std::move(a), kept + b.labels);
    b = summed(std::move(b), kept + a.labels);
    // What the result begins with stands on the left.
    if (!kept.empty() && b.has(kept[0]) && !a.has(kept[0])) std::swap(a, b);
    const Roles roles = roles_of(a, b, kept);
    const bool floating = graph::is_floating(a.value->type.dtype);
    return floating && !roles.inner.empty() ? matrix_product(a, b, roles)
                                            : element_product(a, b, roles);
  }

  std::vector<int64_t> sizes(const Operand& x, const Labels& labels) const {
    std::vector<int64_t> shape;
    for (const Label label : labels) shape.push_back(x.size(label));
    return shape;
  }

  static int64_t count(const std::vector<int64_t>& shape) {
    int64_t product = 1;
    for (const int64_t size : shape) product *= size;
    return product;
  }

  // [batch.., rows.., inner..] * [batch.., columns.., inner..] with axes of 1 in between.
  Operand element_product(const Operand& a, const Operand& b, const Roles& roles) {
    std::vector<int64_t> left = sizes(a, roles.batch + roles.rows), right = sizes(b, roles.batch);
    left.insert(left.end(), roles.columns.size(), 1);
    right.insert(right.end(), roles.rows.size(), 1);
    for (const int64_t size : sizes(b, roles.columns)) right.push_back(size);
    for (const int64_t size : sizes(a, roles.inner)) left.push_back(size);
    for (const int64_t size : sizes(b, roles.inner)) right.push_back(size);
    Value* x = reshape(ordered(a, roles.batch + roles.rows + roles.inner).value, left);
    Value* w = reshape(ordered(b, roles.batch + roles.columns + roles.inner).value, right);
    const Labels kept = roles.batch + roles.rows + roles.columns;
    return summed({b_.op("Mul", {x, w}), kept + roles.inner}, kept);
  }

  struct Matrices {
    Value* value = nullptr;
    bool inner_first = false;  // [batch.., inner, outer] instead of [batch.., outer, inner]
  };

  // The axes `outer` and `inner` merged, in whichever order the operand has them.
  Matrices matrices(const Operand& x, const Labels& batch, const Labels& outer,
                    const Labels& inner) {
    const bool inner_first = !outer.empty() && x.labels == batch + inner + outer;
    std::vector<int64_t> shape = sizes(x, batch);
    const int64_t m = count(sizes(x, outer)), k = count(sizes(x, inner));
    shape.insert(shape.end(), {inner_first ? k : m, inner_first ? m : k});
    const Labels order = inner_first ? x.labels : batch + outer + inner;
    return {reshape(ordered(x, order).value, shape), inner_first};
  }

  // Where one matrix stands on the right, all axes in front of `inner` are rows.
  Matrices rows_of(const Operand& x, const Labels& rows, const Labels& inner) {
    std::vector<int64_t> shape = sizes(x, rows);
    shape.push_back(count(sizes(x, inner)));
    return {reshape(ordered(x, rows + inner).value, shape)};
  }

  Operand matrix_product(const Operand& a, const Operand& b, const Roles& roles) {
    const bool one = roles.batch.empty() && roles.rows.size() > 1;
    const Matrices left = one ? rows_of(a, roles.rows, roles.inner)
                              : matrices(a, roles.batch, roles.rows, roles.inner);
    const Matrices right = matrices(b, roles.batch, roles.columns, roles.inner);
    graph::Attributes attributes;
    if (left.inner_first) attributes["trans_a"] = int64_t{1};
    if (!right.inner_first) attributes["trans_b"] = int64_t{1};
    Value* y = b_.op("MatMul", {left.value, right.value}, std::move(attributes));
    std::vector<int64_t> shape = sizes(a, roles.batch + roles.rows);
    for (const int64_t size : sizes(b, roles.columns)) shape.push_back(size);
    return {reshape(y, shape), roles.batch + roles.rows + roles.columns};
  }

  ComposeContext& c_;
  OpBuilder& b_;
};

}  // namespace

void write_einsum(ComposeContext& c) { Parts(c).write(); }

}  // namespace sardonyx::ops::einsum
