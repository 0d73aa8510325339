// MaxUnpool: where values go, what overwrites what, constraints.
#include <gtest/gtest.h>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using Ints = std::vector<int64_t>;

const Attributes kTwo{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};

OpCase unpool(Tensor x, Tensor indices, Attributes attributes) {
  OpCase c;
  c.claim = c.op = "MaxUnpool";
  c.inputs = {given(std::move(x)), given(std::move(indices))};
  c.attributes = std::move(attributes);
  c.must_run = {"max_unpool.ref"};
  return c;
}

TEST(MaxUnpool, puts_values_where_they_were_found) {
  OpCase c = unpool(doubles({1, 1, 2, 2}, {1, 2, 3, 4}), ints({1, 1, 2, 2}, {5, 7, 13, 15}), kTwo);
  c.expected = {doubles({1, 1, 4, 4}, {0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4})};
  check_op(c);
}

TEST(MaxUnpool, indices_count_the_whole_tensor) {
  OpCase c = unpool(doubles({2, 1, 2}, {1, 2, 3, 4}), ints({2, 1, 2}, {7, 2, 4, 1}),
                    {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}});
  c.expected = {doubles({2, 1, 4}, {0, 4, 2, 0, 3, 0, 0, 1})};
  c.dy = {doubles({2, 1, 4}, {1, 2, 3, 4, 5, 6, 7, 8})};
  c.expected_gradients = {doubles({2, 1, 2}, {8, 3, 5, 2})};
  check_op(c);
}

TEST(MaxUnpool, output_shape_puts_the_map_in_its_first_corner) {
  OpCase c = unpool(doubles({1, 1, 2, 2}, {1, 2, 3, 4}), ints({1, 1, 2, 2}, {5, 7, 13, 15}), kTwo);
  c.inputs.push_back(constant_ints({1, 1, 5, 5}));
  c.expected = {doubles(
      {1, 1, 5, 5}, {0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 0})};
  check_op(c);
}

TEST(MaxUnpool, pads_are_cut_off) {
  OpCase c = unpool(doubles({1, 1, 2}, {1, 2}), ints({1, 1, 2}, {0, 1}),
                    {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"pads", Ints{1, 1}}});
  c.expected = {doubles({1, 1, 2}, {1, 2})};
  check_op(c);
}

TEST(MaxUnpool, the_last_value_for_a_cell_stays_and_has_its_gradient) {
  OpCase c = unpool(doubles({1, 1, 3}, {1, 2, 3}), ints({1, 1, 3}, {1, 1, 2}),
                    {{"kernel_shape", Ints{2}}});
  c.expected = {doubles({1, 1, 4}, {0, 2, 3, 0})};
  c.dy = {doubles({1, 1, 4}, {1, 2, 4, 8})};
  c.expected_gradients = {doubles({1, 1, 3}, {0, 2, 4})};
  check_op(c);
}

TEST(MaxUnpool, names_an_index_beyond_the_maps) {
  const auto message = [](int64_t index) {
    try {
      reference(unpool(doubles({1, 1, 2}, {1, 2}), ints({1, 1, 2}, {0, index}),
                       {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}}));
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_NE(message(4).find("indices[1] is 4, expected 0 to 3"), std::string::npos) << message(4);
  EXPECT_NE(message(-1).find("indices[1] is -1, expected 0 to 3"), std::string::npos);
}

TEST(MaxUnpool, constraints) {
  const auto error = [](Ints x, Ints indices, Attributes attributes, Ints shape = {}) {
    OpCase c = unpool(doubles(x, std::vector<double>(graph::checked_numel(x))),
                      ints(indices, Ints(graph::checked_numel(indices))), std::move(attributes));
    if (!shape.empty()) c.inputs.push_back(constant_ints(std::move(shape)));
    return infer_error(c).substr(0, 3);
  };
  EXPECT_EQ(error({1, 1, 2, 2}, {1, 1, 2, 2}, kTwo), "");
  EXPECT_EQ(error({1, 2}, {1, 2}, kTwo), "U1:");
  EXPECT_EQ(error({1, 1, 2}, {1, 1, 2}, kTwo), "U2:");
  EXPECT_EQ(error({1, 1, 2, 2}, {1, 1, 2, 3}, kTwo), "U3:");
  EXPECT_EQ(error({1, 1, 1}, {1, 1, 1}, {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 1}}}), "U5:");
  EXPECT_EQ(error({1, 1, 2, 2}, {1, 1, 2, 2}, kTwo, {1, 1, 4, 3}), "U6:");
  EXPECT_EQ(error({1, 1, 2, 2}, {1, 1, 2, 2}, kTwo, {1, 2, 4, 4}), "U6:");
}

TEST(MaxUnpool, its_gradient_operator_reads_at_the_indices) {
  OpCase c;
  c.claim = c.op = "MaxUnpoolGrad";
  c.domain = "sardonyx";
  c.inputs = {given(doubles({1, 1, 3, 2}, {1, 2, 3, 4, 5, 6})), given(ints({1, 1, 1, 2}, {3, 0}))};
  c.attributes = {{"kernel_shape", Ints{2, 1}}};  // maps of 2 x 2, in a corner of y
  c.expected = {doubles({1, 1, 1, 2}, {4, 1})};
  check_op(c);
}

}  // namespace
}  // namespace sardonyx::test
