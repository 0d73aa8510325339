// ReverseSequence against ONNX Runtime.
#include <gtest/gtest.h>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

OpCase reverse(OpInput x, std::vector<int64_t> lengths, int64_t batch_axis) {
  const auto count = static_cast<int64_t>(lengths.size());
  return {.claim = "reverse",
          .op = "ReverseSequence",
          .inputs = {std::move(x), given(ints({count}, lengths))},
          .attributes = {{"batch_axis", batch_axis}, {"time_axis", 1 - batch_axis}},
          .must_run = {"reverse_sequence.ref"}};
}

TEST(ReverseSequence, turns_the_first_steps_of_each_sequence) {
  OpCase c = reverse(given(doubles({3, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})), {3, 2}, 1);
  c.expected = {doubles({3, 2, 2}, {8, 9, 6, 7, 4, 5, 2, 3, 0, 1, 10, 11})};
  c.dy = c.expected;
  c.expected_gradients = {c.inputs[0].value};
  check_op(c);
  c = reverse(given(doubles({2, 3}, {0, 1, 2, 3, 4, 5})), {1, 3}, 0);
  c.expected = {doubles({2, 3}, {0, 1, 2, 5, 4, 3})};
  check_op(c);
  c = reverse(given(ints({2, 2}, {1, 2, 3, 4})), {0, 2}, 0);
  c.expected = {ints({2, 2}, {1, 2, 4, 3})};
  check_op(c);
}

TEST(ReverseSequence, runs_by_rows_where_the_sequences_come_first) {
  for (const int64_t batch_axis : {0, 1}) {
    OpCase c =
        reverse(random({3, 4, 2}),
                batch_axis == 0 ? std::vector<int64_t>{4, 1, 3} : std::vector<int64_t>{3, 1, 2, 3},
                batch_axis);
    c.batch = batch_axis == 0;
    check_op(c);
  }
}

TEST(ReverseSequence, v1_to_v3_reject_axes_and_lengths_that_dont_fit) {
  EXPECT_EQ(infer_error(reverse(random({3}), {1, 2, 3}, 0)).find("V1: x is float[3]"), 0u);
  OpCase c = reverse(random({3, 2}), {1, 2}, 1);
  c.attributes["time_axis"] = int64_t{1};
  EXPECT_EQ(infer_error(c).find("V2: batch_axis 1 and time_axis 1 are not 0 and 1"), 0u);
  EXPECT_EQ(infer_error(reverse(random({3, 2}), {1, 2, 3}, 1))
                .find("V3: sequence_lens are int64[3], expected one for each of 2 sequences"),
            0u);
}

TEST(ReverseSequence, v4_names_a_length_beyond_the_steps) {
  try {
    reference(reverse(random({3, 2}), {1, 4}, 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "node reverse (ReverseSequence): sequence 1 has length 4, expected 0 to 3");
  }
}

}  // namespace
}  // namespace sardonyx::test
