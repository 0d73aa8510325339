// LinearAttention: a matrix S per head that every token adds to, read by the queries
//
// y[t] = scale q[t] S[t]     S[t] = D S[t-1] + k[t] u[t]', D = exp(decay[t]) (linear, delta: 1)
// linear, gated: u[t] = v[t]     delta, gated_delta: u[t] = beta[t] (v[t] - k[t] D S[t-1])
// Inputs   q [B,T,Hq*K]    k [B,T,H*K]    v [B,T,H*V]    past [B,H,K,V] (optional: zeros)
//          decay [B,T,H*K] or [B,T,H]    beta [B,T,H] or [B,T,1], where the rule has them
// Output   y [B,T,Hq*V]    present [B,H,K,V] = the last S (optional)
// Attributes  q_num_heads Hq, kv_num_heads H: Hq / H heads of q read one S
//             update_rule; scale, 0: 1 / sqrt(K); chunk_size: accepted, it changes no result
// C1 one floating type    C2 H divides Hq, they divide the last axes    C3 the shapes agree, T >= 1
// C4 the rule is known, and has its decay and beta
// Gradient that of the nodes it consists of, some ten per token: back through all of them. A past
//          that stands in the file is a constant.
// Source   ONNX LinearAttention-27
#include "ops/linear_attention/linear_attention.h"

#include <algorithm>
#include <cmath>

#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/infer.h"
#include "ops/core/one_type.h"

namespace sardonyx::ops {

namespace {

enum Input : int { kQuery, kKey, kValue, kPast, kDecay, kBeta };

std::string rule_of(const Node& node) { return node.get_string("update_rule", "gated_delta"); }
bool is_gated(const std::string& rule) { return rule == "gated" || rule == "gated_delta"; }
bool is_delta(const std::string& rule) { return rule == "delta" || rule == "gated_delta"; }

struct Heads {
  int64_t query, key;
  explicit Heads(const Node& node)
      : query(node.get_int("q_num_heads", 0)), key(node.get_int("kv_num_heads", 0)) {}
};

// --- Shape

void require_rule(const InferContext& c) {
  const std::string rule = rule_of(c.node());
  c.require(rule == "linear" || is_gated(rule) || is_delta(rule), "C4",
            "update_rule is '{}', expected linear, gated, delta or gated_delta", rule);
  c.require(!is_gated(rule) || c.has(kDecay), "C4", "update_rule {} needs the input decay", rule);
  c.require(!is_delta(rule) || c.has(kBeta), "C4", "update_rule {} needs the input beta", rule);
}

// Entries of a head in the last axis of the input; unknown where that is.
Dim head_size(const InferContext& c, int input, int64_t heads) {
  const Dim& width = c.dims(input)[2];
  if (!width.known()) return {};
  c.require(width.value % heads == 0, "C2", "input {} is {}, which isn't {} heads", input,
            c.type(input).str(), heads);
  return {width.value / heads};
}

// One of the lists of sizes fits the input, if it is there.
void require_shape(const InferContext& c, int input,
                   const std::vector<std::vector<Dim>>& expected) {
  if (!c.has(input) || c.rank(input) < 0) return;
  const bool fits = std::ranges::any_of(expected, [&](const std::vector<Dim>& dims) {
    return std::ranges::equal(c.dims(input), dims, agree);
  });
  c.require(fits, "C3", "input {} is {}, expected {}", input, c.type(input).str(),
            graph::shape_str(expected[0]));
}

void infer_linear_attention(InferContext& c) {
  require_floating(c, kQuery, "C1");
  require_one_type(c, kQuery, c.num_inputs() - 1, "C1");
  require_rule(c);
  const Heads heads(c.node());
  c.require(heads.query >= 1 && heads.key >= 1 && heads.query % heads.key == 0, "C2",
            "q_num_heads is {} and kv_num_heads {}, expected a multiple of the second", heads.query,
            heads.key);
  c.set_unranked(0, c.dtype(kQuery));
  c.set_unranked(1, c.dtype(kQuery));
  for (const int input : {kQuery, kKey, kValue}) {
    if (c.rank(input) < 0) return;
    c.require(c.rank(input) == 3, "C3", "input {} is {}, expected 3 axes", input,
              c.type(input).str());
  }
  const Dim batch = c.dims(kQuery)[0], tokens = c.dims(kQuery)[1], key(heads.key);
  const Dim k = head_size(c, kQuery, heads.query), v = head_size(c, kValue, heads.key);
  c.require(tokens.value != 0, "C3", "input 0 is {}, a sequence of no tokens",
            c.type(kQuery).str());
  const Dim keys = k.known() ? Dim(k.value * heads.key) : Dim();
  require_shape(c, kKey, {{batch, tokens, keys}});
  require_shape(c, kValue, {{batch, tokens, c.dims(kValue)[2]}});
  require_shape(c, kPast, {{batch, key, k, v}});
  require_shape(c, kDecay, {{batch, tokens, keys}, {batch, tokens, key}});
  require_shape(c, kBeta, {{batch, tokens, key}, {batch, tokens, Dim(1)}});
  c.set(0, c.dtype(kQuery), {batch, tokens, v.known() ? Dim(v.value * heads.query) : Dim()});
  c.set(1, c.dtype(kQuery), {batch, key, k, v});
}

// --- Parts

// The tokens of x [B,T,..] one by one, each as [B, and these].
std::vector<Value*> tokens_of(OpBuilder& b, Value* x, const std::vector<int64_t>& shape) {
  const int64_t count = x->type.shape()[1];
  std::vector<int64_t> as = {0};
  as.insert(as.end(), shape.begin(), shape.end());
  Value* sizes = b.ints(as);
  std::vector<Value*> parts = {x};
  if (count > 1) {
    const std::vector<std::string> names(count, "token");
    const std::vector<int64_t> ones(count, 1);
    parts = b.node("", "Split", {x, b.ints(ones)}, names, {{"axis", int64_t{1}}})->outputs();
  }
  for (Value*& part : parts) part = b.op("Reshape", {part, sizes});
  return parts;
}

}  // namespace

void write_linear_attention(ComposeContext& c) {
  OpBuilder& b = c.b();
  const std::string rule = rule_of(c.node());
  const Heads heads(c.node());
  const DType dtype = c.x(kQuery)->type.dtype;
  const int64_t group = heads.query / heads.key;
  const int64_t k = c.x(kQuery)->type.shape()[2] / heads.query;
  const int64_t v = c.x(kValue)->type.shape()[2] / heads.key;
  const double given = c.node().get_float("scale", 0);
  const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(k));

  const std::vector<Value*> queries =
      tokens_of(b, b.op("Mul", {c.x(kQuery), b.scalar(dtype, scale)}), {heads.key, group, k});
  const std::vector<Value*> rows = tokens_of(b, c.x(kKey), {heads.key, 1, k});
  const std::vector<Value*> columns = tokens_of(b, c.x(kKey), {heads.key, k, 1});
  const std::vector<Value*> values = tokens_of(b, c.x(kValue), {heads.key, 1, v});
  std::vector<Value*> decays, betas;
  if (is_gated(rule)) {
    // With one number per head and one per entry of the key alike.
    const int64_t each = c.x(kDecay)->type.shape()[2] / heads.key;
    decays = tokens_of(b, b.op("Exp", {c.x(kDecay)}), {heads.key, each, 1});
  }
  if (is_delta(rule)) betas = tokens_of(b, c.x(kBeta), {c.x(kBeta)->type.shape()[2], 1, 1});

  Value* state = c.x(kPast);
  std::vector<Value*> y;
  for (size_t t = 0; t < queries.size(); ++t) {
    if (state != nullptr && is_gated(rule)) state = b.op("Mul", {state, decays[t]});
    Value* update = values[t];
    if (is_delta(rule)) {
      if (state != nullptr) update = b.op("Sub", {update, b.op("MatMul", {rows[t], state})});
      update = b.op("Mul", {update, betas[t]});
    }
    Value* added = b.op("MatMul", {columns[t], update});
    state = state != nullptr ? b.op("Add", {state, added}) : added;
    y.push_back(
        b.op("Reshape", {b.op("MatMul", {queries[t], state}), b.ints({0, 1, heads.query * v})}));
  }
  if (c.wants(0)) c.set(0, y.size() == 1 ? y[0] : b.op("Concat", y, {{"axis", int64_t{1}}}));
  if (c.wants(1)) c.set(1, state);
}

// --- Definition

void register_linear_attention(OpRegistry& ops) {
  OpDef op;
  op.name = "LinearAttention";
  op.doc = "Queries read a matrix that the keys and values of every token change.";
  op.since = {27};
  op.inputs = {{"query"},
               {"key"},
               {"value"},
               {"past_state", Presence::kOptional, "a state from before"},
               {"decay", Presence::kOptional},
               {"beta", Presence::kOptional}};
  op.outputs = {{"output"}, {"present_state", Presence::kOptional}};
  op.attributes = {{"q_num_heads", "int: heads of the queries"},
                   {"kv_num_heads", "int: heads of keys and values"},
                   {"update_rule", "string, default gated_delta: linear, gated, delta"},
                   {"scale", "float, default 0 (1 / sqrt(K)): multiplies the output"},
                   {"chunk_size", "int, default 64: a hint about speed"}};
  op.infer = infer_linear_attention;
  op.batch = rows_of_all;
  compose(op, write_linear_attention);
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops
