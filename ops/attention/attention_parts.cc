// The nodes that an Attention consists of.
//
// Queries of the heads that share a head of k stand below each other, [B,H/G,G*S,D], so that k and
// v are never repeated. What the bias is known to hide before the run is one constant. Rows that
// may see no key are taken out in front of the softmax, which would make NaN of them there and in
// its gradient; zero they become behind the second product, which is smaller than the softmax.
#include <cmath>
#include <limits>

#include "graph/names.h"
#include "ops/attention/attention.h"

namespace sardonyx::ops::attention {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Sizes by the letters of the plate; the batch is never among them.
struct Sizes {
  int64_t q_heads = 0, kv_heads = 0;
  int64_t queries = 0, keys = 0, past = 0;
};

class Parts {
 public:
  explicit Parts(ComposeContext& c) : c_(c), b_(c.b()), dtype_(c.x(kQ)->type.dtype) {}

  void write() {
    Value* q = heads_apart(c_.x(kQ), "q_num_heads");
    Value* k = joined(kPastKey, heads_apart(c_.x(kK), "kv_num_heads"));
    Value* v = joined(kPastValue, heads_apart(c_.x(kV), "kv_num_heads"));
    sizes_ = {q->type.dims[1].value, k->type.dims[1].value, q->type.dims[2].value,
              k->type.dims[2].value, c_.x(kPastKey) == nullptr ? 0 : past_length()};
    if (c_.wants(kPresentKey)) c_.set(kPresentKey, k);
    if (c_.wants(kPresentValue)) c_.set(kPresentValue, v);
    Value* p = probabilities(scores(q, k));
    if (!c_.wants(kY)) return;
    Value* y = spread(b_.op("MatMul", {together(p), v}));
    c_.set(kY, heads_merged(without_blind(y)));
  }

 private:
  bool flat() const { return c_.x(kQ)->type.rank() == 3; }

  int64_t past_length() const { return c_.x(kPastKey)->type.dims[2].value; }

  Value* number(double value) { return b_.scalar(dtype_, value); }

  // [B,S,H*D] -> [B,H,S,D]
  Value* heads_apart(Value* x, const char* attribute) {
    if (!flat()) return x;
    const int64_t heads = c_.node().get_int(attribute, 1);
    x = b_.op("Reshape", {x, b_.ints({0, 0, heads, x->type.dims[2].value / heads})});
    return b_.op("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  }

  Value* heads_merged(Value* y) {
    if (!flat()) return y;
    const int64_t width = y->type.dims[1].value * y->type.dims[3].value;
    y = b_.op("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    return b_.op("Reshape", {y, b_.ints({0, 0, width})});
  }

  Value* joined(int past, Value* x) {
    if (c_.x(past) == nullptr) return x;
    return b_.op("Concat", {c_.x(past), x}, {{"axis", int64_t{2}}});
  }

  // [B,H,S,D] -> [B,H/G,G*S,D], and back.
  Value* together(Value* x) {
    if (sizes_.q_heads == sizes_.kv_heads) return x;
    const int64_t rows = sizes_.q_heads / sizes_.kv_heads * sizes_.queries;
    return b_.op("Reshape", {x, b_.ints({0, sizes_.kv_heads, rows, x->type.dims[3].value})});
  }
  Value* spread(Value* x) {
    if (sizes_.q_heads == sizes_.kv_heads) return x;
    return b_.op("Reshape",
                 {x, b_.ints({0, sizes_.q_heads, sizes_.queries, x->type.dims[3].value})});
  }

  Value* scores(Value* q, Value* k) {
    const double size = static_cast<double>(q->type.dims[3].value);
    const double scale = c_.node().get_float("scale", 1 / std::sqrt(size));
    if (scale != 1) q = b_.op("Mul", {q, number(scale)});
    Value* s = spread(b_.op("MatMul", {together(q), k}, {{"trans_b", int64_t{1}}}));
    publish(ScoresMode::kProduct, [&] { return s; });
    if (const double cap = c_.node().get_float("softcap", 0); cap > 0) {
      s = b_.op("Mul", {b_.op("Tanh", {b_.op("Div", {s, number(cap)})}), number(cap)});
    }
    publish(ScoresMode::kCapped, [&] { return s; });
    return s;
  }

  Value* probabilities(Value* s) {
    Value* bias = add(add(hidden_before_the_run(), hidden_by_lengths()), masked());
    publish(ScoresMode::kBiased, [&] { return add(s, bias); });
    if (bias != nullptr && may_be_blind()) {
      Value* most = b_.op("ReduceMax", {bias, b_.ints({-1})});
      blind_ = b_.op("Equal", {most, number(-kInfinity)});
      bias = b_.op("Where", {blind_, number(0), bias});
    }
    Value* p = softmax(add(s, bias));
    publish(ScoresMode::kProbabilities, [&] { return without_blind(p); });
    return p;
  }

  Value* softmax(Value* s) {
    const auto precision = static_cast<DType>(c_.node().get_int("softmax_precision", 0));
    const bool wider = precision == DType::kFloat64 && dtype_ != precision;
    if (wider) s = cast(s, precision);
    Value* p = b_.op("Softmax", {s}, {{"axis", int64_t{-1}}});
    return wider ? cast(p, dtype_) : p;
  }

  Value* without_blind(Value* x) {
    return blind_ == nullptr ? x : b_.op("Where", {blind_, number(0), x});
  }

  Value* cast(Value* x, DType to) { return b_.op("Cast", {x}, {{"to", static_cast<int64_t>(to)}}); }

  // --- Bias: null where nothing is hidden

  Value* add(Value* a, Value* b) {
    return a == nullptr || b == nullptr ? (a == nullptr ? b : a) : b_.op("Add", {a, b});
  }

  Value* zero_where(Value* seen) { return b_.op("Where", {seen, number(0), number(-kInfinity)}); }

  // Window and causality where a query's position is known: [S,T].
  Value* hidden_before_the_run() {
    const Window window = Window::of(c_.node());
    if (window.everything() || c_.x(kNonpad) != nullptr) return nullptr;
    Tensor bias(dtype_, {sizes_.queries, sizes_.keys});
    bool hides = false;
    dispatch_float(dtype_, [&]<class T>() {
      T* number = bias.mutable_data<T>().data();
      for (int64_t i = 0; i < sizes_.queries; ++i) {
        for (int64_t j = 0; j < sizes_.keys; ++j, ++number) {
          if (window.shows(i + sizes_.past, j)) continue;
          *number = static_cast<T>(-kInfinity);
          hides = true;
        }
      }
    });
    return hides ? shared(window, std::move(bias)) : nullptr;
  }

  // Layers hide the same: they read one constant.
  Value* shared(const Window& window, Tensor bias) {
    graph::Graph& graph = b_.graph();
    const std::string name = fmt::format("window/{}x{}+{}/{}/{}", sizes_.queries, sizes_.keys,
                                         sizes_.past, window.left, window.right);
    Value* known = graph.find(name);
    if (known != nullptr && known->is_constant() && known->data.identical(bias)) return known;
    return graph.add_constant(graph::fresh_name(graph, name), std::move(bias));
  }

  // numbers[i, j] = j - i + shift, or j alone in one row.
  Value* distances(int64_t rows, int64_t shift) {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < sizes_.keys; ++j) numbers.push_back(j - i + shift);
    }
    return b_.constant(Tensor::of<int64_t>({rows, sizes_.keys}, numbers), "distances");
  }

  // The same for nonpad_kv_seqlen n, with which query i stands at i + n - S: [B,1,S or 1,T].
  Value* hidden_by_lengths() {
    if (c_.x(kNonpad) == nullptr) return nullptr;
    Value* n = b_.op("Unsqueeze", {c_.x(kNonpad), b_.ints({1, 2, 3})});
    Value* seen = b_.op("Less", {distances(1, 0), n});
    const Window window = Window::of(c_.node());
    const auto limit = [&](const char* comparison, int64_t shift) {
      Value* side = b_.op(comparison, {distances(sizes_.queries, sizes_.queries + shift), n});
      seen = b_.op("And", {seen, side});
    };
    if (window.right >= 0) limit("LessOrEqual", -window.right);
    if (window.left >= 0) limit("GreaterOrEqual", window.left);
    return zero_where(seen);
  }

  Value* masked() {
    Value* mask = c_.x(kMask);
    if (mask == nullptr) return nullptr;
    if (mask->type.dtype == DType::kBool) mask = zero_where(mask);
    const int64_t missing = sizes_.keys - mask->type.dims.back().value;
    if (missing <= 0 || c_.node().get_int(kPadMask, 1) == 0) return mask;
    std::vector<int64_t> pads(2 * mask->type.dims.size(), 0);
    pads.back() = missing;
    return b_.op("Pad", {mask, b_.ints(pads), number(-kInfinity)});
  }

  // Whether a query might see no key: what only the run knows might hide them all.
  bool may_be_blind() const {
    const Value* mask = c_.x(kMask);
    if (c_.x(kNonpad) != nullptr || (mask != nullptr && !mask->is_constant())) return true;
    const Tensor numbers = mask == nullptr ? Tensor(dtype_, {sizes_.keys}) : mask->data;
    if (numbers.numel() == 0) return true;
    // [..., S or 1, T]: one row for each query, or for all.
    const int64_t rows = numbers.numel() / numbers.shape().back();
    const int64_t rows_of_queries = numbers.rank() < 2 ? 1 : numbers.shape().end()[-2];
    for (int64_t row = 0; row < rows; row += rows_of_queries) {
      for (int64_t query = 0; query < sizes_.queries; ++query) {
        if (!sees_any(query, numbers, row + query % rows_of_queries)) return true;
      }
    }
    return false;
  }

  bool sees_any(int64_t query, const Tensor& mask, int64_t row) const {
    const Window window = Window::of(c_.node());
    const int64_t columns = mask.shape().back();
    const bool one_for_all = columns == 1 && c_.node().get_int(kPadMask, 1) == 0;
    for (int64_t key = 0; key < (one_for_all ? sizes_.keys : columns); ++key) {
      if (!window.shows(query + sizes_.past, key)) continue;
      const double number = mask.as_double(row * columns + (one_for_all ? 0 : key));
      if (mask.dtype() == DType::kBool ? number != 0 : number != -kInfinity) return true;
    }
    return false;
  }

  // --- Output 3

  ScoresMode mode() const { return scores_mode(c_.node()); }

  void publish(ScoresMode stage, FunctionRef<Value*()> value) {
    if (c_.wants(kScores) && stage == mode()) c_.set(kScores, value());
  }

  ComposeContext& c_;
  OpBuilder& b_;
  DType dtype_;
  Sizes sizes_;
  Value* blind_ = nullptr;  // rows that see no key; null: there are none
};

}  // namespace

void write_attention(ComposeContext& c) { Parts(c).write(); }

}  // namespace sardonyx::ops::attention
