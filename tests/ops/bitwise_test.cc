// Bits worked out by hand.
#include <gtest/gtest.h>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::DType;

Tensor integers(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> values) {
  return ints(std::move(shape), values).cast(dtype);
}

OpCase on(std::string op, Tensor a, Tensor b, Tensor y) {
  return {.claim = op,
          .op = op,
          .inputs = {given(std::move(a)), given(std::move(b))},
          .expected = {std::move(y)},
          .must_run = {"bitwise.ref", "bitwise.broadcast"}};
}

TEST(Bitwise, and_or_and_xor_go_bit_by_bit_in_every_type) {
  for (DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUint8,
                      DType::kUint16, DType::kUint32, DType::kUint64}) {
    const Tensor a = integers(dtype, {4}, {0b0011, 0b0101, 127, 0});
    const Tensor b = integers(dtype, {4}, {0b0110, 0b0101, 1, 9});
    check_op(on("BitwiseAnd", a, b, integers(dtype, {4}, {0b0010, 0b0101, 1, 0})));
    check_op(on("BitwiseOr", a, b, integers(dtype, {4}, {0b0111, 0b0101, 127, 9})));
    check_op(on("BitwiseXor", a, b, integers(dtype, {4}, {0b0101, 0, 126, 9})));
  }
}

TEST(Bitwise, signed_integers_are_their_two_s_complement) {
  check_op(on("BitwiseAnd", ints({3}, {-1, -2, -8}), ints({3}, {5, 7, 12}), ints({3}, {5, 6, 8})));
  check_op(on("BitwiseOr", ints({2}, {-8, 1}), ints({2}, {3, -2}), ints({2}, {-5, -1})));
  check_op(on("BitwiseXor", ints({2}, {-1, 5}), ints({2}, {-1, -1}), ints({2}, {0, -6})));
}

TEST(Bitwise, operands_broadcast_and_keep_rows) {
  OpCase c = on("BitwiseAnd", ints({2, 2}, {7, 6, 5, 4}), ints({2, 1}, {3, 4}),
                ints({2, 2}, {3, 2, 4, 4}));
  c.batch = true;
  c.must_run.push_back("bitwise.lanes");
  check_op(c);
}

TEST(Bitwise, not_turns_every_bit) {
  check_op({.claim = "signed",
            .op = "BitwiseNot",
            .inputs = {given(ints({4}, {0, -1, 5, -6}))},
            .expected = {ints({4}, {-1, 0, -6, 5})},
            .batch = true,
            .must_run = {"bitwise.ref"}});
  check_op({.claim = "unsigned",
            .op = "BitwiseNot",
            .inputs = {given(integers(DType::kUint8, {3}, {0, 255, 0x0f}))},
            .expected = {integers(DType::kUint8, {3}, {255, 0, 0xf0})}});
}

OpCase shift(const char* direction, DType dtype, std::vector<int64_t> x, std::vector<int64_t> by,
             std::vector<int64_t> y) {
  const auto n = static_cast<int64_t>(x.size());
  OpCase c =
      on("BitShift", integers(dtype, {n}, x), integers(dtype, {n}, by), integers(dtype, {n}, y));
  c.attributes = {{"direction", std::string(direction)}};
  return c;
}

TEST(Bitwise, shift_multiplies_and_divides_by_powers_of_two) {
  for (DType dtype : {DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64}) {
    check_op(shift("LEFT", dtype, {16, 4, 1}, {1, 2, 3}, {32, 16, 8}));
    check_op(shift("RIGHT", dtype, {16, 4, 1}, {1, 2, 3}, {8, 1, 0}));
  }
}

TEST(Bitwise, shift_drops_what_leaves_the_type_and_all_from_its_width_on) {
  check_op(shift("LEFT", DType::kUint8, {255, 129, 1, 1}, {4, 1, 7, 8}, {240, 2, 128, 0}));
  check_op(shift("RIGHT", DType::kUint8, {255, 129, 128, 255}, {4, 7, 8, 200}, {15, 1, 0, 0}));
  check_op(shift("LEFT", DType::kUint16, {0xffff}, {15}, {0x8000}));
  check_op(shift("LEFT", DType::kUint64, {1, 1}, {63, 64}, {-1 - 0x7fffffffffffffff, 0}));
}

TEST(Bitwise, shift_of_signed_integers_keeps_the_sign_to_the_right) {
  for (DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64}) {
    check_op(shift("RIGHT", dtype, {-8, -1, 16, -7}, {1, 1, 2, 1}, {-4, -1, 4, -4}));
    check_op(shift("RIGHT", dtype, {-8, 4, -1, -8, 8}, {64, 65, 127, -1, -1}, {-1, 0, -1, -1, 0}));
    check_op(shift("LEFT", dtype, {-3, 5, -8, 4, -1}, {1, 3, 64, 65, -1}, {-6, 40, 0, 0, 0}));
  }
  check_op(shift("LEFT", DType::kInt8, {64, 1, -64}, {1, 7, 1}, {-128, -128, -128}));
}

TEST(Bitwise, bitwise_c2_takes_integers_of_one_type) {
  const auto error = [](Tensor a, Tensor b) {
    return infer_error(on("BitwiseAnd", std::move(a), std::move(b), {}));
  };
  EXPECT_NE(error(bools({1}, {true}), bools({1}, {true})).find("C2: input 0 is bool, expected int"),
            std::string::npos);
  EXPECT_NE(error(ints({1}, {1}), integers(DType::kInt8, {1}, {1})).find("C2: "),
            std::string::npos);
}

TEST(Bitwise, bitwise_c3_rejects_other_directions) {
  EXPECT_NE(infer_error(shift("UP", DType::kUint8, {1}, {1}, {2}))
                .find("C3: direction is 'UP', expected LEFT or RIGHT"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
