// Attention: y = softmax(scale q k^T + bias) v, per head; q has G times the heads of k and v
//
// Inputs   q [B,H,S,D]   k [B,H/G,L,D]   v [B,H/G,L,E], or with 3 axes [B,S,H*D] and so on
//          attn_mask, broadcast to [B,H,S,T]: bool (true: is seen) or floating (is added)
//          past_key [B,H/G,P,D]   past_value [B,H/G,P,E]: stand in front of k and v, T = P + L
//          nonpad_kv_seqlen int64 [B]: only so many keys of a sample are some
// Outputs  y [B,H,S,E], with 3 axes [B,S,H*E]    present_key [B,H/G,T,D]   present_value
// [B,H/G,T,E]
//          qk_matmul_output [B,H,S,T]: scale q k^T, or what a later step makes of it
// Bias     0 or -inf by attn_mask, is_causal (j <= p), the window (p - left <= j <= p + right) and
//          nonpad_kv_seqlen (j < n), plus a floating attn_mask. Query i stands at p = i + P, with
//          nonpad_kv_seqlen at i + n - S. A query that sees no key gives zeros.
// softcap  c > 0: c tanh(x / c) of the products, before the bias.
// A1 q, k, v, past_key, past_value are of one floating type      A2 q, k, v have 3 axes, or 4
// A3 3 axes: q_num_heads and kv_num_heads are given and divide; 4 axes: they agree where given
// A4 heads of q are a multiple of those of k, which v has too; D, L and B agree
// A5 attn_mask is bool or of the type of q and broadcasts; from opset 24 on it may be shorter than
//    T (as -inf behind its end, also where it has one column)
// A6 past_key and past_value come together, without nonpad_kv_seqlen, and fit k and v
// A7 nonpad_kv_seqlen is int64 [B]
// A8 qk_matmul_output_mode 0 to 3; windows >= -1; softmax_precision is a floating type
// The softmax is taken in the type of q, or in double where softmax_precision asks for that: less
// precision than the operands have is never taken.
// Gradient that of the nodes it consists of: products, Softmax, additions (attention_parts.cc). A
//          floating attn_mask gets one too.
// Source   ONNX Attention-23, 24, 25
#include "ops/attention/attention.h"

#include <cmath>

#include "ops/core/axes.h"
#include "ops/core/broadcast.h"
#include "ops/core/elementwise.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace attention {

ScoresMode scores_mode(const Node& node) {
  return static_cast<ScoresMode>(node.get_int("qk_matmul_output_mode", 0));
}

Window Window::of(const Node& node) {
  Window window{node.get_int("left_window_size", -1), node.get_int("right_window_size", -1)};
  if (node.get_int("is_causal", 0) != 0) window.right = 0;
  return window;
}

namespace {

// --- Schema

void normalize_attention(NormalizeContext& c) {
  if (c.opset() < 24) c.node().attributes[kPadMask] = int64_t{0};
  if (c.opset() < 25) {
    c.node().attributes.erase("left_window_size");
    c.node().attributes.erase("right_window_size");
  }
}

// --- Shape

// An operand as [B, heads, length, size]; what isn't known is -1.
struct Operand {
  Dim batch, heads, length, size;

  static Operand of(const InferContext& c, int input, const char* attribute) {
    const std::vector<Dim>& x = c.dims(input);
    const int64_t heads = c.node().get_int(attribute, 0);
    if (x.size() == 4) {
      c.require(!c.node().has(attribute) || (heads >= 1 && agree(x[1], Dim(heads))), "A3",
                "{} is {}, but input {} is {}", attribute, heads, input, c.type(input).str());
      return {x[0], x[1], x[2], x[3]};
    }
    c.require(heads >= 1, "A3", "{} is {}, expected the number of heads in the last axis of {}",
              attribute, heads, c.type(input).str());
    c.require(!x[2].known() || x[2].value % heads == 0, "A3",
              "{} is {}, which doesn't divide the last axis of input {}, {}", attribute, heads,
              input, c.type(input).str());
    return {x[0], Dim(heads), x[1], x[2].known() ? Dim(x[2].value / heads) : Dim()};
  }
};

void require_agreement(const InferContext& c, const Dim& a, const Dim& b, const char* what,
                       int first, int second) {
  c.require(agree(a, b), "A4", "{} differ: input {} is {}, input {} is {}", what, first,
            c.type(first).str(), second, c.type(second).str());
}

void require_types(const InferContext& c) {
  require_floating(c, kQ, "A1");
  for (const int input : {kK, kV, kPastKey, kPastValue}) require_type_of(c, input, kQ, "A1");
  if (c.has(kNonpad)) {
    c.require(c.dtype(kNonpad) == DType::kInt64, "A7", "nonpad_kv_seqlen is {}, expected int64",
              c.type(kNonpad).str());
  }
  if (c.has(kMask) && c.dtype(kMask) != DType::kBool) {
    require_type_of(c, kMask, kQ, "A5");
  }
}

void require_attributes(const InferContext& c) {
  const int64_t mode = c.node().get_int("qk_matmul_output_mode", 0);
  c.require(mode >= 0 && mode <= 3, "A8", "qk_matmul_output_mode is {}, expected 0 to 3", mode);
  for (const char* window : {"left_window_size", "right_window_size"}) {
    const int64_t size = c.node().get_int(window, -1);
    c.require(size >= -1, "A8", "{} is {}, expected -1 (no limit) or more", window, size);
  }
  const double cap = c.node().get_float("softcap", 0);
  c.require(cap >= 0 && std::isfinite(cap), "A8", "softcap is {}, expected 0 (none) or more", cap);
  const int64_t precision = c.node().get_int("softmax_precision", 1);
  c.require(precision >= 0 && precision <= 16 && graph::is_floating(static_cast<DType>(precision)),
            "A8", "softmax_precision is {}, expected 1, 10, 11 or 16", precision);
}

// Length of the keys, those of the past included.
Dim total_length(const InferContext& c, const Operand& k, const Operand& v) {
  const bool past = c.has(kPastKey);
  c.require(past == c.has(kPastValue), "A6", "past_key and past_value come together only");
  if (!past) return k.length;
  c.require(!c.has(kNonpad), "A6", "nonpad_kv_seqlen is for keys without past_key");
  if (c.rank(kPastKey) < 0 || c.rank(kPastValue) < 0) return Dim();
  const Operand* operands[] = {&k, &v};
  for (const int i : {0, 1}) {
    const int input = kPastKey + i;
    const std::vector<Dim>& x = c.dims(input);
    const Operand& like = *operands[i];
    c.require(x.size() == 4 && agree(x[0], like.batch) && agree(x[1], like.heads) &&
                  agree(x[3], like.size) && agree(x[2], c.dims(kPastKey)[2]),
              "A6", "input {} is {}, which doesn't fit input {}, {}", input, c.type(input).str(),
              kK + i, c.type(kK + i).str());
  }
  const Dim& past_length = c.dims(kPastKey)[2];
  if (!past_length.known() || !k.length.known()) return Dim();
  return Dim(past_length.value + k.length.value);
}

void require_mask(const InferContext& c, const std::vector<Dim>& scores) {
  if (!c.has(kMask) || c.rank(kMask) < 0) return;
  std::vector<Dim> mask = c.dims(kMask);
  const auto fits = [](const Dim& m, const Dim& s) { return m.value == 1 || agree(m, s); };
  bool fit = !mask.empty() && mask.size() <= scores.size();
  for (size_t i = 1; fit && i < mask.size(); ++i) {
    fit = fits(mask.end()[-1 - static_cast<int>(i)], scores.end()[-1 - static_cast<int>(i)]);
  }
  if (fit) {
    const bool shorter = c.node().get_int(kPadMask, 1) != 0 && mask.back().known() &&
                         mask.back().value < scores.back().value;
    fit = shorter || fits(mask.back(), scores.back());
  }
  c.require(fit, "A5", "attn_mask is {}, which doesn't fit [batch, heads, queries, keys] {}",
            c.type(kMask).str(), graph::shape_str(scores));
}

void set_unknown(InferContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_unranked(i, c.dtype(kQ));
}

void infer_attention(InferContext& c) {
  require_types(c);
  require_attributes(c);
  for (const int input : {kQ, kK, kV}) {
    if (c.rank(input) < 0) return set_unknown(c);
    c.require((c.rank(input) == 3 || c.rank(input) == 4) && c.rank(input) == c.rank(kQ), "A2",
              "q is {}, k {}, v {}; expected 3 axes each, or 4", c.type(kQ).str(), c.type(kK).str(),
              c.type(kV).str());
  }
  const Operand q = Operand::of(c, kQ, "q_num_heads"), k = Operand::of(c, kK, "kv_num_heads");
  const Operand v = Operand::of(c, kV, "kv_num_heads");
  require_agreement(c, q.batch, k.batch, "batches", kQ, kK);
  require_agreement(c, k.batch, v.batch, "batches", kK, kV);
  require_agreement(c, k.heads, v.heads, "heads", kK, kV);
  require_agreement(c, k.length, v.length, "lengths", kK, kV);
  require_agreement(c, q.size, k.size, "sizes of a head", kQ, kK);
  c.require(!q.heads.known() || !k.heads.known() ||
                (k.heads.value > 0 && q.heads.value % k.heads.value == 0),
            "A4", "q has {} heads, which is no multiple of the {} of k", q.heads.value,
            k.heads.value);
  const Dim total = total_length(c, k, v);
  const std::vector<Dim> scores{q.batch, q.heads, q.length, total};
  require_mask(c, scores);
  if (c.has(kNonpad) && c.rank(kNonpad) >= 0) {
    c.require(c.rank(kNonpad) == 1 && agree(c.dims(kNonpad)[0], q.batch), "A7",
              "nonpad_kv_seqlen is {}, expected one number for each of {} samples",
              c.type(kNonpad).str(), q.batch.value);
  }
  const DType dtype = c.dtype(kQ);
  if (c.rank(kQ) == 4) {
    c.set(kY, dtype, {q.batch, q.heads, q.length, v.size});
  } else {
    const bool known = q.heads.known() && v.size.known();
    c.set(kY, dtype, {q.batch, q.length, known ? Dim(q.heads.value * v.size.value) : Dim()});
  }
  c.set(kPresentKey, dtype, {k.batch, k.heads, total, k.size});
  c.set(kPresentValue, dtype, {v.batch, v.heads, total, v.size});
  c.set(kScores, dtype, scores);
}

// --- Definition

OpDef attention_op() {
  OpDef op;
  op.name = "Attention";
  op.doc = "Scaled dot products of queries and keys, their softmax over the keys, times values.";
  op.since = {23, 24, 25};
  op.inputs = {{"q"},
               {"k"},
               {"v"},
               {"attn_mask", Presence::kOptional},
               {"past_key", Presence::kOptional},
               {"past_value", Presence::kOptional},
               {"nonpad_kv_seqlen", Presence::kOptional, "integer lengths"}};
  op.outputs = {{"y"},
                {"present_key", Presence::kOptional},
                {"present_value", Presence::kOptional},
                {"qk_matmul_output", Presence::kOptional}};
  op.attributes = {
      {"q_num_heads", "int: heads of q, where it has 3 axes"},
      {"kv_num_heads", "int: heads of k and v, where they have 3 axes"},
      {"scale", "float, default 1 / sqrt(D): factor of the products"},
      {"is_causal", "int, default 0: 1 hides keys behind the query"},
      {"softcap", "float, default 0 (none): bound of the products"},
      {"softmax_precision", "int, default type of q: element type of the softmax"},
      {"qk_matmul_output_mode",
       "int, default 0: the output holds 0 products, 1 those behind softcap, 2 with bias, 3 "
       "probabilities"},
      {"left_window_size", "int, default -1 (no limit): keys seen in front of the query"},
      {"right_window_size", "int, default -1 (no limit): keys seen behind the query"},
      {kPadMask, "private int, default 1: 0 refuses a mask that is shorter than the keys",
       Writer::kRules}};
  op.dtype_attributes = {"softmax_precision"};
  op.normalize = normalize_attention;
  op.infer = infer_attention;
  op.batch = rows_of_all;
  compose(op, write_attention);
  return op;
}

}  // namespace

}  // namespace attention

void register_attention(OpRegistry& ops) {
  ops.add(attention::attention_op());
  ops.add(attention::rotary_op());
}

}  // namespace sardonyx::ops
