// Conversions with their corner cases, written out.
#include <gtest/gtest.h>

#include <limits>

#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::DType;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

graph::Attributes to(DType dtype) { return {{"to", static_cast<int64_t>(dtype)}}; }

OpCase cast(OpInput x, DType dtype, Tensor y = {}) {
  OpCase c;
  c.claim = fmt::format("Cast to {}", graph::dtype_name(dtype));
  c.op = "Cast";
  c.inputs = {std::move(x)};
  c.attributes = to(dtype);
  if (y.defined()) c.expected = {std::move(y)};
  c.must_run = {"cast.ref", "cast.threaded"};
  return c;
}

TEST(Cast, floats_truncate_and_saturate) {
  const Tensor x = floats({7}, {-2.7f, 2.7f, -0.5f, 1e20f, -1e20f, kNan, kInf});
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  OpCase c = cast(given(x), DType::kInt64, ints({7}, {-2, 2, 0, kMin, kMin, 0, kMax}));
  c.expected = {ints({7}, {-2, 2, 0, kMax, kMin, 0, kMax})};
  c.differentiate = std::vector<int>{};
  check_op(c);
  c = cast(given(x), DType::kUint8, ints({7}, {0, 2, 0, 255, 0, 0, 255}));
  c.differentiate = std::vector<int>{};
  check_op(c);
}

OpCase bit_cast(Tensor x, DType dtype, Tensor y = {}) {
  OpCase c;
  c.claim = fmt::format("BitCast to {}", graph::dtype_name(dtype));
  c.op = "BitCast";
  c.inputs = {exactly(given(std::move(x)))};
  c.attributes = to(dtype);
  if (y.defined()) c.expected = {std::move(y)};
  c.batch = true;
  c.must_run = {"cast.ref"};
  return c;
}

TEST(Cast, bit_cast_reads_the_bytes_as_they_are) {
  const Tensor x = floats({4}, {1, -2, 0, kInf});
  const Tensor bits = ints({4}, {0x3f800000, 0xc0000000, 0, 0x7f800000}).cast(DType::kUint32);
  check_op(bit_cast(x, DType::kUint32, bits));
  check_op(bit_cast(bits, DType::kFloat32, x));
  check_op(bit_cast(ints({2}, {-1, 5}), DType::kUint64, ints({2}, {-1, 5}).cast(DType::kUint64)));
  check_op(bit_cast(ints({2}, {-1, 5}).cast(DType::kInt8), DType::kUint8,
                    ints({2}, {255, 5}).cast(DType::kUint8)));
}

TEST(Cast, cast_c2_bit_cast_keeps_the_size_of_an_element) {
  EXPECT_NE(infer_error(bit_cast(ints({2}, {1, 2}), DType::kFloat32))
                .find("C2: input 0 is int64, which has 8 bytes, but float has 4"),
            std::string::npos);
}

TEST(Cast, numbers_become_booleans_and_back) {
  OpCase c = cast(given(floats({4}, {0, -0.0f, 0.1f, kNan})), DType::kBool,
                  bools({4}, {false, false, true, true}));
  c.differentiate = std::vector<int>{};
  check_op(c);
  check_op(cast(given(bools({2}, {true, false})), DType::kFloat32, floats({2}, {1, 0})));
}

TEST(Cast, integers_wrap) {
  check_op(cast(given(ints({3}, {300, -1, 7})), DType::kUint8, ints({3}, {44, 255, 7})));
  check_op(cast(given(ints({2}, {1LL << 33, 5})), DType::kInt32, ints({2}, {0, 5})));
}

TEST(Cast, between_all_pairs_of_types) {
  const std::vector<DType> types = {
      DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt8,
      DType::kInt16,   DType::kInt32,   DType::kInt64,   DType::kUint8,    DType::kUint16,
      DType::kUint32,  DType::kUint64,  DType::kBool};
  for (DType from : types) {
    for (DType target : types) {
      OpCase c =
          cast(exactly(given(floats({3}, {0, 1, 1}).cast(from))), target, floats({3}, {0, 1, 1}));
      c.differentiate = std::vector<int>{};
      check_op(c);
    }
  }
}

TEST(Cast, half_precision_rounds_to_even) {
  OpCase c = cast(given(floats({3}, {1.0f, 2049.0f, 70000.0f})), DType::kFloat16,
                  floats({3}, {1, 2048, kInf}));
  c.differentiate = std::vector<int>{};
  check_op(c);
}

TEST(Cast, the_gradient_passes_between_floating_types) {
  OpCase c = cast(random({3, 4}), DType::kFloat64);
  c.batch = true;
  check_op(c);
  c = cast(random({3, 4}), DType::kFloat16);
  c.numeric = Numeric::kSkip;
  c.dy = {floats({3, 4}, std::vector<float>(12, 0.5f))};
  c.expected_gradients = {floats({3, 4}, std::vector<float>(12, 0.5f))};
  check_op(c);
}

TEST(Cast, the_gradient_stops_at_integers) {
  OpCase c = cast(given(floats({2}, {1.5f, 2.5f})), DType::kInt64, ints({2}, {1, 2}));
  c.seeds = std::vector<int>{0};
  c.dy = {ints({2}, {1, 1})};
  c.expected_gradients = {floats({2}, {0, 0})};
  c.zero_gradients = {0};
  check_op(c);
}

TEST(Cast, cast_like_takes_the_type_of_the_second_input) {
  OpCase c;
  c.claim = c.op = "CastLike";
  c.inputs = {given(floats({3}, {1.5f, -2, 3})), constant(ints({1}, {0}))};
  c.expected = {ints({3}, {1, -2, 3})};
  c.differentiate = std::vector<int>{};
  c.batch = true;
  c.must_run = {"cast.ref", "cast.threaded"};
  check_op(c);
  EXPECT_EQ(inferred_type(c), "int64[N:3]");
}

TEST(Cast, cast_c1_rejects_types_that_are_no_numbers) {
  OpCase c = cast(random({2}), DType::kString);
  c.claim = "c1";
  EXPECT_EQ(infer_error(c),
            "C1: attribute 'to' is 8, which is no supported type of numbers\n  while inferring "
            "shapes of node c1 (Cast)");
  c.attributes = {{"to", int64_t{99}}};
  EXPECT_NE(infer_error(c).find("C1: attribute 'to' is 99"), std::string::npos);
}

TEST(Cast, normalize_reads_the_type_names_of_opset_1) {
  graph::Graph g;
  graph::Value* x = g.add_input("x", {DType::kInt64, {2}});
  graph::Node* node = g.add_node("", "Cast", {x}, {"y"});
  node->attributes = {{"to", std::string("FLOAT")}};
  ops::normalize_node(*node, 1);
  EXPECT_EQ(node->get_int("to", 0), 1);
}

}  // namespace
}  // namespace sardonyx::test
