// One head of one or two numbers, worked out by hand; the rest by gradients and rows.
#include <gtest/gtest.h>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

struct Operands {
  OpInput q, k, v;
  OpInput past = left_out(), decay = left_out(), beta = left_out();
};

OpCase linear(std::string rule, Operands x, int64_t q_heads = 1, int64_t kv_heads = 1) {
  OpCase c;
  c.claim = rule;
  c.op = "LinearAttention";
  c.inputs = {x.q, x.k, x.v, x.past, x.decay, x.beta};
  c.attributes = {{"update_rule", rule}, {"q_num_heads", q_heads}, {"kv_num_heads", kv_heads}};
  c.num_outputs = 2;
  c.must_run = {"linear_attention.ref"};
  return c;
}

OpInput tokens(std::vector<float> x) {
  return given(floats({1, static_cast<int64_t>(x.size()), 1}, x));
}

OpInput logs_of_halves(int64_t count) { return tokens(std::vector<float>(count, -0.69314718f)); }

// S = 2, 2 + 12, 14 + 10
TEST(LinearAttention, linear_adds_up_keys_times_values) {
  OpCase c = linear("linear", {tokens({1, 2, -1}), tokens({1, 3, 5}), tokens({2, 4, 2})});
  c.expected = {floats({1, 3, 1}, {2, 28, -24}), floats({1, 1, 1, 1}, {24})};
  check_op(c);
  c.attributes["scale"] = 0.5;
  c.expected[0] = floats({1, 3, 1}, {1, 14, -12});
  check_op(c);
}

// S = 10 / 2 + 2, 7 / 2 + 12
TEST(LinearAttention, gated_lets_the_past_decay) {
  OpCase c = linear("gated", {tokens({1, 2}), tokens({1, 3}), tokens({2, 4}),
                              given(floats({1, 1, 1, 1}, {10})), logs_of_halves(2)});
  c.expected = {floats({1, 2, 1}, {7, 31}), floats({1, 1, 1, 1}, {15.5f})};
  check_op(c);
}

// S = 0 + 1/2 (2 - 0), 1 + 2 1/4 (4 - 2)
TEST(LinearAttention, delta_adds_what_the_state_does_not_say_yet) {
  Operands x = {tokens({1, 2}), tokens({1, 2}), tokens({2, 4})};
  x.beta = tokens({0.5f, 0.25f});
  OpCase c = linear("delta", x);
  c.expected = {floats({1, 2, 1}, {1, 4}), floats({1, 1, 1, 1}, {2})};
  check_op(c);
}

// S = 10 / 2 + 1/2 (2 - 5), 3.5 / 2 + 2 1/4 (4 - 3.5)
TEST(LinearAttention, gated_delta_compares_with_what_is_left) {
  Operands x = {tokens({1, 2}),    tokens({1, 2}),
                tokens({2, 4}),    given(floats({1, 1, 1, 1}, {10})),
                logs_of_halves(2), tokens({0.5f, 0.25f})};
  OpCase c = linear("gated_delta", x);
  c.expected = {floats({1, 2, 1}, {3.5f, 4}), floats({1, 1, 1, 1}, {2})};
  check_op(c);
}

// Two entries of k, four of v, which two heads of q read.
TEST(LinearAttention, heads_of_queries_share_a_state) {
  OpCase c = linear("linear",
                    {given(floats({1, 1, 4}, {1, 0, 0, 2})), given(floats({1, 1, 2}, {1, 10})),
                     given(floats({1, 1, 3}, {1, 2, 3}))},
                    2, 1);
  c.attributes["scale"] = 1.0;
  c.expected = {floats({1, 1, 6}, {1, 2, 3, 20, 40, 60}),
                floats({1, 1, 2, 3}, {1, 2, 3, 10, 20, 30})};
  check_op(c);
}

TEST(LinearAttention, every_rule_has_its_gradients_and_runs_by_rows) {
  for (const char* rule : {"linear", "gated", "delta", "gated_delta"}) {
    for (const bool per_entry : {true, false}) {
      OpCase c =
          linear(rule,
                 {random({3, 3, 8}), random({3, 3, 4}), random({3, 3, 6}), random({3, 2, 2, 3}),
                  random({3, 3, per_entry ? 4 : 2}), random({3, 3, per_entry ? 2 : 1})},
                 4, 2);
      const std::string name = rule;
      c.differentiate = name == "linear"  ? std::vector<int>{0, 1, 2}
                        : name == "gated" ? std::vector<int>{0, 1, 2, 4}
                        : name == "delta" ? std::vector<int>{0, 1, 2, 5}
                                          : std::vector<int>{0, 1, 2, 4, 5};
      c.batch = true;
      check_op(c);
    }
  }
}

std::string error(const std::string& rule, Operands x, int64_t q_heads = 1, int64_t kv_heads = 1) {
  return infer_error(linear(rule, std::move(x), q_heads, kv_heads));
}

TEST(LinearAttention, linear_attention_c1_rejects_several_types) {
  EXPECT_NE(error("linear", {tokens({1}), exactly(given(ints({1, 1, 1}, {1}))), tokens({1})})
                .find("C1: input 1 (key)"),
            std::string::npos);
}

TEST(LinearAttention, linear_attention_c2_rejects_heads_that_do_not_divide) {
  const Operands x = {random({2, 3, 6}), random({2, 3, 4}), random({2, 3, 4})};
  EXPECT_NE(error("linear", x, 3, 2).find("C2: q_num_heads is 3 and kv_num_heads 2"),
            std::string::npos);
  EXPECT_NE(error("linear", x, 4, 2).find("C2: input 0 is float[2,3,6], which isn't 4 heads"),
            std::string::npos);
}

TEST(LinearAttention, linear_attention_c3_rejects_shapes_that_do_not_agree) {
  EXPECT_NE(error("linear", {random({2, 3, 4}), random({2, 3, 5}), random({2, 3, 4})})
                .find("C3: input 1 is float[2,3,5], expected [2,3,4]"),
            std::string::npos);
  EXPECT_NE(error("linear",
                  {random({2, 3, 4}), random({2, 3, 4}), random({2, 3, 5}), random({2, 1, 4, 4})})
                .find("C3: input 3 is float[2,1,4,4], expected [2,1,4,5]"),
            std::string::npos);
  EXPECT_NE(error("linear", {random({2, 0, 4}), random({2, 0, 4}), random({2, 0, 4})})
                .find("C3: input 0 is float[2,0,4], a sequence of no tokens"),
            std::string::npos);
  EXPECT_NE(error("linear", {random({3, 4}), random({3, 4}), random({3, 4})})
                .find("C3: input 0 is float[3,4], expected 3 axes"),
            std::string::npos);
}

TEST(LinearAttention, linear_attention_c4_rejects_unknown_rules_and_missing_inputs) {
  const Operands x = {tokens({1}), tokens({1}), tokens({1})};
  EXPECT_NE(error("quadratic", x).find("C4: update_rule is 'quadratic', expected linear"),
            std::string::npos);
  EXPECT_NE(error("gated", x).find("C4: update_rule gated needs the input decay"),
            std::string::npos);
  EXPECT_NE(error("delta", x).find("C4: update_rule delta needs the input beta"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
