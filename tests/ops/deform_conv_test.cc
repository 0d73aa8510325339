// DeformConv against sums written out elsewhere (interpolation tap by tap), and against Conv where
// no tap is moved.
#include <gtest/gtest.h>

#include "tests/ops/wave.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

// No tap lies on a cell, where the gradient to its offset has a kink.
Tensor offsets(const Ints& shape, double scale) {
  Tensor tensor = wave(shape, 3);
  for (double& v : tensor.mutable_data<double>()) v = v * scale + 0.05;
  return tensor;
}

OpCase deform(std::vector<OpInput> inputs, Attributes attributes) {
  OpCase c;
  c.claim = c.op = "DeformConv";
  c.inputs = std::move(inputs);
  c.attributes = std::move(attributes);
  c.expected_tolerance = {1e-10, 1e-11};
  c.float_tolerance = {1e-5, 1e-5};
  c.must_run = {"deform_conv.ref"};
  return c;
}

TEST(DeformConv, groups_of_channels_and_of_offsets_mask_and_bias) {
  OpCase c = deform({given(wave({2, 4, 4, 3}, 1)), parameter(given(wave({4, 2, 2, 2}, 2))),
                     given(offsets({2, 16, 3, 2}, 1.3)), parameter(given(wave({4}, 5))),
                     given(wave({2, 8, 3, 2}, 4))},
                    {{"group", int64_t{2}},
                     {"offset_group", int64_t{2}},
                     {"strides", Ints{1, 2}},
                     {"pads", Ints{0, 1, 0, 1}},
                     {"kernel_shape", Ints{2, 2}}});
  c.batch = true;
  c.expected = {
      doubles({2, 4, 3, 2},
              {-0.560180664062, -0.524837036133, -0.750224609375,  -0.492658691406, -0.451083984375,
               -0.482814941406, -0.05419921875,  0.188225708008,   0.584384765625,  -0.06490234375,
               -0.115023193359, -0.395120849609, 1.00671691895,    0.0965295410156, 0.816740722656,
               0.296329956055,  0.246577148438,  0.00752319335937, 0.704536132812,  0.867039794922,
               0.422391967773,  0.625237426758,  0.71744140625,    0.959700927734,  0.16728515625,
               -0.399311523438, -0.509462890625, -0.675807495117,  -0.233737182617, 0.395329589844,
               -0.23037109375,  -0.114409179688, -0.161848144531,  -0.273599243164, 0.0552410888672,
               -0.678178710937, 0.220335083008,  0.132823486328,   -0.142813720703, 0.700018310547,
               -0.226029052734, 0.621594238281,  0.623323974609,   0.767503662109,  0.635885009766,
               0.439302978516,  1.20825073242,   0.714156494141})};
  check_op(c);
}

TEST(DeformConv, one_axis_with_stride_and_dilation) {
  OpCase c =
      deform({given(wave({1, 2, 5}, 1)), given(wave({3, 2, 2}, 2)), given(offsets({1, 2, 3}, 1.3))},
             {{"strides", Ints{2}}, {"pads", Ints{1, 1}}, {"dilations", Ints{2}}});
  c.expected = {doubles({1, 3, 3}, {0.2953125, -0.598828125, 0.2548828125, -0.91953125, -0.2609375,
                                    0.81640625, 0.34921875, 0.0337890625, -0.298828125})};
  check_op(c);
}

TEST(DeformConv, three_axes) {
  OpCase c = deform({given(wave({1, 1, 3, 3, 2}, 1)), given(wave({1, 1, 2, 2, 2}, 2)),
                     given(offsets({1, 24, 2, 2, 1}, 0.6))},
                    {});
  c.expected = {
      doubles({1, 1, 2, 2, 1}, {-0.629424804688, 0.6119140625, -0.845396484375, 0.42985546875})};
  check_op(c);
}

TEST(DeformConv, interpolates_by_hand) {
  // Taps at 0.5, between 1 and 2, and half a cell outside, where the other half is 0.
  OpCase c = deform({given(doubles({1, 1, 3}, {1, 2, 4})), given(doubles({1, 1, 1}, {10})),
                     given(doubles({1, 1, 3}, {0.5, 0, 0.5}))},
                    {});
  c.expected = {doubles({1, 1, 3}, {15, 20, 20})};
  c.dy = {doubles({1, 1, 3}, {1, 1, 1})};
  c.expected_gradients = {doubles({1, 1, 3}, {5, 15, 5}), doubles({1, 1, 1}, {1.5 + 2 + 2}),
                          doubles({1, 1, 3}, {10, 20, -40})};
  c.numeric = Numeric::kSkip;
  check_op(c);
}

TEST(DeformConv, taps_that_stay_make_a_convolution) {
  const Ints x{2, 2, 4, 5}, w{3, 2, 3, 2};
  const Attributes window{{"pads", Ints{1, 0, 1, 0}}, {"strides", Ints{2, 1}}};
  OpCase conv;
  conv.op = "Conv";
  conv.inputs = {given(wave(x, 1)), given(wave(w, 2))};
  conv.attributes = window;
  OpCase c = deform({given(wave(x, 1)), given(wave(w, 2)),
                     given(doubles({2, 12, 2, 4}, Numbers(2 * 12 * 8, 0.0)))},
                    window);
  c.expected = reference(conv);
  c.differentiate = {0, 1};
  check_op(c);
}

TEST(DeformConv, places_far_outside_give_zero_and_no_gradient) {
  OpCase c = deform({given(doubles({1, 1, 2}, {1, 2})), given(doubles({1, 1, 1}, {3})),
                     given(doubles({1, 1, 2}, {-7, 1e30}))},
                    {});
  c.expected = {doubles({1, 1, 2}, {0, 0})};
  c.zero_gradients = {0, 1, 2};
  check_op(c);
}

TEST(DeformConv, constraints) {
  const auto error = [](Ints x, Ints w, Ints offset, Attributes attributes, Ints mask = {}) {
    OpCase c = deform({random(std::move(x)), random(std::move(w)), random(std::move(offset))},
                      std::move(attributes));
    if (!mask.empty()) c.inputs.insert(c.inputs.end(), {left_out(), random(std::move(mask))});
    return infer_error(c).substr(0, 3);
  };
  EXPECT_EQ(error({1, 2, 3, 3}, {1, 2, 2, 2}, {1, 8, 2, 2}, {}), "");
  EXPECT_EQ(error({1, 2}, {1, 2}, {1, 8}, {}), "D1:");
  EXPECT_EQ(error({1, 2, 3, 3}, {1, 3, 2, 2}, {1, 8, 2, 2}, {}), "D2:");
  EXPECT_EQ(error({1, 2, 3, 3}, {3, 1, 2, 2}, {1, 8, 2, 2}, {{"group", int64_t{2}}}), "D3:");
  EXPECT_EQ(error({1, 2, 3, 3}, {1, 2, 2, 2}, {1, 8, 2, 2}, {{"kernel_shape", Ints{3, 2}}}), "D4:");
  EXPECT_EQ(error({1, 2, 3, 3}, {1, 2, 2, 2}, {1, 8, 2, 2}, {{"kernel_shape", Ints{-1, 2}}}),
            "D4:");
  EXPECT_EQ(error({1, 2, 3, 3}, {1, 2, 2, 2}, {1, 8, 2, 2}, {{"offset_group", int64_t{0}}}), "D7:");
  EXPECT_EQ(error({1, 2, 3, 3}, {1, 2, 2, 2}, {1, 4, 2, 2}, {}), "D8:");
  EXPECT_EQ(error({1, 2, 3, 3}, {1, 2, 2, 2}, {1, 8, 2, 2}, {}, {1, 3, 2, 2}), "D9:");
  EXPECT_EQ(error({1, 2, 3, 3}, {1, 2, 4, 4}, {1, 32, 1, 1}, {}), "W6:");
}

// The operators of its parts: one tap, half way between cells 0 and 1, with the mask 2.
TEST(DeformConv, parts_work_per_row) {
  const OpInput x = given(doubles({1, 1, 2}, {3, 5})), offset = given(doubles({1, 1, 1}, {0.5}));
  const OpInput mask = given(doubles({1, 1, 1}, {2})), back = given(doubles({1, 1, 1}, {10}));
  OpCase c = deform({x, offset, mask}, {{"kernel_shape", Ints{1}}, {"strides", Ints{2}}});
  c.domain = "sardonyx";
  c.batch = true;
  c.claim = c.op = "DeformColumns";
  c.expected = {doubles({1, 1, 1}, {8})};
  check_op(c);
  c.claim = c.op = "DeformColumnsGradOffset";
  c.inputs = {x, offset, mask, back};
  c.num_outputs = 2;
  c.expected = {doubles({1, 1, 1}, {2 * 10 * (5 - 3)}), doubles({1, 1, 1}, {10 * 4})};
  check_op(c);
  c.claim = c.op = "DeformColumnsGradData";
  c.inputs = {offset, mask, back};
  c.num_outputs = 1;
  c.attributes["input_shape"] = Ints{2};
  c.expected = {doubles({1, 1, 2}, {10, 10})};
  check_op(c);
}

}  // namespace
}  // namespace sardonyx::test
